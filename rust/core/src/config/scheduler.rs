//! How an instance forms its steps.

use serde::Deserialize;

use super::eviction::EvictionConfig;
use super::prompt_batch::PromptBatch;
use super::ranking::Ranking;
use super::reserve::ReserveConfig;
use super::step_limits::{Joining, VaryingLimits};
use crate::policy::Expr;
use crate::time::Ticks;

/// How an instance forms its steps: stages that run one after another, and the rules that they share.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of some engine, and they combine freely")]
pub struct SchedulerConfig {
    /// Tokens that one step may compute, at most.
    pub max_num_batched_tokens: u64,
    /// Requests that may be running at once.
    pub max_num_seqs: u64,
    /// The most tokens of one prefill in a step while another request is there; 0: no limit.
    pub long_prefill_token_threshold: u64,
    /// Whether this limit also holds for a request that is alone on the instance.
    pub threshold_when_alone: bool,
    /// Whether a chunk that is not the last of its prompt is cut to whole blocks. A chunk of no block waits for a step
    /// with more tokens.
    #[serde(default)]
    pub whole_block_chunks: bool,
    /// Limits that are evaluated for each step; by default none is.
    #[serde(default)]
    pub varying: VaryingLimits,
    /// Which prompts may be admitted beside other requests; by default all may.
    #[serde(default)]
    pub joining: Joining,
    /// When prompts are admitted beside decodes; by default as soon as they fit.
    #[serde(default)]
    pub prompt_batch: Option<PromptBatch>,
    /// The stages, in the order in which they run.
    pub stages: Vec<Stage>,
    /// Whether a step with prefills has no decodes.
    pub exclusive_prefill: bool,
    /// The order in which waiting requests are admitted.
    pub order: QueueOrder,
    /// Whether the next request to admit waits for room or displaces running requests.
    #[serde(default)]
    pub admission: Admission,
    /// Which request is preempted if blocks run out.
    pub victim: Victim,
    /// The blocks that an admission allocates.
    pub allocation: Allocation,
    /// Blocks that an admission must leave free.
    pub watermark_blocks: u64,
    /// Whether they must also stay free if no request is running.
    pub watermark_when_idle: bool,
    /// Whether a running request is scheduled only if one block is free, even if it needs none.
    pub spare_block: bool,
    /// Whether prefills are moved behind decodes in the order of admission after each step.
    pub decodes_first: bool,
    /// Whether the tokens of a victim that was already scheduled in the same step return to the budget.
    pub refund: bool,
    /// Whether a request that preempts itself also ends the stage, so that the requests behind it are not scheduled.
    pub stop_at_own_preemption: bool,
    /// The fate of the KV of a preempted request.
    pub preemption: Preemption,
    /// Whether a preempted request is queued again only after the step is formed, so that other requests may be
    /// admitted before it in the same step.
    pub requeue_late: bool,
    /// Whether a preempted request is queued behind all others, and not before them.
    #[serde(default)]
    pub requeue_last: bool,
    /// Room that an admission leaves for the outputs of running requests; by default none.
    #[serde(default)]
    pub output_reserve: Option<ReserveConfig>,
    /// How prefixes are cached; `None` if they are not.
    pub prefix_cache: Option<PrefixCacheConfig>,
    /// Whether a step is decided when the step before it starts. Such a decision sees no request that arrived, and no
    /// block that was freed, after that.
    pub schedule_ahead: bool,
    /// Whether a request that is preempted by such a decision loses the token of the step under way, which the decision does
    /// not know, and computes it again.
    #[serde(default)]
    pub drop_unseen: bool,
    /// Whether such a decision does not know which requests end with the step under way: it computes one more token of each,
    /// which is discarded.
    #[serde(default)]
    pub unseen_ends: bool,
    /// Steps without a prompt from one look for arrivals to the next; 1: each step looks. After a step with a prompt, and
    /// while no step is in progress, arrivals are received at once.
    #[serde(default = "every_step")]
    pub receive_interval: u64,
}

/// By default arrivals are received at each step.
fn every_step() -> u64 {
    1
}

