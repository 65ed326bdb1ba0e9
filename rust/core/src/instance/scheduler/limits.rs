//! The limits of a step, which may depend on the instance as the step is formed.

use super::Stages;
use crate::hint::rare;
use crate::instance::Part;

/// The limits of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StepLimits {
    /// Tokens that it may compute.
    pub(crate) tokens: u64,
    /// Tokens above which a prompt is long, and the most of one chunk if another request is there; 0: no limit.
    pub(crate) threshold: u64,
    /// The most tokens of one chunk.
    pub(crate) chunk: u64,
}

impl Stages<'_> {
    /// The limits of the step that is formed.
    pub(super) fn step_limits(&mut self) -> StepLimits {
        let settings = &self.effects.settings;
        let fixed = StepLimits {
            tokens: settings.scheduler.max_num_batched_tokens,
            threshold: settings.scheduler.long_prefill_token_threshold,
            chunk: u64::MAX,
        };
        if settings.limits.varying.is_none() {
            return fixed;
        }
        rare();
        self.varying_limits(fixed).0
    }

    /// The limits where some vary, as of the present state, and for how many steps of the decode set they hold.
    #[inline(never)]
    fn varying_limits(&mut self, fixed: StepLimits) -> (StepLimits, u64) {
        let (now, mut limits, mut steps) = (self.draft.now, fixed, u64::MAX);
        let Some(varying) = self.effects.settings.limits.varying.clone() else { return (limits, steps) };
        if let Some(budget) = &varying.tokens {
            let (value, holds) = self.effects.value(&budget.of, now);
            let most = self.effects.settings.scheduler.max_num_batched_tokens;
            limits.tokens = whole_within(value, budget.least, most);
            steps = holds;
        }
        if let Some(chunk) = &varying.chunk {
            let (value, holds) = self.effects.value(chunk, now);
            limits.threshold = whole_within(value, 0, u64::from(u32::MAX));
            steps = steps.min(holds);
        }
        (limits, steps)
    }

    /// A chunk of `wanted` tokens of which `most` may be computed: cut to whole blocks if chunks are.
    #[inline]
    pub(super) fn cut(&self, wanted: u64, most: u64) -> u64 {
        if wanted <= most || !self.effects.settings.scheduler.whole_block_chunks {
            return wanted.min(most);
        }
        rare();
        most - most % u64::from(self.effects.settings.block.tokens())
    }

    /// A first chunk of `wanted` tokens of which `most` may be computed: cut to whole blocks if it is charged in them.
    #[inline]
    pub(super) fn cut_first(&self, wanted: u64, most: u64) -> u64 {
        if !self.charges_blocks() || self.charge_of_chunk(wanted) <= most {
            return self.cut(wanted, most);
        }
        rare();
        most - most % u64::from(self.effects.settings.block.tokens())
    }

    /// Tokens of the budget that a chunk of a prompt takes: whole blocks, where admissions leave room for outputs.
    #[inline]
    pub(super) fn charge_of_chunk(&self, tokens: u64) -> u64 {
        if !self.charges_blocks() {
            return tokens;
        }
        rare();
        let block = self.effects.settings.block;
        block.needed_for(tokens) * u64::from(block.tokens())
    }

    /// Charges the budget with `tokens` tokens of a request that runs in the step because of `part`.
    #[inline]
    pub(super) fn charge_part(&mut self, tokens: u64, part: Part) {
        let of_prompt = matches!(part, Part::Admitted | Part::Chunk);
        self.charge(if of_prompt { self.charge_of_chunk(tokens) } else { tokens });
    }

    /// Whether chunks of prompts are charged in whole blocks (`sglang` 0.5.23, `_update_prefill_budget` in
    /// `srt/managers/schedule_policy.py`).
    fn charges_blocks(&self) -> bool {
        self.effects.reserve.is_some() && self.effects.settings.scheduler.cuts_prompts()
    }

    /// For how many steps of the decode-only step that was formed the limits surely decide nothing else: while they hold;
    /// or for any number, if the fewest tokens suffice and no request waits.
    pub(super) fn steps_within_limits(&mut self) -> u64 {
        if self.effects.settings.limits.varying.is_none() {
            return u64::MAX;
        }
        rare();
        self.steps_of_varying()
    }

    #[inline(never)]
    fn steps_of_varying(&mut self) -> u64 {
        let charged = self.effects.charge_of_decodes();
        let waits = self.effects.queued() > 0 || !self.effects.batch.outside().is_empty();
        if !waits && charged <= self.effects.settings.limits.least_tokens {
            return u64::MAX;
        }
        // The next step is formed in the state that this one leaves, with the requests that it has admitted.
        let formed = self.draft.limits;
        let (next, steps) = self.varying_limits(formed);
        if next == formed { steps } else { 1 }
    }
}

/// A value as a whole number from `least` to `most`, rounded down; what is no number is `least`.
fn whole_within(value: f64, least: u64, most: u64) -> u64 {
    // A conversion of a float saturates, and turns NaN into 0.
    (value.floor() as u64).clamp(least, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_rounded_down_and_kept_within_its_bounds() {
        let values = [-3.5, 0.0, 4.99, 5.0, 7.9, 8.0, 1e300, f64::INFINITY, f64::NAN];
        assert_eq!(values.map(|value| whole_within(value, 4, 8)), [4, 4, 4, 5, 7, 8, 8, 8, 4]);
    }
}
