//! The configuration of an instance, which does not change.

mod limits;

use std::sync::Arc;

use limits::Limits;

use super::ObservedFields;
use super::handover::Acceptance;
use super::speculation::DraftSettings;
use crate::config::{Admission, Allocation, InstanceConfig, QueueOrder, SchedulerConfig};
use crate::cost::{Cost, Rise, StepShape};
use crate::hint::rare;
use crate::kv::BlockSize;
use crate::metrics::Reason;
use crate::policy::{Expr, ReqField};
use crate::time::Ticks;

/// Batches up to this size have their costs computed beforehand.
const MOST_PREPARED: u64 = 1024;

/// The configuration of an instance. Its fields are read by every part of the instance and written
/// by none.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is derived from one part of the configuration")]
pub(crate) struct Settings {
    /// Index in the cluster.
    pub(crate) index: u32,
    pub(crate) block: BlockSize,
    pub(crate) blocks: u64,
    pub(crate) bytes: KvBytes,
    pub(crate) scheduler: SchedulerConfig,
    pub(crate) cost: Cost,
    /// Whether several certain steps are taken at once. If not, every step is formed
    /// by visiting every running request.
    pub(crate) leap: bool,
    /// How requests that are handed over are accepted; `None`: their KV waits off the GPU.
    pub(crate) handover: Option<Acceptance>,
    /// The condition on which queued requests displace running ones, if there is one.
    pub(crate) displaces_when: Option<Arc<Expr>>,
    pub(crate) limits: Limits,
    /// Whether each step's requests are selected anew, by rank.
    pub(crate) selects: bool,
    /// Whether a rule reads how long a prefill takes.
    predicts: bool,
    /// How tokens are drafted, if they are.
    pub(crate) drafts: DraftSettings,
    /// Whether steps of the decode set that are known start without the scheduler's stages.
    pub(crate) skips_stages: bool,
}

/// The bytes of a request's KV.
#[derive(Debug)]
pub(crate) struct KvBytes {
    pub(crate) per_token: u64,
    /// Bytes of a request's states.
    states: u64,
    /// Layers that share the bytes of a transfer.
    pub(crate) layers: u32,
}

/// Whether steps of the decode set that are known start without the scheduler's stages.
fn skips_stages(config: &InstanceConfig, observed: &ObservedFields) -> bool {
    let scheduler = &config.scheduler;
    observed.leap
        && !scheduler.holds_arrivals()
        && !scheduler.is_layered()
        && config.tier.is_none()
        && config.pipeline.is_none()
        && observed.records.is_none()
}

impl Settings {
    pub(crate) fn new(index: usize, config: &InstanceConfig, observed: &ObservedFields) -> Self {
        let scheduler = config.scheduler.clone();
        let reads_prefill = |field| field == ReqField::PrefillS;
        let ranks_read_prefill = match &scheduler.order {
            QueueOrder::Ranked(ranking) => ranking.exprs().any(|expr| expr.looks_at_request(&reads_prefill)),
            _ => false,
        };
        let joining = &scheduler.joining;
        let buckets_read_prefill =
            joining.bucket.as_ref().is_some_and(|bucket| bucket.looks_at_request(&reads_prefill));
        let displaces_when = match &scheduler.admission {
            Admission::Displace { when, .. } => when.clone().map(Arc::new),
            Admission::Wait => None,
        };
        let mut cost = config.cost.clone();
        let prepared = scheduler.max_num_seqs.min(MOST_PREPARED);
        let drafts = DraftSettings::new(config.speculation.as_ref(), &mut cost, prepared);
        Self {
            index: index as u32,
            block: BlockSize::new(config.block_tokens, config.state_blocks),
            blocks: config.blocks,
            bytes: KvBytes {
                per_token: config.kv_bytes_per_token,
                states: config.state_bytes,
                layers: config.kv_layers,
            },
            limits: Limits::new(config),
            scheduler,
            drafts,
            cost,
            leap: observed.leap && config.pipeline.is_none(),
            handover: observed.handover,
            displaces_when,
            selects: config.scheduler.selects(),
            predicts: observed.prefills || ranks_read_prefill || buckets_read_prefill,
            skips_stages: skips_stages(config, observed),
        }
    }

    /// Why this instance can never serve such a request, which names `model`, if it cannot.
    pub(crate) fn refuses(&self, prompt: u32, output: u32, model: u32) -> Reason {
        self.limits.refuses((prompt, output), model, self.block, self.blocks)
    }

