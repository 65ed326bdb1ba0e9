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

    /// Begins again with the first share, if the instance has no request and none is handed over to it.
    #[inline(never)]
    pub(super) fn reset_reserve(&mut self) {
        let copies = self.on.tiers.tree.as_deref().is_some_and(|tree| tree.next_end().is_some());
        if !copies
            && self.on.batch.running() + self.on.queued() + self.on.transfers.receiving() == 0
            && let Some(reserve) = &mut self.on.reserve
        {
            reserve.reset();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use crate::config::{ReserveConfig, Stage};
    use crate::engine::fixtures::config;
    use crate::time::Ticks;
    use crate::trace::Trace;

    /// When three requests are scheduled, the last two of which arrive at `later` and `later + 1`.
    fn scheduled(later: Ticks) -> Vec<Ticks> {
        let mut config = config(&[35], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let scheduler = &mut config.instances[0].scheduler;
        let decodes = Stage::Decodes { charged: true, seated: true, over_prefills: false, sits_out: false };
        scheduler.stages = vec![Stage::Prefills, scheduler.stages[1].clone(), decodes];
        scheduler.output_reserve =
            Some(ReserveConfig { first: 1_000_000, least: 0, steps: 50, after: 20, clip: 4096 });
        let trace = Trace {
            arrival: vec![0, later, later + 1].into(),
            prompt_tokens: vec![16, 16, 16].into(),
            output_tokens: vec![100, 300, 300].into(),
            ..Trace::default()
        };
        let mut simulation = Simulation::new(&config, trace).unwrap();
        while !simulation.advance(1).unwrap() {}
        simulation.into_outcome().columns.scheduled.into_vec()
    }

    #[test]
    fn an_instance_without_requests_begins_again_with_the_first_share() {
        // The first request finishes after its prompt, of 116 ticks, and 99 decodes of 101.
        let end = 116 + 99 * 101;
        // The steps of its decodes have lowered the share to 0: both others fit.
        let at = scheduled(end - 500);
        assert!(at[1] < end && at[2] < end, "{at:?}");
        // Of 560 tokens, the two outputs would take 600.
        let at = scheduled(end + 500);
        assert_eq!(at[1], end + 500);
        assert!(at[2] > end + 500 + 116, "it does not fit beside the output of the other, {at:?}");
    }
}
