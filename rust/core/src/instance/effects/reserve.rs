//! Room that admissions leave for the outputs of running requests.

use super::Effects;

impl Effects<'_> {
    /// Admits no request before one leaves, if any decodes.
    pub(in crate::instance) fn close_admissions(&mut self) {
        let running = self.on.admitted();
        if let Some(reserve) = &mut self.on.reserve {
            reserve.close(running);
        }
    }

    /// Admits requests again.
    pub(in crate::instance) fn open_admissions(&mut self) {
        if let Some(reserve) = &mut self.on.reserve {
            reserve.open();
        }
    }

    /// Notes a round of forming a step, after which a preemption has the reserve estimated anew.
    pub(in crate::instance) fn end_round_of_reserve(&mut self, preempted: bool) {
        let estimate = preempted.then(|| {
            let decoding = self.on.decoding_in_order();
            let (mut requests, mut generated, mut outputs) = (0, 0, 0);
            for slot in decoding.into_iter().filter(|&slot| !self.on.requests[slot].phase.has_ended()) {
                requests += 1;
                generated += u64::from(self.on.seen_generated(slot));
                outputs += u64::from(self.trace.output_tokens[self.on.requests[slot].request.index()]);
            }
            (requests, generated, outputs)
        });
        let Some(reserve) = &mut self.on.reserve else { return };
        reserve.end_round(preempted);
        if let Some((requests, generated, outputs)) = estimate {
            reserve.estimate(requests, generated, outputs);
        }
    }

    /// Counts steps that have ended.
    #[inline(never)]
    pub(super) fn advance_reserve(&mut self, steps: u64) {
        let prompts = self.on.batch.runs_prefills(&self.on.requests);
        if let Some(reserve) = &mut self.on.reserve {
            reserve.advance(steps, prompts);
        }
    }

    /// Begins again with the first share, if the instance has no request.
    #[inline(never)]
    pub(super) fn reset_reserve(&mut self) {
        let copies = self.on.tiers.tree.as_deref().is_some_and(|tree| tree.next_end().is_some());
        if !copies
            && self.on.batch.running() + self.on.queued() == 0
            && let Some(reserve) = &mut self.on.reserve
        {
            reserve.reset();
        }
    }
}
