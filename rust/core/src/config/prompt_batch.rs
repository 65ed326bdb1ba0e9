//! Prompts that wait for others while requests decode.

use serde::Deserialize;

use super::composition::Breach;
use super::{QueueOrder, SchedulerConfig, Stage};

/// When prompts are admitted beside decodes: once a step has enough tokens, or once they were held back for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PromptBatch {
    /// Tokens of a step, of its decodes and of the prompts that it could admit, from which on it admits them.
    pub tokens: u64,
    /// The most steps in which prompts are held back.
    pub steps: u64,
}

impl SchedulerConfig {
    /// Whether a step runs all requests, then admits whole prompts, first come, first served.
    pub(super) fn admits_whole_prompts(&self) -> bool {
        let runs = matches!(
            *self.stages,
            [
                Stage::Running,
                Stage::Admit { chunked: false, unless_swapped: false, count_decodes: true, gather: None, .. }
            ]
        );
        runs && self.order == QueueOrder::Arrival
    }

    /// The stages beside which prompts wait for others.
    pub(super) fn check_prompt_batch(&self) -> Result<(), Breach> {
        if self.prompt_batch.is_none() || self.admits_whole_prompts() {
            return Ok(());
        }
        let rule =
            "must be null unless a step runs all requests, then admits whole prompts in the order of arrival";
        Err(("prompt_batch", rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, PrefixCacheConfig};
    use crate::engine::fixtures;

    /// A configuration with an instance whose prompts wait.
    fn config() -> Config {
        let mut config = fixtures::config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let rules = &mut config.instances[0].scheduler;
        rules.prompt_batch = Some(PromptBatch { tokens: 10, steps: 4 });
        rules.stages = vec![
            Stage::Running,
            Stage::Admit {
                chunked: false,
                unless_preempted: true,
                unless_swapped: false,
                count_decodes: true,
                gather: None,
            },
        ];
        config
    }

    /// The refusal of its scheduler, changed by `change`.
    fn refusal(change: impl Fn(&mut SchedulerConfig)) -> Option<(String, String)> {
        let mut config = config();
        change(&mut config.instances[0].scheduler);
        if let Err((field, rule)) = config.instances[0].scheduler.check_prompt_batch() {
            return Some((field.to_owned(), rule.to_owned()));
        }
        let said = config.check_exclusions().err()?.to_string();
        said.split_once(": ").map(|(field, rule)| (field.to_owned(), rule.to_owned()))
    }

    #[test]
    fn prompts_wait_only_where_they_are_whole() {
        assert_eq!(refusal(|_| ()), None);
        let (field, rule) = refusal(|rules| {
            if let Stage::Admit { chunked, .. } = &mut rules.stages[1] {
                *chunked = true;
            }
        })
        .expect("a prompt that is cut is refused");
        assert!(field == "prompt_batch" && rule.contains("admits whole prompts"), "{field}: {rule}");
    }

    #[test]
    fn prompts_that_may_be_cached_are_refused() {
        let cache = || Some(PrefixCacheConfig { unknown_first: true, evict: None, tree: None });
        let (_, rule) = refusal(|rules| rules.prefix_cache = cache()).expect("a cache is refused");
        assert!(rule.contains("where prefixes are cached"), "{rule}");
    }

    #[test]
    fn prompts_wait_for_those_of_their_instance_alone() {
        let mut together = config();
        assert_eq!(together.check_exclusions(), Ok(()));
        together.pace = Some(crate::config::Pace { interval: 1, first: 1, ttft: None });
        let error = together.check_exclusions().expect_err("a pace is refused").to_string();
        assert!(error.contains("instances[0].scheduler: must hold no prompts back"), "{error}");
    }
}