/// A stage of forming a step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Stage {
    /// Schedules all running requests, in order of admission.
    Running,
    /// Schedules the decoding requests, in order of admission.
    Decodes {
        /// Whether their tokens count against `max_num_batched_tokens`.
        charged: bool,
        /// Whether they share `max_num_seqs` with the step's prefills.
        seated: bool,
        /// Whether a prefill in progress may be preempted for them.
        over_prefills: bool,
        /// Whether they leave a step to its prefills if not all of them find blocks beside these. Their tokens are then
        /// taken from the step's before those of prefills.
        #[serde(default)]
        sits_out: bool,
    },
    /// Schedules the prefills in progress, in order of admission.
    Prefills,
    /// Swaps requests in, in the order in which they were swapped out.
    SwapIn {
        /// Only if no request was preempted in this step.
        unless_preempted: bool,
    },
    /// Admits waiting requests in the queue's order, until one does not fit.
    Admit {
        /// Whether the prompt of the last one may be cut to the tokens that are left.
        chunked: bool,
        /// Only if no request was preempted in this step.
        unless_preempted: bool,
        /// Only if no request is swapped out.
        unless_swapped: bool,
        /// Whether decoding requests count against `max_num_seqs`.
        count_decodes: bool,
        /// Only if no request is running and a batch has gathered.
        gather: Option<Gather>,
    },
    /// Runs prefills one group of layers a step. Once a batch has passed all layers, the next batch is formed from
    /// prefills in progress and waiting requests.
    Layered {
        /// Layers of the model.
        layers: u32,
        /// The number of groups, by the tokens of the batch.
        groups: GroupRule,
    },
    /// Selects the requests of the step anew, by rank, whether they are running, waiting or swapped out. A running
    /// request that is left out keeps its memory until others need it.
    Select {
        /// Whether the prompt of the last one may be cut to the tokens that are left.
        chunked: bool,
        /// Whether decodes use up the step's tokens.
        charged: bool,
        /// Blocks that stay free, beside the watermark.
        reserve_blocks: u64,
        /// Blocks of the swap space that must be free to select a prompt without KV; else it is passed over.
        swap_reserve_blocks: u64,
    },
}

/// When a batch has gathered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gather {
    /// Requests that make up a batch.
    pub size: u64,
    /// Ticks that the first of them waits for the others, at most.
    pub wait: Ticks,
}

/// How many groups of layers a batch of prefills passes through.
///
/// The first entry of `limits` that the batch does not exceed says it. If the batch exceeds all of them, there is one
/// group for each `tokens_per_group` begun. There are never more than `most`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupRule {
    /// (most tokens, groups), by rising tokens.
    pub limits: Vec<(u64, u32)>,
    /// Tokens of a group beyond the limits; 0: always `most` groups.
    pub tokens_per_group: u64,
    /// The most groups.
    pub most: u32,
}

impl GroupRule {
    /// The number of groups for a batch of `tokens` tokens.
    pub fn groups(&self, tokens: u64) -> u32 {
        let table = self.limits.iter().find(|(limit, _)| tokens <= *limit);
        let groups = match table {
            Some(&(_, groups)) => groups,
            None if self.tokens_per_group > 0 => tokens.div_ceil(self.tokens_per_group) as u32,
            None => self.most,
        };
        groups.clamp(1, self.most)
    }
}

/// The order in which waiting requests are admitted. Ties go to the earlier arrival, then the earlier row.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum QueueOrder {
    /// First come, first served; preempted requests go first.
    Arrival,
    /// The smallest priority first.
    Priority,
    /// The longest cached prefix first, sorted anew for each step; first come, first served if more than `most`
    /// requests wait.
    LongestPrefix {
        /// The length of the longest queue that is sorted.
        most: u64,
        /// A request with at most so many cached tokens that shares as many with one before it comes last; 0: none does.
        #[serde(default)]
        shares: u32,
    },
    /// Depth first through the radix tree of prefixes, sorted anew for each step: of the nodes below one, that comes first which
    /// begins the most waiting requests, then that which came first to the tree; a request comes behind those that go on from
    /// its last node.
    SharedPrefix,
    /// The best rank first. Every request on the instance has a rank, and the running request with the worst rank is
    /// preempted first.
    Ranked(Box<Ranking>),
}

impl QueueOrder {
    /// Whether a queue of `waiting` requests is sorted anew for each step by what is cached of them.
    pub(crate) fn sorts(&self, waiting: u64) -> bool {
        match *self {
            Self::LongestPrefix { most, .. } => waiting <= most,
            Self::SharedPrefix => true,
            _ => false,
        }
    }
}

/// The rule for the next request to admit where there is no room for it.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Admission {
    /// It waits.
    #[default]
    Wait,
    /// Running requests of worse rank are preempted for it.
    Displace {
        /// A condition on the instance, without which it waits.
        #[serde(default)]
        when: Option<Expr>,
        /// The most requests that are displaced in a step; 0: no limit.
        #[serde(default)]
        most: u64,
    },
}