    /// Whether two instances refuse the same requests.
    pub(crate) fn refuses_like(&self, other: &Self) -> bool {
        let blocks = |of: &Self| (of.block, of.blocks);
        blocks(self) == blocks(other) && self.limits.refuses_like(&other.limits)
    }

    /// Blocks of a request with so many tokens: those that the tokens fill, and those of its states. Without a token it
    /// has neither.
    pub(crate) fn blocks_for(&self, tokens: u32) -> u64 {
        self.block.held_with(u64::from(tokens))
    }

    /// Blocks that so many tokens fill.
    pub(crate) fn token_blocks(&self, tokens: u32) -> u64 {
        self.block.needed_for(u64::from(tokens))
    }

    /// Blocks of a request that has computed so many tokens at the end of a step, and slots for the KV of the next drafts.
    /// `decodes`: the step is a decode's, and not one of its prompt.
    pub(crate) fn blocks_with_lookahead(&self, tokens: u32, decodes: bool) -> u64 {
        match self.drafts.config() {
            None => self.blocks_for(tokens),
            Some(speculation) => {
                rare();
                let slots = u64::from(tokens) + u64::from(speculation.slots_past(decodes));
                self.block.held_with(slots.min(self.limits.most_slots().max(u64::from(tokens))))
            }
        }
    }

    /// Ticks that a step of this shape takes, with the passes of the draft model after it.
    pub(crate) fn step_ticks(&self, shape: &StepShape) -> Ticks {
        self.drafts.with_passes(self.cost.step(shape), shape)
    }

    /// As [`Self::step_ticks`], of a step of the decode set alone where tokens are drafted, and how the ticks rise with the
    /// context; `None` if that is not along a straight line.
    pub(crate) fn step_rise(&self, shape: &StepShape) -> Option<Rise> {
        self.drafts.step_rise(&self.cost, shape)
    }

    /// Of the tokens of an admission, those for which it allocates blocks.
    pub(crate) fn allocated_tokens(&self, tokens: u32) -> u32 {
        match self.scheduler.allocation {
            Allocation::Chunk => u64::from(tokens).min(self.scheduler.max_num_batched_tokens) as u32,
            _ => tokens,
        }
    }

    /// Whether an admission allocates the blocks of the whole sequence.
    pub(crate) fn allocates_sequence(&self) -> bool {
        self.scheduler.allocation == Allocation::Sequence
    }

    /// Bytes of the KV of so many tokens.
    pub(crate) fn kv_bytes(&self, tokens: u32) -> u64 {
        u64::from(tokens) * self.bytes.per_token
    }

    /// Bytes with which a request continues elsewhere: the KV of `tokens` tokens, and its states.
    pub(crate) fn moved_bytes(&self, tokens: u32) -> u64 {
        self.kv_bytes(tokens) + self.bytes.states
    }

    /// Whether requests have states, which are transferred though no KV is lacking.
    pub(crate) fn has_states(&self) -> bool {
        self.bytes.states > 0
    }

    /// Blocks that admissions leave free while `admitted` requests are admitted.
    pub(crate) fn watermark(&self, admitted: u64) -> u64 {
        let applies = self.scheduler.watermark_when_idle || admitted > 0;
        if applies { self.scheduler.watermark_blocks } else { 0 }
    }

    /// Ticks that the prefill of a lone prompt takes; 0 where no rule reads that.
    pub(crate) fn prefill_where_read(&self, prompt: u32) -> Ticks {
        if self.predicts { self.predicted_prefill(prompt) } else { 0 }
    }

    /// Ticks that the prefill of a lone prompt takes.
    pub(crate) fn predicted_prefill(&self, prompt: u32) -> Ticks {
        let budget = self.scheduler.max_num_batched_tokens;
        let prompt = u64::from(prompt);
        let (mut before, mut ticks) = (0, 0);
        while before < prompt {
            let tokens = (prompt - before).min(budget);
            let after = before + tokens;
            let shape = StepShape {
                prefill_requests: 1,
                prefill_tokens: tokens,
                prefill_kv: after,
                prefill_pairs: tokens * before + tokens * (tokens + 1) / 2,
                sampled: u64::from(after == prompt),
                ..StepShape::default()
            };
            ticks += self.cost.step(&shape);
            before = after;
        }
        ticks
    }
}
