//! The limits of an instance's steps and requests.

use std::sync::Arc;

use crate::config::{InstanceConfig, VaryingLimits};
use crate::hint::rare;
use crate::instance::request::RequestState;
use crate::kv::BlockSize;
use crate::metrics::Reason;
use crate::trace::ANY_MODEL;

/// The limits of steps, and of the requests that an instance can serve.
#[derive(Debug)]
pub(crate) struct Limits {
    /// The limits of a step that are evaluated for each, if there are any.
    pub(crate) varying: Option<Arc<VaryingLimits>>,
    /// The fewest tokens that a step may compute.
    pub(crate) least_tokens: u64,
    /// Whether a prompt may have to wait though there is room for it.
    pub(crate) prompts: bool,
    /// Whether any arrival may change the next step, though a request waits before it.
    pub(crate) any_arrival_counts: bool,
    /// The number of the model that the instance serves; [`ANY_MODEL`]: all.
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
    /// The most slots for tokens and drafts.
    most_slots: u64,
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
            most_slots: match (&config.speculation, config.max_model_len) {
                (Some(rules), _) if !rules.within_context() => u64::MAX,
                (_, context) => context.unwrap_or(u64::MAX),
            },
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

impl Limits {
    pub(super) fn new(config: &InstanceConfig) -> Self {
        let scheduler = &config.scheduler;
        let varying = scheduler.varying.exist().then(|| Arc::new(scheduler.varying.clone()));
        let budget = scheduler.varying.tokens.as_ref();
        Self {
            least_tokens: budget.map_or(scheduler.max_num_batched_tokens, |budget| budget.least),
            prompts: scheduler.joining.is_limited() || config.pipeline.is_some(),
            any_arrival_counts: varying.is_some()
                || scheduler.joining.passes_over()
                || scheduler.prompt_batch.is_some()
                || config.prefetches(),
            varying,
            model: config.model.unwrap_or(ANY_MODEL),
            lone: LoneLimits::new(config),
        }
    }

    /// Why an instance with so many blocks can never serve such a request, which names `model`, if it cannot.
    ///
    /// The KV of the last token is never written, so a sequence of `n` tokens needs blocks for `n - 1`, beside the watermark
    /// and the spare block where these apply even to the only request.
    pub(super) fn refuses(
        &self,
        (prompt, output): (u32, u32),
        model: u32,
        block: BlockSize,
        blocks: u64,
    ) -> Reason {
        let lone = &self.lone;
        if model != self.model && model != ANY_MODEL && self.model != ANY_MODEL {
            rare();
            return Reason::NoModel;
        }
        let sequence = u64::from(prompt) + u64::from(output);
        if sequence > lone.context {
            return Reason::ExceedsContext;
        }
        let slots = (sequence - 1 + lone.slots).min(lone.most_slots.max(sequence - 1));
        let slots = slots.max(sequence - 1 + lone.load);
        let beside = if lone.beside > 0 { sequence + lone.beside } else { 0 };
        if block.held_with(slots) + lone.reserved > blocks || beside > blocks * u64::from(block.tokens()) {
            return Reason::ExceedsMemory;
        }
        if u64::from(prompt) > lone.budget {
            return Reason::ExceedsBudget;
        }
        Reason::None
    }

    /// Whether two instances with equal blocks refuse the same requests.
    pub(super) fn refuses_like(&self, other: &Self) -> bool {
        (self.lone, self.model) == (other.lone, other.model)
    }

    /// The most slots that a request has for its tokens and drafts.
    pub(super) fn most_slots(&self) -> u64 {
        self.lone.most_slots
    }

    /// Tokens that a request may compute in a step after `computed` others: the token after them must fit.
    pub(crate) fn most_tokens(&self, computed: u32) -> u64 {
        self.lone.most_slots.saturating_sub(u64::from(computed) + 1)
    }

    /// Whether no step of a request has fewer drafts, or fewer slots for them, as its sequence is near the longest one.
    pub(crate) fn never_cuts(&self, state: &RequestState) -> bool {
        let slots = 1 + self.lone.slots;
        u64::from(state.prompt) + u64::from(state.output) + slots <= self.lone.most_slots
    }
}
