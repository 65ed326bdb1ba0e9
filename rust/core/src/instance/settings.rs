//! The configuration of an instance, which does not change.

use std::sync::Arc;

use super::ObservedFields;
use super::handover::Acceptance;
use super::request::RequestState;
use super::speculation::{Rises, draft_ticks, rise};
use crate::config::{
    Admission, Allocation, InstanceConfig, QueueOrder, SchedulerConfig, SpeculationConfig, VaryingLimits,
};
use crate::cost::{Cost, Rise, StepShape};
use crate::hint::rare;
use crate::kv::BlockSize;
use crate::metrics::Reason;
use crate::policy::{Expr, ReqField};
use crate::time::{HORIZON, Ticks};
use crate::trace::ANY_MODEL;

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
    pub(crate) kv_bytes_per_token: u64,
    /// Bytes of a request's states.
    state_bytes: u64,
    /// Layers that share the bytes of a transfer.
    pub(crate) kv_layers: u32,
    pub(crate) scheduler: SchedulerConfig,
    pub(crate) cost: Cost,
    /// Whether several certain steps are taken at once. If not, every step is formed
    /// by visiting every running request.
    pub(crate) leap: bool,
    /// How requests that are handed over are accepted; `None`: their KV waits off the GPU.
    pub(crate) handover: Option<Acceptance>,
    /// The condition on which queued requests displace running ones, if there is one.
    pub(crate) displaces_when: Option<Arc<Expr>>,
    /// The limits of a step that are evaluated for each, if there are any.
    pub(crate) varying: Option<Arc<VaryingLimits>>,
    /// The fewest tokens that a step may compute.
    pub(crate) least_tokens: u64,
    /// Whether a prompt may have to wait though there is room for it.
    pub(crate) limits_prompts: bool,
    /// Whether any arrival may change the next step, though a request waits before it.
    pub(crate) any_arrival_counts: bool,
    /// Whether each step's requests are selected anew, by rank.
    pub(crate) selects: bool,
    /// Whether admissions leave room for outputs to come, or decodes sit out.
    pub(crate) reserves: bool,
    /// Whether a rule reads how long a prefill takes.
    pub(crate) predicts: bool,
    /// How tokens are drafted and verified, if they are.
    pub(crate) speculation: Option<Arc<SpeculationConfig>>,
    /// How long steps of the decode set take with drafts, where that was computed beforehand.
    rises: Rises,
    /// Whether the steps after one with prefills are planned when it starts.
    pub(crate) plans: bool,
    /// The number of the model that it serves; [`ANY_MODEL`]: all.
    model: u32,
    /// The limits of a lone request.
    lone: LoneLimits,
}

/// The limits of a request that no other is beside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoneLimits {
    /// The longest sequence.
    context: u64,
    /// Blocks that it must leave free.
    reserved: u64,
    /// The longest prefill.
    budget: u64,
    /// Slots past the last token.
    slots: u64,
    /// Tokens that an admission leaves beside the sequence, and one more; 0: it may take all.
    beside: u64,
    /// Slots past the last token that must be free for a load to begin, however long a sequence may be.
    load: u64,
}

impl LoneLimits {
    fn new(config: &InstanceConfig) -> Self {
        let rules = &config.scheduler;
        let watermark = if rules.watermark_when_idle { rules.watermark_blocks } else { 0 };
        Self {
            context: config.max_model_len.unwrap_or(u64::MAX),
            reserved: watermark + u64::from(rules.spare_block) + rules.selection_reserves().0,
            budget: if rules.cuts_prompts() { u64::MAX } else { rules.max_num_batched_tokens },
            slots: config
                .speculation
                .as_ref()
                .map_or(0, |rules| rules.most_slots(config.scheduler.schedule_ahead)),
            beside: if rules.output_reserve.is_some() { u64::from(config.block_tokens) + 1 } else { 0 },
            load: match (&config.tier, &config.speculation) {
                (Some(_), Some(rules)) => 1 + rules.most_slots(false),
                _ => 0,
            },
        }
    }
}

