//! Prompts that may not be admitted beside the requests that run, though there is room for them.
//!
//! The limit of adapters is that of vLLM's waiting loop (`max_loras`, `vllm/v1/core/sched/scheduler.py`). The limits of
//! prefills are proposed for V1 (`max_concurrent_prefills` of pull request 55256, the two limits of partial
//! prefills of 49075, which V0 had in `PartialPrefillMetadata`), and batches of one bucket are those of multi-bin
//! batching (arXiv 2412.04504). A request that resumes with its KV is not held up.

use super::Stages;
use crate::instance::effects::{Candidate, Place};
use crate::instance::queues::Queued;
use crate::instance::request::{Phase, Slot};
use crate::trace::RequestNumber;

/// Whether a prompt may be admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joins {
    Yes,
    /// It is passed over in this step.
    Later,
    /// No prompt is admitted in this step any more.
    None,
}

/// The requests that were passed over while a step is formed, in order.
#[derive(Debug, Default)]
pub(super) struct PassedOver {
    queued: Vec<Queued>,
    ranked: Vec<Slot>,
}

impl PassedOver {
    /// Whether no request was passed over.
    pub(super) fn is_empty(&self) -> bool {
        self.queued.is_empty() && self.ranked.is_empty()
    }
}

impl Stages<'_> {
    /// Whether a candidate may be admitted beside the requests that run. `hit`: tokens of it that are cached.
    #[inline(never)]
    pub(super) fn joins(&self, candidate: Candidate, hit: u32) -> Joins {
        if candidate.phase != Phase::Preempted {
            return Joins::Yes;
        }
        if self.is_under_way(candidate) {
            return Joins::Later;
        }
        let joining = &self.effects.settings.scheduler.joining;
        if joining.prefills > 0 && self.prefills_under_way().count() as u64 >= joining.prefills {
            return Joins::None;
        }
        let lacking = u64::from(candidate.target - hit);
        if joining.long_prefills > 0 && self.is_long(lacking) {
            let long = self.prefills_under_way().filter(|&lacking| self.is_long(lacking)).count() as u64;
            if long >= joining.long_prefills {
                return Joins::Later;
            }
        }
        let waits = self.is_of_other_bucket(candidate.request) || self.lacks_slot(candidate.request);
        if waits { Joins::Later } else { Joins::Yes }
    }

    /// Whether a candidate was preempted while a batch with it is under way: it is admitted once that has ended.
    pub(super) fn is_under_way(&self, candidate: Candidate) -> bool {
        matches!(candidate.place, Place::Slot(slot) if self.effects.batch.is_flying(slot))
    }

    /// The tokens that each request in prefill lacks as the step starts, those admitted in it included.
    fn prefills_under_way(&self) -> impl Iterator<Item = u64> {
        let requests = &self.effects.requests;
        let states = self.effects.batch.outside().iter().map(|&slot| &requests[slot]);
        states.filter(|state| state.phase == Phase::Prefilling).map(|state| u64::from(state.lacking()))
    }

    fn is_long(&self, lacking: u64) -> bool {
        let threshold = self.draft.limits.threshold;
        threshold > 0 && lacking > threshold
    }

    /// Whether the first of the running requests is in another bucket than `request`.
    fn is_of_other_bucket(&self, request: RequestNumber) -> bool {
        let Some(of) = &self.effects.settings.scheduler.joining.bucket else { return false };
        let requests = &self.effects.requests;
        let Some(first) = self.effects.batch.order().current(requests).next() else { return false };
        let bucket = |request| {
            self.effects.reader().sort_key_of_arrival(of, request, self.draft.now, self.effects.trace)
        };
        bucket(requests[first].request) != bucket(request)
    }

    /// Whether the adapters of the running requests leave no slot for that of `request`.
    fn lacks_slot(&self, request: RequestNumber) -> bool {
        let Some(adapters) = &self.effects.observers.adapters else { return false };
        let adapter = self.effects.trace.adapter_of(request.index());
        adapter.is_some_and(|adapter| !adapters.may_join(adapter))
    }

    /// Passes a candidate over: it leaves the queue until [`Self::put_back_passed`].
    #[inline(never)]
    pub(super) fn pass_over(&mut self, candidate: Candidate, passed: &mut PassedOver) {
        let slot = match candidate.place {
            Place::Slot(slot) => Some(slot),
            Place::Arrival | Place::Front => None,
        };
        if let (Some(slot), true) = (slot, self.effects.ranking.is_some()) {
            self.effects.take_out_of_order(slot);
            passed.ranked.push(slot);
        } else {
            self.effects.take_first_queued();
            passed.queued.push(Queued { request: candidate.request, slot });
        }
    }

    /// Puts the requests that were passed over back into their places.
    #[inline(never)]
    pub(super) fn put_back_passed(&mut self, PassedOver { queued, ranked }: PassedOver) {
        self.effects.put_back(ranked);
        for queued in queued.into_iter().rev() {
            self.effects.put_back_first(queued);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_passed_over_in_the_queue_or_by_rank() {
        let queued = vec![Queued { request: RequestNumber(3), slot: None }];
        assert!(PassedOver::default().is_empty());
        assert!(!PassedOver { queued, ranked: Vec::new() }.is_empty());
        assert!(!PassedOver { queued: Vec::new(), ranked: vec![3] }.is_empty());
    }
}
