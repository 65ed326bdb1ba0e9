//! Which schedulers may decide steps ahead where tokens are drafted, or drop what such a decision does not know.

use super::composition::Breach;
use super::{DraftSlots, Preemption, SchedulerConfig, SpeculationConfig, Stage};

impl SchedulerConfig {
    /// Refuses to drop the tokens of preempted requests where steps preempt otherwise than by the decodes alone.
    ///
    /// A token that may be dropped is told of once the next step is decided: at the end of a step after which the decodes
    /// lack blocks. So nothing else may take blocks before them, and no block is cached that is scheduled and not computed.
    pub(super) fn check_drop_unseen(&self) -> Result<(), Breach> {
        if !self.drop_unseen {
            return Ok(());
        }
        if !self.schedule_ahead {
            return Err(("drop_unseen", "must be false unless steps are decided ahead (schedule_ahead)"));
        }
        if self.output_reserve.is_none() || !(self.exclusive_prefill || self.decodes_sit_out()) {
            let rule = "must be false unless admissions leave room for outputs to come (output_reserve) and decodes leave \
                        steps to prefills (exclusive_prefill, or decodes that sit out)";
            return Err(("drop_unseen", rule));
        }
        if self.prefix_cache.is_some() && !self.has_prefix_tree() {
            return Err(("drop_unseen", "must be false beside a prefix cache that is no tree"));
        }
        if self.spare_block {
            return Err(("drop_unseen", "must be false beside spare_block"));
        }
        Ok(())
    }

    /// Refuses steps that run past the ends of requests unless decisions know nothing of the step before them.
    pub(super) fn check_unseen_ends(&self) -> Result<(), Breach> {
        if self.unseen_ends && (!self.drop_unseen || self.decodes_first || !self.preempts_plainly()) {
            let rule = "must be false unless tokens that a decision does not know are dropped (drop_unseen), with \
                        exclusive_prefill and without decodes_first, spare_block and stop_at_own_preemption";
            return Err(("unseen_ends", rule));
        }
        Ok(())
    }

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
        if drafts.slots == DraftSlots::TwoSteps {
            return Err("must not have slots for two steps with schedule_ahead");
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
    use crate::config::{
        Config, DraftAcceptance, DraftSlots, Listed, PrefixCacheConfig, PrefixTreeConfig, ReserveConfig,
        SchedulerConfig, SpeculationConfig,
    };
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
            slots: DraftSlots::default(),
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
    fn a_token_is_dropped_only_where_decodes_alone_preempt() {
        let config = fixtures::config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let mut rules = config.instances[0].scheduler.clone();
        let refused = |rules: &SchedulerConfig| rules.check_drop_unseen().err().map(|(_, rule)| rule);
        assert_eq!(refused(&rules), None);
        rules.drop_unseen = true;
        assert!(refused(&rules).is_some_and(|rule| rule.contains("schedule_ahead")));
        rules.schedule_ahead = true;
        assert!(refused(&rules).is_some_and(|rule| rule.contains("output_reserve")));
        rules.output_reserve = Some(ReserveConfig { first: 1, least: 1, steps: 1, after: 1, clip: 1 });
        assert!(refused(&rules).is_some_and(|rule| rule.contains("exclusive_prefill")));
        rules.exclusive_prefill = true;
        assert_eq!(refused(&rules), None);
        rules.prefix_cache = Some(PrefixCacheConfig { unknown_first: true, evict: None, tree: None });
        assert!(refused(&rules).is_some_and(|rule| rule.contains("tree")));
        let tree = Some(PrefixTreeConfig { passes: 32, most: 128, least_load: 0 });
        rules.prefix_cache = Some(PrefixCacheConfig { unknown_first: true, evict: None, tree });
        assert_eq!(refused(&rules), None);
    }

    #[test]
    fn steps_run_past_ends_only_where_decisions_drop_tokens_and_decodes_preempt_alone() {
        let config = fixtures::config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let plain = SchedulerConfig {
            unseen_ends: true,
            drop_unseen: true,
            exclusive_prefill: true,
            spare_block: false,
            stop_at_own_preemption: false,
            decodes_first: false,
            ..config.instances[0].scheduler.clone()
        };
        assert_eq!(plain.check_unseen_ends(), Ok(()));
        let changes: [fn(&mut SchedulerConfig); 5] = [
            |rules| rules.drop_unseen = false,
            |rules| rules.exclusive_prefill = false,
            |rules| rules.spare_block = true,
            |rules| rules.stop_at_own_preemption = true,
            |rules| rules.decodes_first = true,
        ];
        for change in changes {
            let mut rules = plain.clone();
            change(&mut rules);
            assert!(rules.check_unseen_ends().is_err_and(|(field, _)| field == "unseen_ends"));
            rules.unseen_ends = false;
            assert_eq!(rules.check_unseen_ends(), Ok(()));
        }
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