/// Whether the steps after one with prefills are planned when it starts.
fn plans(config: &InstanceConfig, observed: &ObservedFields) -> bool {
    let scheduler = &config.scheduler;
    observed.leap
        && !scheduler.holds_arrivals()
        && !scheduler.is_layered()
        && config.tier.is_none()
        && config.pipeline.is_none()
        && observed.records.is_none()
        && !observed.asked_again
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
        let varying = scheduler.varying.exist().then(|| Arc::new(scheduler.varying.clone()));
        let budget = scheduler.varying.tokens.as_ref();
        let least_tokens = budget.map_or(scheduler.max_num_batched_tokens, |budget| budget.least);
        let limits_prompts = joining.is_limited() || config.pipeline.is_some();
        let any_arrival_counts = varying.is_some() || joining.passes_over() || config.prefetches();
        let displaces_when = match &scheduler.admission {
            Admission::Displace { when, .. } => when.clone().map(Arc::new),
            Admission::Wait => None,
        };
        let mut cost = config.cost.clone();
        let prepared = scheduler.max_num_seqs.min(MOST_PREPARED);
        let mut speculation = config.speculation.clone();
        let drafts = speculation.as_ref().map_or(0, |speculation| u64::from(speculation.tokens));
        // With drafts, each is verified by a row of its own; a draft model computes them, and samples a row a request.
        cost.prepare(prepared, &[(drafts, drafts + 1)]);
        if let Some(draft) = speculation.as_mut().and_then(|speculation| speculation.draft.as_mut()) {
            draft.prepare(prepared, &[(drafts, 1), (0, 1)]);
        }
        Self {
            index: index as u32,
            block: BlockSize::new(config.block_tokens, config.state_blocks),
            blocks: config.blocks,
            kv_bytes_per_token: config.kv_bytes_per_token,
            state_bytes: config.state_bytes,
            kv_layers: config.kv_layers,
            model: config.model.unwrap_or(ANY_MODEL),
            lone: LoneLimits::new(config),
            scheduler,
            rises: Rises::new(&cost, speculation.as_ref(), prepared),
            cost,
            leap: observed.leap && config.pipeline.is_none(),
            handover: observed.handover,
            displaces_when,
            varying,
            least_tokens,
            limits_prompts,
            any_arrival_counts,
            selects: config.scheduler.selects(),
            reserves: config.scheduler.reserves(),
            predicts: observed.prefills || ranks_read_prefill || buckets_read_prefill,
            speculation: speculation.map(Arc::new),
            plans: plans(config, observed),
        }
    }

    /// Why this instance can never serve such a request, which names `model`, if it cannot.
    pub(crate) fn refuses(&self, prompt: u32, output: u32, model: u32) -> Reason {
        if model == self.model || model == ANY_MODEL || self.model == ANY_MODEL {
            self.rejects(prompt, output)
        } else {
            rare();
            Reason::NoModel
        }
    }

    /// Why this instance can never serve a request of its model, if it cannot.
    ///
    /// The KV of the last token is never written, so a sequence of `n` tokens
    /// needs blocks for `n - 1`, beside the watermark and the spare block where
    /// these apply even to the only request.
    fn rejects(&self, prompt: u32, output: u32) -> Reason {
        let sequence = u64::from(prompt) + u64::from(output);
        if sequence > self.lone.context {
            return Reason::ExceedsContext;
        }
        let slots = (sequence - 1 + self.lone.slots).min(self.lone.context.max(sequence - 1));
        let slots = slots.max(sequence - 1 + self.lone.load);
        let beside = if self.lone.beside > 0 { sequence + self.lone.beside } else { 0 };
        if self.block.held_with(slots) + self.lone.reserved > self.blocks
            || beside > self.blocks * u64::from(self.block.tokens())
        {
            return Reason::ExceedsMemory;
        }
        if u64::from(prompt) > self.lone.budget {
            return Reason::ExceedsBudget;
        }
        Reason::None
    }

    /// Whether two instances reject the same requests.
    pub(crate) fn rejects_like(&self, other: &Self) -> bool {
        let limits = |x: &Self| (x.block, x.blocks, x.lone, x.model);
        limits(self) == limits(other)
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
    pub(crate) fn blocks_with_lookahead(&self, tokens: u32) -> u64 {
        match &self.speculation {
            None => self.blocks_for(tokens),
            Some(speculation) => {
                rare();
                let slots = u64::from(tokens) + u64::from(speculation.lookahead);
                self.block.held_with(slots.min(self.lone.context.max(u64::from(tokens))))
            }
        }
    }

    /// Tokens that a request may compute in a step after `computed` others: the token after them must fit.
    pub(crate) fn most_tokens(&self, computed: u32) -> u64 {
        self.lone.context.saturating_sub(u64::from(computed) + 1)
    }

    /// Whether no step of a request has fewer drafts, or fewer slots for them, as its sequence is near the longest one.
    pub(crate) fn never_cuts(&self, state: &RequestState) -> bool {
        let slots = 1 + self.lone.slots;
        u64::from(state.prompt) + u64::from(state.output) + slots <= self.lone.context
    }

    /// Tokens of the budget that each scheduled request takes beside its own.
    pub(crate) fn input_slots(&self) -> u64 {
        self.speculation.as_ref().map_or(0, |speculation| u64::from(speculation.input_slots))
    }

    /// Slots that a decode may take in a step, with those for the KV of the next drafts; 0 where none is drafted.
    pub(crate) fn draft_slots(&self) -> u32 {
        self.speculation.as_ref().map_or(0, |rules| 1 + rules.most_slots(false) as u32)
    }

    /// Ticks that a step of this shape takes, with the passes of the draft model after it.
    pub(crate) fn step_ticks(&self, shape: &StepShape) -> Ticks {
        let ticks = self.cost.step(shape);
        match &self.speculation {
            None => ticks,
            Some(speculation) => {
                rare();
                ticks.saturating_add(draft_ticks(speculation, shape)).min(HORIZON)
            }
        }
    }

    /// As [`Self::step_ticks`], of a step of the decode set alone where tokens are drafted, and how the ticks rise with the
    /// context; `None` if that is not along a straight line.
    pub(crate) fn step_rise(&self, shape: &StepShape) -> Option<Rise> {
        self.rises.of(shape).or_else(|| rise(&self.cost, self.speculation.as_ref()?, shape))
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
        u64::from(tokens) * self.kv_bytes_per_token
    }

    /// Bytes with which a request continues elsewhere: the KV of `tokens` tokens, and its states.
    pub(crate) fn moved_bytes(&self, tokens: u32) -> u64 {
        self.kv_bytes(tokens) + self.state_bytes
    }

    /// Whether requests have states, which are transferred though no KV is lacking.
    pub(crate) fn has_states(&self) -> bool {
        self.state_bytes > 0
    }

    /// Blocks that admissions leave free while `admitted` requests are admitted.
    pub(crate) fn watermark(&self, admitted: u64) -> u64 {
        let applies = self.scheduler.watermark_when_idle || admitted > 0;
        if applies { self.scheduler.watermark_blocks } else { 0 }
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
