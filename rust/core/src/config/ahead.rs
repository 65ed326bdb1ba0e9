//! Which schedulers may decide steps ahead where tokens are drafted.

use super::{Preemption, SchedulerConfig, SpeculationConfig, Stage};

impl SchedulerConfig {
    /// The rule that a scheduler breaks which decides steps ahead beside drafts, if it breaks one.
    ///
    /// The decision counts drafts as accepted that may be rejected. What becomes of that is known of the stages of vLLM V1
    /// only, in which a preempted request does not come back before its outcome is known.
    pub(super) fn check_drafts_ahead(&self, drafts: &SpeculationConfig) -> Result<(), &'static str> {
        if !self.schedule_ahead {
            return Ok(());
        }
        let [Stage::Running, Stage::Admit { unless_preempted: true, gather: None, count_decodes: true, .. }] =
            self.stages.as_slice()
        else {
            return Err(
                "must be null with schedule_ahead unless the stages are running, then admit with unless_preempted",
            );
        };
        if self.preemption != Preemption::Recompute || self.requeue_late {
            return Err(
                "must be null with schedule_ahead unless preemption is recompute, without requeue_late",
            );
        }
        if self.exclusive_prefill || self.decodes_first {
            return Err("must be null with schedule_ahead beside exclusive_prefill or decodes_first");
        }
        if drafts.proposals.is_some() {
            return Err(
                "must have no proposals with schedule_ahead: a step that is decided ahead does not know them",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, DraftAcceptance, Listed, SchedulerConfig, SpeculationConfig};
    use crate::engine::fixtures;

    /// The refusal of a scheduler that decides steps ahead, changed by `change`, beside drafts.
    fn refusal(change: impl Fn(&mut Config)) -> Option<String> {
        let mut config = fixtures::config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        config.instances[0].scheduler.schedule_ahead = true;
        config.instances[0].speculation = Some(SpeculationConfig {
            tokens: 1,
            by_batch: Vec::new(),
            proposals: None,
            acceptance: DraftAcceptance::Periodic { yields: vec![2] },
            lookahead: 1,
            input_slots: 0,
            hash_lookahead: 0,
            drops_last_block: false,
            pads: true,
            draft: None,
        });
        change(&mut config);
        config.check_ahead().err().map(|error| error.to_string())
    }

    #[test]
    fn drafts_are_decided_ahead_by_the_stages_of_vllm_only() {
        assert_eq!(refusal(|_| {}), None);
        assert_eq!(refusal(|config| config.instances[0].speculation = None), None);
        let scheduler = |change: fn(&mut SchedulerConfig)| {
            refusal(|config| change(&mut config.instances[0].scheduler)).unwrap_or_default()
        };
        let listed = |config: &mut Config| {
            if let Some(drafts) = &mut config.instances[0].speculation {
                drafts.proposals = Some(Listed { stride: 5, values: vec![1] });
            }
        };
        let refused = [
            (scheduler(|rules| rules.stages.reverse()), "stages"),
            (scheduler(|rules| rules.requeue_late = true), "requeue_late"),
            (scheduler(|rules| rules.decodes_first = true), "decodes_first"),
            (scheduler(|rules| rules.exclusive_prefill = true), "exclusive_prefill"),
            (refusal(listed).unwrap_or_default(), "proposals"),
        ];
        for (said, word) in refused {
            assert!(said.contains("instances[0].speculation") && said.contains(word), "{word}: {said}");
        }
    }
}