/// Which request is preempted if blocks run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Victim {
    /// The one that was admitted last.
    Latest,
    /// The one with the largest priority, then the latest arrival, even if it is already scheduled in this step.
    Worst,
    /// The one with the fewest generated tokens, then the longest prompt.
    FewestGenerated,
}

/// The blocks that an admission allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allocation {
    /// Those of its first chunk.
    Chunk,
    /// Those of its first chunk, if the blocks of the whole sequence are free.
    ChunkIfAllFits,
    /// Those of its first chunk, if all blocks are free that it and the running requests will take until they end.
    ChunkIfOutputFits,
    /// Those of the whole sequence.
    Sequence,
}

/// The fate of the KV of a preempted request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Preemption {
    /// It is freed, and computed again after the next admission.
    Recompute,
    /// It is copied to the CPU's memory; if that is full, it is freed.
    Swap {
        /// Blocks of swap space in the CPU's memory.
        blocks: u64,
        /// Ticks to swap out one block.
        out: Ticks,
        /// Ticks to swap in one block.
        back: Ticks,
        /// Whether copies overlap with the step, which then takes the longer of the two, or run before it.
        overlapped: bool,
    },
}

/// How prefixes are cached.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixCacheConfig {
    /// Whether freed blocks whose content is unknown are reused before all others.
    pub unknown_first: bool,
    /// The order in which known contents are evicted; `None`: that in which their blocks were freed.
    #[serde(default)]
    pub evict: Option<Box<EvictionConfig>>,
    /// The rules of a radix tree that has the prefixes; `None`: each block is cached by itself.
    #[serde(default)]
    pub tree: Option<PrefixTreeConfig>,
}

/// When waiting requests use the prefixes that a radix tree has of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixTreeConfig {
    /// Passes over the queue from one use to the next; 0: they do not.
    pub passes: u64,
    /// The most requests at the front of the queue that do.
    pub most: u64,
    /// The fewest tokens that are loaded from the host, where there is a tier.
    #[serde(default)]
    pub least_load: u32,
}

impl SchedulerConfig {
    /// Whether arrivals wait apart from the queue until a step receives them.
    pub(crate) fn holds_arrivals(&self) -> bool {
        self.schedule_ahead || self.receive_interval > 1
    }

    /// Whether decodes leave a step to its prefills where they lack blocks.
    pub(crate) fn decodes_sit_out(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Decodes { sits_out: true, .. }))
    }

    /// Whether admissions leave room for outputs to come, or decodes sit out.
    pub(crate) fn reserves(&self) -> bool {
        self.output_reserve.is_some() || self.decodes_sit_out()
    }

    /// Whether prompts may be cut into chunks.
    pub(crate) fn cuts_prompts(&self) -> bool {
        let whole = |stage: &Stage| {
            matches!(stage, Stage::Admit { chunked: false, .. } | Stage::Select { chunked: false, .. })
        };
        !self.stages.iter().any(whole)
    }

    /// Whether decoding requests take seats as requests are admitted.
    pub(crate) fn counts_decodes(&self) -> bool {
        !self.stages.iter().any(|stage| matches!(stage, Stage::Admit { count_decodes: false, .. }))
    }

    /// Blocks of the GPU, and of the swap space, that a stage which selects leaves free.
    pub(crate) fn selection_reserves(&self) -> (u64, u64) {
        let of = |stage: &Stage| match stage {
            Stage::Select { reserve_blocks, swap_reserve_blocks, .. } => {
                Some((*reserve_blocks, *swap_reserve_blocks))
            }
            _ => None,
        };
        self.stages.iter().find_map(of).unwrap_or((0, 0))
    }

    /// Whether each step's requests are selected anew, by rank.
    pub(crate) fn selects(&self) -> bool {
        self.stages.iter().any(|stage| matches!(stage, Stage::Select { .. }))
    }

    /// Whether prefills run one group of layers a step.
    pub(crate) fn is_layered(&self) -> bool {
        self.layers().is_some()
    }

    /// The layers of the model, if prefills run one group of layers a step.
    pub(crate) fn layers(&self) -> Option<u32> {
        self.stages.iter().find_map(|stage| match stage {
            Stage::Layered { layers, .. } => Some(*layers),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_follow_the_limits_then_the_tokens_of_a_group() {
        let rule = GroupRule { limits: vec![(100, 1), (500, 2)], tokens_per_group: 400, most: 4 };
        let groups = [1, 100, 101, 500, 501, 1200, 1201, 9999].map(|tokens| rule.groups(tokens));
        assert_eq!(groups, [1, 1, 2, 2, 2, 3, 4, 4]);
        assert_eq!(GroupRule { limits: vec![], tokens_per_group: 0, most: 7 }.groups(1), 7);
    }
}
