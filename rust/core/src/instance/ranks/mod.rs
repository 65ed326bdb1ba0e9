//! The ranks of an instance's requests, kept current.
//!
//! A [`Ranking`] has the order of the requests, and a [`Reader`] the state from which their ranks are computed. A rank is
//! evaluated when something happens to its request, and when it expires. These rules change nothing but the ranking.

mod arrivals;
mod horizon;
mod refresh;

use super::ranking::{BestQueued, Evaluation, List, Ranking};
use super::request::{Phase, Slot};
use super::view::{Reader, RequestView};
use crate::policy::ReqField;
use crate::time::Ticks;
use crate::trace::Trace;

/// The ranking of an instance, with the state from which ranks are computed.
#[derive(Debug)]
pub(super) struct Ranks<'a> {
    ranking: &'a mut Ranking,
    reader: Reader<'a>,
    /// Queued requests that are not ranked: they are not on the GPU, or come from another instance.
    unranked: u64,
    trace: &'a Trace,
    /// Whether a step is being formed: what the prefix cache has is looked up then only.
    forms: bool,
}

impl<'a> Ranks<'a> {
    pub(super) fn new(ranking: &'a mut Ranking, reader: Reader<'a>, unranked: u64, trace: &'a Trace) -> Self {
        Self { ranking, reader, unranked, trace, forms: false }
    }
}

impl Ranks<'_> {
    /// Steps of the instance.
    fn steps(&self) -> u64 {
        self.reader.observers.stats.work.steps
    }

    /// Steps of the decode set.
    fn step(&self) -> u64 {
        self.reader.batch.decode_set().step()
    }

    /// Requests that the latest step did not run.
    fn idle(&self) -> u64 {
        self.ranking.idle() + self.unranked
    }

    /// Evaluates the rank of a request. `keys`: whether the keys of its class are evaluated too.
    pub(super) fn evaluate(&mut self, slot: Slot, now: Ticks, keys: bool) {
        self.evaluate_behind(slot, now, None, keys);
    }

    /// Evaluates the rank of a request after an event of its own, if that may change it.
    pub(super) fn evaluate_after_event(&mut self, slot: Slot, now: Ticks) {
        let runs = self.ranking.list(slot) == List::Running;
        if !(runs && self.ranking.inputs().stay_while_running()) {
            let keys = self.ranking.evaluates_always();
            self.evaluate_behind(slot, now, None, keys);
        }
    }

    /// Evaluates the rank of a request; of a member of the decode set that stays one, as it was `behind` of the set's steps
    /// ago. Returns whether the rank changed.
    #[inline(never)]
    fn evaluate_behind(&mut self, slot: Slot, now: Ticks, behind: Option<u64>, keys: bool) -> bool {
        if self.ranking.is_settled(slot) {
            return false;
        }
        let continues = behind.is_some();
        let behind = behind.unwrap_or(0);
        let mut view = self.view(slot, now, behind);
        let steps = if view.decoding { self.step() - behind } else { self.steps() };
        self.ranking.evaluate(slot, &mut view, Evaluation { keys, steps, continues }, self.trace)
    }

    /// The view of a request with what ranks read, as it was `behind` of the decode set's steps ago.
    fn view(&self, slot: Slot, now: Ticks, behind: u64) -> RequestView {
        let inputs = *self.ranking.inputs();
        let mut view = self.reader.base_view(slot, Some(self.ranking), now, behind);
        if inputs.read(ReqField::Blocks) {
            view.takes.blocks = self.reader.seen_blocks(slot, view.computed, now);
        }
        if inputs.read(ReqField::SlackS) {
            view.deadline = self.reader.deadline(slot);
        }
        if self.forms && !view.running && inputs.read(ReqField::CachedTokens) {
            view.takes.cached = self.reader.cached_tokens(&view, self.trace);
        }
        view
    }

    /// Moves a request to another list of the ranking, and evaluates its rank.
    pub(super) fn move_to(&mut self, slot: Slot, to: List, now: Ticks) {
        let steps = self.steps();
        if to == List::Running && !self.ranking.inputs().change_with_admission() {
            self.ranking.admit(slot, now, steps);
            return;
        }
        self.ranking.move_to(slot, to, now, steps);
        if to != List::Gone && !self.evaluate_behind(slot, now, None, true) {
            self.ranking.place(slot);
        }
    }

    /// Adds a request that has come to the instance, where it has been admitted for `attained` before. Returns whether it is
    /// the best queued one, or may be selected.
    pub(super) fn enter(&mut self, slot: Slot, now: Ticks, attained: Ticks) -> bool {
        let idle = self.ranking.idle();
        let counts_idle = self.ranking.inputs().read(ReqField::IdleSteps);
        // A step in progress does not count as one for which the request was queued.
        let begun = self.reader.run.current().filter(|_| counts_idle).map_or(0, |run| {
            let ended = run.steps_ended(now);
            ended + u64::from(run.after(ended) < now || ended == 0 && run.begun)
        });
        let steps = self.steps() + begun;
        self.ranking.enter(slot, now, steps, attained);
        self.evaluate(slot, now, true);
        if self.reader.settings.selects {
            return self.may_select(slot, idle);
        }
        self.is_next(BestQueued::Slot(slot))
    }

    /// Whether a request that came is the best queued one; or none may be admitted, so that the next step may add quanta to
    /// accumulators.
    fn is_next(&self, came: BestQueued) -> bool {
        let best = self.ranking.best_queued();
        best == Some(came) || best.is_none() && self.ranking.shares_keys()
    }

    /// Whether a request that was queued may change which requests the coming steps select. `idle`: requests that the
    /// latest step did not run, without it. If there were none, ranks of running requests may not be current.
    fn may_select(&mut self, slot: Slot, idle: u64) -> bool {
        let Reader { settings, batch, .. } = self.reader;
        let full = batch.decode_set().len() >= settings.scheduler.max_num_seqs;
        if !full || idle == 0 {
            return true;
        }
        let rank = self.ranking.rank(slot);
        self.ranking.worst_running().is_none_or(|worst| rank < self.ranking.rank(worst))
    }

    /// Moves an admitted request to the running list. Its rank sees the blocks that it now holds.
    pub(super) fn admit(&mut self, slot: Slot, now: Ticks) {
        self.move_to(slot, List::Running, now);
        let decodes = self.reader.requests[slot].phase == Phase::Decoding;
        if decodes && !self.ranking.inputs().change_with_admission() {
            self.evaluate(slot, now, true);
        }
    }
}
