//! Requests that arrive from the router.

use super::Effects;
use crate::hint::rare;
use crate::instance::queues::Queued;
use crate::time::Ticks;
use crate::trace::RequestNumber;

impl Effects<'_> {
    /// Queues a request. Returns when the run in progress now ends, if the arrival
    /// truncates it.
    pub(crate) fn arrive(&mut self, request: RequestNumber, announced: bool, now: Ticks) -> Option<Ticks> {
        self.apply_listed(now);
        self.on.observers.stats.occupancy.count_waiting(self.waiting(), now);
        let row = request.index();
        let prompt = self.trace.prompt_tokens[row];
        let prefill = self.on.settings.prefill_where_read(prompt);
        self.on.observers.load.add_arrival(prompt, prefill);
        self.on.observers.flow.add_arrival(prompt);
        let held = self.on.settings.scheduler.holds_arrivals();
        // Of those that come between two steps, the one that arrived first is queued first.
        let first = if announced && self.on.ranking.is_none() {
            rare();
            self.on.queues.ahead_mut().push_announced(request, now);
            true
        } else if held {
            rare();
            self.on.queues.ahead_mut().push(Queued { request, slot: None }, now);
            true
        } else if self.on.ranking.is_some() {
            rare();
            self.rank_arrival(request, now)
        } else {
            self.on.queues.waiting_mut().push_arrival(request, self.trace)
        };
        if let Some(tier) = self.on.tiers.chunks.as_deref_mut() {
            rare();
            tier.join_queue(request);
        }
        if let Some(tree) = self.on.tiers.tree.as_deref_mut() {
            rare();
            tree.join_queue(request);
        }
        let waiting = self.waiting();
        self.on.observers.stats.occupancy.note_waiting(waiting);
        self.recorder.columns.instance[row] = self.on.settings.index;
        if let Some(last) = self.recorder.columns.last_instance.get_mut(row) {
            *last = self.on.settings.index;
        }
        // While the head of the queue is blocked, a later arrival cannot be admitted before
        // the next completion, which ends the run anyway; unless its rank drifts, or limits
        // depend on it.
        if self.on.settings.limits.any_arrival_counts {
            rare();
            self.on.run.truncate(now)
        } else if held {
            rare();
            let ahead = self.on.settings.scheduler.schedule_ahead;
            self.on.run.truncate_at_receipt(self.on.queues.receipts(), ahead, now)
        } else if first {
            self.on.run.truncate(now)
        } else {
            self.truncate_by_rank(now)
        }
    }

    /// Adds a new request to the ranking. Returns whether it is the best queued one, or may be selected.
    #[inline(never)]
    fn rank_arrival(&mut self, request: RequestNumber, now: Ticks) -> bool {
        let Some(mut ranks) = self.ranks() else { return false };
        if ranks.keep_arrivals() {
            return ranks.add_arrival(request, now);
        }
        let slot = self.add_request(request);
        self.enter_ranking(slot, now, 0)
    }

    /// Ends the run in progress before the rank of a request changes that arrived at `now`. Returns when the run now ends,
    /// if that changed.
    fn truncate_by_rank(&mut self, now: Ticks) -> Option<Ticks> {
        let run = *self.on.run.current().filter(|run| run.steps > 1)?;
        let steps = self.ranks()?.steps_after_arrival(&run)?;
        self.on.run.truncate_to(steps, now)
    }
}
