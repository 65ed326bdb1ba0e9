//! The readers of an instance's requests, where a rule or the result asks for them.

mod pacing;
mod slow_steps;
mod track;

use serde::{Deserialize, Serialize};

pub(crate) use track::Track;

use super::fact::{Fact, Subject};
use crate::config::Pace;
use crate::hint::rare;
use crate::instance::request::Slot;
use crate::instance::run::Run;
use crate::metrics::Columns;
use crate::time::Ticks;
use pacing::Pacing;

/// Readers by slot. Without a pace, there are no readers and every call does nothing.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Readers {
    pacing: Option<Box<Pacing>>,
    /// Whether a routing rule reads when one reader runs out.
    reads_slack: bool,
}

impl Readers {
    /// No readers. `asks_on_pace`: whether it is asked if all are on pace.
    pub(crate) fn new(pace: Option<Pace>, asks_on_pace: bool, reads_slack: bool) -> Self {
        Self { pacing: pace.map(|pace| Box::new(Pacing::new(pace, asks_on_pace))), reads_slack }
    }

    /// Whether there can be readers.
    pub(crate) fn exist(&self) -> bool {
        self.pacing.is_some()
    }

    /// Whether a routing rule reads when one reader runs out.
    pub(crate) fn reads_slack(&self) -> bool {
        self.reads_slack
    }

    /// Ticks in which a reader takes a token; 0 without readers.
    pub(crate) fn interval(&self) -> Ticks {
        self.pacing.as_ref().map_or(0, |pacing| pacing.interval())
    }

    /// Notes what happened to a request, and writes its quality of experience when it has finished.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "the fact is known where it is told")]
    pub(super) fn observe(&mut self, fact: Fact, of: Subject, columns: &mut Columns) {
        if self.pacing.is_some() {
            rare();
            self.note(fact, of, columns);
        }
    }

    /// As [`Self::observe`], where there are readers.
    #[inline(never)]
    fn note(&mut self, fact: Fact, of: Subject, columns: &mut Columns) {
        let Some(pacing) = &mut self.pacing else { return };
        let (slot, now, reasoning) = (of.slot, of.now, of.reasoning().unwrap_or(0));
        match fact {
            Fact::Yielded { .. } if of.state.generated > reasoning => pacing.token(slot, now),
            Fact::Yielded { .. } if of.state.generated == reasoning => pacing.begin_answer(slot, now),
            Fact::Joined { step } => pacing.join(slot, step),
            Fact::Passed { generated, .. } if generated == reasoning => pacing.begin_answer(slot, now),
            Fact::Passed { generated, step, .. } if generated == reasoning + 1 => {
                pacing.first_in_set(slot, step, now);
            }
            Fact::Finished => {
                let (answering, asked) = pacing.experience(slot);
                columns.qoe_answering[of.index()] = answering;
                if let Some(asked) = asked {
                    columns.qoe[of.index()] = asked;
                }
                pacing.remove(slot);
            }
            Fact::Dropped | Fact::Cancelled { .. } => {
                pacing.remove(slot);
            }
            _ => {}
        }
    }

    /// Adds the reader of a request that arrived at `arrival`.
    pub(crate) fn open(&mut self, slot: Slot, arrival: Ticks) {
        if let Some(pacing) = &mut self.pacing {
            rare();
            pacing.open(slot, arrival);
        }
    }

    /// Adds the reader of a request that was migrated in.
    pub(crate) fn receive(&mut self, slot: Slot, track: Option<Track>) {
        if let (Some(pacing), Some(track)) = (&mut self.pacing, track) {
            pacing.receive(slot, track);
        }
    }

    /// Removes a reader, and returns its track.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Track> {
        self.pacing.as_mut().map(|pacing| pacing.remove(slot))
    }

    /// A member leaves the decode set, which has taken `step` steps and then has
    /// `left` members. If it stays on the instance, its deadline is to be noted.
    pub(crate) fn leave(&mut self, slot: Slot, step: u64, left: u64) {
        if let Some(pacing) = &mut self.pacing {
            rare();
            pacing.leave(slot, step);
            if left == 0 {
                pacing.clear();
            }
        }
    }

    /// Notes when the reader of a request outside the decode set runs out.
    pub(crate) fn note_deadline(&mut self, slot: Slot) {
        if let Some(pacing) = &mut self.pacing {
            rare();
            pacing.note_deadline(slot);
        }
    }

    /// The decode set has taken `steps` steps of a run, which ended at `end`, and
    /// `after` in all. `late`: members for which the first of them was the first with
    /// the set.
    pub(crate) fn advance(
        &mut self,
        run: &Run,
        steps: u64,
        end: Ticks,
        after: u64,
        late: impl Iterator<Item = Slot>,
    ) {
        let Some(pacing) = &mut self.pacing else { return };
        pacing.advance(run, steps, end, after);
        for slot in late {
            pacing.first_after_joining_late(slot, after - steps + 1, run.start + run.series.first);
        }
    }

    /// When a reader runs out of tokens, if it reads or its first token is due; the
    /// decode set has taken `step` steps.
    pub(crate) fn deadline(&self, slot: Slot, step: u64) -> Option<i128> {
        self.pacing.as_ref().and_then(|pacing| pacing.deadline(slot, step))
    }

    /// Whether every reader has tokens left at `now`. The decode set took its latest
    /// step, the `step`th, at `ended`.
    pub(crate) fn all_on_pace(&mut self, now: Ticks, step: u64, ended: Ticks) -> bool {
        self.pacing.as_mut().is_none_or(|pacing| pacing.all_on_pace(now, step, ended))
    }

    /// A request outside the decode set, or without tokens yet, whose reader has run
    /// out.
    pub(crate) fn out_of_tokens(&self, now: Ticks) -> Option<Slot> {
        self.pacing.as_ref().and_then(|pacing| pacing.out_of_tokens(now))
    }

    /// Whether no reader runs out in a run whose steps are shorter than the interval:
    /// each waits at least as long for its first token as for any other.
    pub(crate) fn are_patient(&self) -> bool {
        self.pacing.as_ref().is_none_or(|pacing| pacing.is_patient())
    }
}
