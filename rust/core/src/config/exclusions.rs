//! Mechanisms that are not modelled beside one another.
//!
//! Each pair is said once, in [`EXCLUSIONS`]. Conditions on one mechanism alone, and on the order of stages, are checked
//! where the mechanism is configured.

use std::ops::Deref;

use super::{Admission, Allocation, Config, DraftSlots, InstanceConfig, Preemption, QueueOrder};
use crate::error::Error;

/// An instance of a configuration.
#[derive(Clone, Copy)]
struct Own<'a> {
    index: usize,
    config: &'a InstanceConfig,
}

impl Deref for Own<'_> {
    type Target = InstanceConfig;

    fn deref(&self) -> &InstanceConfig {
        self.config
    }
}

/// Whether an instance of a configuration has a mechanism.
type Given = fn(&Config, Own<'_>) -> bool;

/// A mechanism that excludes others: whether an instance has it, and the words after "where" in a refusal.
struct Other(Given, &'static str);

/// A setting that others exclude.
struct Exclusion {
    /// Its path, behind that of its instance.
    field: &'static str,
    given: Given,
    others: &'static [Other],
    /// The rule beside any of the others, and the words for the value that breaks it.
    must: (&'static str, &'static str),
    /// Words on what a user may do, if that is not plain.
    advice: fn(&InstanceConfig) -> String,
}

/// A setting that must be left out beside the others.
const fn left_out(field: &'static str, given: Given, others: &'static [Other]) -> Exclusion {
    Exclusion { field, given, others, must: ("must be null", "was given"), advice: |_| String::new() }
}

const AHEAD: Other = Other(|_, own| own.scheduler.schedule_ahead, "steps are decided ahead (schedule_ahead)");
const LATE_ARRIVALS: Other =
    Other(|_, own| own.scheduler.receive_interval > 1, "arrivals are not queued at once (receive_interval)");
const RANKED: Other =
    Other(|_, own| matches!(own.scheduler.order, QueueOrder::Ranked(_)), "requests are ranked");
const DISPLACED: Other = Other(|_, own| own.scheduler.admission != Admission::Wait, "requests are displaced");
const SELECTED: Other =
    Other(|_, own| own.scheduler.selects(), "a stage selects the requests of each step by rank");
const LAYERED: Other = Other(|_, own| own.scheduler.is_layered(), "prefills run by groups of layers");
const SWAPPED: Other =
    Other(|_, own| own.scheduler.preemption != Preemption::Recompute, "preempted requests are swapped out");
const SWAPPED_WITHOUT_RESERVE: Other = Other(
    |config, own| {
        let accepts = config.handover.is_some_and(|handover| handover.reserve.is_some());
        SWAPPED.0(config, own) && !accepts
    },
    "preempted requests are swapped out, and none is accepted beside a reserve (handover.reserve)",
);
const RESERVED: Other = Other(
    |_, own| own.scheduler.output_reserve.is_some(),
    "admissions leave room for outputs to come (output_reserve)",
);
const SIT_OUT: Other =
    Other(|_, own| own.scheduler.decodes_sit_out(), "decodes sit out where they lack blocks");
const DECODES_FIRST: Other = Other(
    |_, own| own.scheduler.decodes_first,
    "prefills are moved behind decodes after each step (decodes_first)",
);
const CHUNKS_VARY: Other =
    Other(|_, own| own.scheduler.varying.chunk.is_some(), "the most tokens of a chunk vary");
const PASSED_OVER: Other = Other(|_, own| own.scheduler.joining.is_limited(), "prompts are passed over");
const TREE: Other = Other(
    |_, own| own.scheduler.has_prefix_tree(),
    "a radix tree has the cached prefixes (prefix_cache.tree)",
);
const CACHED: Other = Other(|_, own| own.scheduler.prefix_cache.is_some(), "prefixes are cached");
const CACHED_BY_BLOCK: Other = Other(
    |_, own| own.scheduler.prefix_cache.is_some() && !own.scheduler.has_prefix_tree(),
    "prefixes are cached, and not in a tree",
);
const WHOLE_BLOCKS: Other =
    Other(|_, own| own.scheduler.whole_block_chunks, "chunks are whole blocks (whole_block_chunks)");
const DRAFTED: Other = Other(|_, own| own.speculation.is_some(), "tokens are drafted");
const TIERED: Other = Other(|_, own| own.tier.is_some(), "chunks of prefixes are kept in tiers");
const DEPTH_FIRST: Other = Other(
    |_, own| own.scheduler.order == QueueOrder::SharedPrefix,
    "the queue has the order of a walk through the tree",
);
const CHUNKS_STORED: Other = Other(
    |_, own| own.tier.is_some() && !own.scheduler.has_prefix_tree(),
    "chunks of prefixes are kept in tiers, and not nodes of a tree",
);
const PIPELINED: Other = Other(|_, own| own.pipeline.is_some(), "stages have a batch each");
const MIGRATED: Other = Other(|config, _| config.routing.may_migrate(), "requests may migrate");
const MOVED: Other = Other(
    |config, _| config.routing.may_migrate() || config.handover.is_some(),
    "requests may migrate or are handed over",
);
const SENT_ON: Other = Other(
    |config, _| config.routing.moves_requests() || config.handover.is_some(),
    "requests leave their instance or are handed over",
);
const SENT_WITHOUT_OFFER: Other = Other(
    |config, _| config.routing.moves_requests() && config.handover.is_none(),
    "requests leave their instance and are not handed over (handover)",
);
const MONITORED: Other = Other(|config, _| config.routing.monitors_migrate(), "monitors migrate requests");
const NOT_WHOLE: Other = Other(
    |_, own| !own.scheduler.admits_whole_prompts(),
    "a step does not run all requests, then admit whole prompts in the order of arrival",
);
const TOGETHER: Other = Other(|config, own| config.group_of(own.index).is_some(), "instances step together");
const PACED: Other = Other(|config, _| config.pace.is_some(), "readers have a pace");
const RELAYED: Other = Other(|config, _| config.routers.relay.is_some(), "reports are relayed");

/// Every pair, by the setting that is refused.
const EXCLUSIONS: &[Exclusion] = &[
    left_out("speculation", DRAFTED.0, &[SELECTED, SIT_OUT, WHOLE_BLOCKS]),
    left_out("speculation", |_, own| own.speculation.is_some() && own.scheduler.has_prefix_tree(), &[MOVED]),
    Exclusion {
        must: ("must not be two_steps", "was so"),
        ..left_out(
            "speculation.slots",
            |_, own| own.speculation.as_ref().is_some_and(|drafts| drafts.slots == DraftSlots::TwoSteps),
            &[MOVED, CACHED_BY_BLOCK],
        )
    },
    left_out("tier", TIERED.0, &[RELAYED, RANKED, PASSED_OVER, WHOLE_BLOCKS, DEPTH_FIRST]),
    left_out("tier.below", |_, own| own.below().is_some(), &[AHEAD, MOVED, TOGETHER]),
    left_out("tier.below.prefetch", |_, own| own.prefetches(), &[AHEAD, LATE_ARRIVALS]),
    left_out("scheduler.output_reserve", RESERVED.0, &[RANKED]),
    Exclusion {
        must: ("must not leave room for outputs to come (output_reserve)", "did so"),
        ..left_out("scheduler", RESERVED.0, &[SWAPPED_WITHOUT_RESERVE])
    },
    Exclusion {
        must: ("must not compute tokens of requests that have ended (unseen_ends)", "did so"),
        ..left_out("scheduler", |_, own| own.scheduler.unseen_ends, &[TIERED, MONITORED])
    },
    left_out(
        "scheduler.prompt_batch",
        |_, own| own.scheduler.prompt_batch.is_some(),
        &[SWAPPED, CACHED, PASSED_OVER],
    ),
    // The scheduler is whole by itself, and not with the rest of the instance or the cluster.
    Exclusion {
        must: ("must hold no prompts back (prompt_batch)", "did so"),
        ..left_out(
            "scheduler",
            |_, own| own.scheduler.prompt_batch.is_some(),
            &[MOVED, TOGETHER, PACED, DRAFTED, PIPELINED],
        )
    },
    Exclusion {
        must: ("must not hold prompts back for other instances (lockstep.balance)", "did so"),
        ..left_out(
            "scheduler",
            |config, own| config.group_of(own.index).is_some_and(|group| group.balance.is_some()),
            &[NOT_WHOLE, SWAPPED, CACHED, PASSED_OVER, SENT_WITHOUT_OFFER, PACED, DRAFTED],
        )
    },
    Exclusion {
        advice: |own| {
            let stages = own.pipeline.as_ref().map_or(0, |pipeline| pipeline.stages.len());
            format!(
                ": set pipelined to None or False, so that a batch passes all {stages} stages before the next one is formed"
            )
        },
        ..left_out(
            "pipeline",
            PIPELINED.0,
            &[
                AHEAD,
                LATE_ARRIVALS,
                RANKED,
                DISPLACED,
                LAYERED,
                SELECTED,
                SWAPPED,
                RESERVED,
                SIT_OUT,
                DECODES_FIRST,
                DRAFTED,
                TIERED,
                TREE,
                MOVED,
                TOGETHER,
                PACED,
            ],
        )
    },
    Exclusion {
        must: ("must not cache prefixes in a radix tree", "did so"),
        ..left_out("scheduler", TREE.0, &[SENT_WITHOUT_OFFER, DECODES_FIRST])
    },
    Exclusion {
        advice: |_| {
            ", and requests leave room for each other as they are accepted (handover.reserve)".to_owned()
        },
        ..left_out(
            "tier",
            |config, own| {
                own.tier.is_some() && config.handover.as_ref().is_some_and(|rules| rules.reserve.is_some())
            },
            &[RESERVED],
        )
    },
    left_out("tier", |_, own| own.tier.is_some() && own.scheduler.has_prefix_tree(), &[SENT_ON, DRAFTED]),
    Exclusion {
        must: ("must not drop tokens that a decision does not know (drop_unseen)", "did so"),
        ..left_out("scheduler", |_, own| own.scheduler.drop_unseen, &[SENT_WITHOUT_OFFER, CHUNKS_STORED])
    },
    Exclusion {
        must: ("must be false", "was true"),
        ..left_out("scheduler.whole_block_chunks", WHOLE_BLOCKS.0, &[SELECTED, LAYERED, SWAPPED, CHUNKS_VARY])
    },
    Exclusion {
        must: ("must not be if the output fits", "was so"),
        ..left_out(
            "scheduler.allocation",
            |_, own| own.scheduler.allocation == Allocation::ChunkIfOutputFits,
            &[SELECTED, LAYERED, DISPLACED, SWAPPED, RESERVED],
        )
    },
    Exclusion {
        must: ("must not limit prompts", "did so"),
        ..left_out("scheduler.joining", PASSED_OVER.0, &[SELECTED])
    },
    Exclusion {
        must: ("must be 0", "was more"),
        advice: |_| ": a request that comes with its KV is not passed over".to_owned(),
        ..left_out(
            "scheduler.joining.adapters",
            |_, own| own.scheduler.joining.adapters > 0,
            &[SWAPPED, MIGRATED],
        )
    },
];

impl Config {
    /// Refuses the first setting of an instance beside which it has a mechanism that excludes the setting.
    pub(super) fn check_exclusions(&self) -> Result<(), Error> {
        for (i, config) in self.instances.iter().enumerate() {
            let own = Own { index: i, config };
            for Exclusion { field, must: (must, was), given, others, advice } in EXCLUSIONS {
                if given(self, own)
                    && let Some(Other(_, words)) = others.iter().find(|other| other.0(self, own))
                {
                    let rule = format!("{must} where {words}, {was}{}", advice(config));
                    return Err(Error::config(format!("instances[{i}].{field}"), rule));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        AcceptanceReserve, Balance, Handover, Lockstep, Pace, PipelineConfig, PrefixCacheConfig,
        PrefixTreeConfig, PromptBatch, ReserveConfig,
    };
    use crate::engine::fixtures;

    const SWAP: Preemption = Preemption::Swap { blocks: 9, out: 1, back: 1, overlapped: false };

    /// The refusal of a configuration whose second instance, or which itself, is changed.
    fn refusal(change: impl Fn(&mut Config)) -> Option<String> {
        let mut config = fixtures::config(&[100, 100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        change(&mut config);
        config.check_exclusions().err().map(|error| error.to_string())
    }

    #[test]
    fn a_setting_is_refused_beside_a_mechanism_of_the_same_instance() {
        let chunks = |config: &mut Config| config.instances[1].scheduler.whole_block_chunks = true;
        assert_eq!(refusal(chunks), None);
        let said = refusal(|config| {
            chunks(config);
            config.instances[0].scheduler.preemption = SWAP;
        });
        assert_eq!(said, None, "the other instance swaps");
        let said = refusal(|config| {
            chunks(config);
            config.instances[1].scheduler.preemption = SWAP;
        });
        let expected = "instances[1].scheduler.whole_block_chunks: must be false where preempted requests are swapped out, \
                        was true";
        assert!(said.is_some_and(|said| said.contains(expected)));
    }

    #[test]
    fn a_setting_is_refused_beside_a_mechanism_of_the_cluster() {
        let said = refusal(|config| {
            config.instances[1].scheduler.prompt_batch = Some(PromptBatch { tokens: 10, steps: 4 });
            config.pace = Some(Pace { interval: 1, first: 1, ttft: None });
        });
        let expected = "instances[1].scheduler: must hold no prompts back (prompt_batch) where readers have a pace, did so";
        assert!(said.is_some_and(|said| said.contains(expected)));
    }

    #[test]
    fn a_radix_tree_is_refused_where_requests_leave_otherwise_than_by_a_handover() {
        let tree = |config: &mut Config| {
            let tree = Some(PrefixTreeConfig { passes: 32, most: 128, least_load: 0 });
            let cache = PrefixCacheConfig { unknown_first: true, evict: None, tree };
            config.instances[1].scheduler.prefix_cache = Some(cache);
        };
        assert_eq!(refusal(tree), None);
        let said = refusal(|config| {
            tree(config);
            config.instances[1].pipeline =
                Some(PipelineConfig { stages: vec![1], batches: 2, empty_batches: false });
        });
        assert!(
            said.is_some_and(|said| said.contains("instances[1].pipeline: must be null where a radix tree"))
        );
        let leaves = |config: &mut Config| {
            tree(config);
            let json = r#"{"on_arrival": {"rule": "round_robin"}, "on_prefilled": {"rule": "round_robin"}}"#;
            config.routing = serde_json::from_str(json).expect("a routing");
        };
        let expected = "instances[1].scheduler: must not cache prefixes in a radix tree where requests leave";
        assert!(refusal(leaves).is_some_and(|said| said.contains(expected)));
        let said = refusal(|config| {
            leaves(config);
            config.handover = Some(Handover::default());
        });
        assert_eq!(said, None, "their blocks stay allocated until they are read");
    }

    #[test]
    fn tokens_are_dropped_only_where_requests_stay() {
        let drops = |config: &mut Config| config.instances[1].scheduler.drop_unseen = true;
        assert_eq!(refusal(drops), None);
        let said = refusal(|config| {
            drops(config);
            let json = r#"{"on_arrival": {"rule": "round_robin"}, "on_answering": {"rule": "round_robin"}}"#;
            config.routing = serde_json::from_str(json).expect("a routing");
        });
        let expected = "instances[1].scheduler: must not drop tokens that a decision does not know (drop_unseen) where requests \
                        leave";
        assert!(said.is_some_and(|said| said.contains(expected)));
    }

    #[test]
    fn slots_for_two_steps_are_refused_beside_blocks_that_are_cached_apart_from_a_tree() {
        let caches = |tree: Option<PrefixTreeConfig>| {
            refusal(|config| {
                let json = r#"{"tokens": 2, "by_batch": [], "proposals": null, "acceptance": {"kind": "periodic", "yields": [2]},
                               "lookahead": 0, "slots": "two_steps", "input_slots": 0, "hash_lookahead": 1,
                               "drops_last_block": false, "pads": false}"#;
                config.instances[0].speculation = Some(serde_json::from_str(json).expect("drafts"));
                let cache = PrefixCacheConfig { unknown_first: true, evict: None, tree };
                config.instances[0].scheduler.prefix_cache = Some(cache);
            })
        };
        let expected = "instances[0].speculation.slots: must not be two_steps where prefixes are cached, and not in a tree";
        assert!(caches(None).is_some_and(|said| said.contains(expected)));
        assert_eq!(caches(Some(PrefixTreeConfig { passes: 32, most: 128, least_load: 0 })), None);
    }

    #[test]
    fn outputs_that_must_fit_are_refused_beside_a_reserve_for_them() {
        let fits =
            |config: &mut Config| config.instances[0].scheduler.allocation = Allocation::ChunkIfOutputFits;
        assert_eq!(refusal(fits), None);
        let said = refusal(|config| {
            fits(config);
            let reserve = ReserveConfig { first: 1, least: 1, steps: 1, after: 1, clip: 1 };
            config.instances[0].scheduler.output_reserve = Some(reserve);
        });
        let expected = "scheduler.allocation: must not be if the output fits where admissions leave room";
        assert!(said.is_some_and(|said| said.contains(expected)));
    }

    #[test]
    fn requests_are_swapped_beside_a_reserve_for_outputs_only_as_others_are_accepted() {
        let swaps = |config: &mut Config| {
            let rules = &mut config.instances[0].scheduler;
            rules.preemption = SWAP;
            rules.output_reserve = Some(ReserveConfig { first: 1, least: 1, steps: 1, after: 1, clip: 1 });
        };
        let said = refusal(swaps);
        let expected = "instances[0].scheduler: must not leave room for outputs to come (output_reserve) where preempted \
                        requests are swapped out, and none is accepted beside a reserve";
        assert!(said.is_some_and(|said| said.contains(expected)));
        let said = refusal(|config| {
            swaps(config);
            let reserve = Some(AcceptanceReserve { tokens: 1, clip: 1 });
            config.handover = Some(Handover { reserve, ..Handover::default() });
        });
        assert_eq!(said, None);
    }

    #[test]
    fn prompts_wait_for_other_instances_only_where_they_are_whole() {
        let said = refusal(|config| {
            let balance = Some(Balance { timeout_steps: 3, gather_steps: 0 });
            config.lockstep = Some(vec![Lockstep { balance, ..fixtures::group(&[1]) }]);
        });
        let expected = "instances[1].scheduler: must not hold prompts back for other instances (lockstep.balance) where a step \
                        does not run all requests, then admit whole prompts in the order of arrival, did so";
        assert!(said.is_some_and(|said| said.contains(expected)));
    }

    #[test]
    fn each_mechanism_is_named_once() {
        for Exclusion { field, others, .. } in EXCLUSIONS {
            let mut words: Vec<_> = others.iter().map(|other| other.1).collect();
            words.sort_unstable();
            words.dedup();
            assert_eq!(words.len(), others.len(), "{field}");
        }
    }
}
