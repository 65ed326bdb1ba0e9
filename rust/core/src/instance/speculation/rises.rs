//! How long steps of the decode set take, drafts and the passes of the draft model included, by their context.

use super::drafting::draft_rise;
use crate::config::SpeculationConfig;
use crate::cost::{Cost, Rise, StepShape};
use crate::time::HORIZON;

/// Ticks of steps that only decode, each request with all its drafts, and how they rise with the context.
#[derive(Debug, Default)]
pub(in crate::instance) struct Rises {
    /// By requests: the line that begins without context, as far as it is straight.
    lines: Vec<Rise>,
}

impl Rises {
    /// Computes the lines of up to `most` requests, where tokens are drafted.
    pub(in crate::instance) fn new(cost: &Cost, config: Option<&SpeculationConfig>, most: u64) -> Self {
        let Some(config) = config else { return Self::default() };
        let line = |requests: u64| {
            let drafts = requests * u64::from(config.tokens);
            let (sampled, shape) = (requests + drafts, StepShape::default());
            rise(
                cost,
                config,
                &StepShape { decode_requests: requests, draft_tokens: drafts, sampled, ..shape },
            )
        };
        Self { lines: (1..=most).map_while(line).collect() }
    }

    /// How the ticks of such a step rise, if its context is on the line of its requests.
    pub(in crate::instance) fn of(&self, shape: &StepShape) -> Option<Rise> {
        let line = self.lines.get((shape.decode_requests as usize).checked_sub(1)?)?;
        let ticks = line.after(shape.decode_kv).filter(|_| shape.prefill_layers == shape.layers)?;
        Some(Rise { ticks: ticks.min(HORIZON), tokens: line.tokens - shape.decode_kv, ..*line })
    }
}

/// Ticks of a step that only decodes, each request with all its drafts, and how they rise with the context; `None` if that is
/// not along a straight line.
pub(in crate::instance) fn rise(cost: &Cost, config: &SpeculationConfig, shape: &StepShape) -> Option<Rise> {
    let (step, draft) = (cost.rise(shape)?, draft_rise(config, shape)?);
    let ticks = step.ticks.saturating_add(draft.ticks).min(HORIZON);
    let token = step.token.saturating_add(draft.token);
    Some(Rise { ticks, token, tokens: step.tokens.min(draft.tokens) })
}

#[cfg(test)]
mod tests {
    use super::super::drafting::draft_ticks;
    use super::*;
    use crate::config::{DraftAcceptance, DraftSlots};
    use crate::cost::Affine;

    #[test]
    fn context_is_read_by_the_step_and_by_each_pass_of_the_draft_model() {
        let cost = Cost::Affine(Affine { step: 100, token: 10, kv_token: 1 });
        let config = SpeculationConfig {
            tokens: 3,
            by_batch: Vec::new(),
            proposals: None,
            acceptance: DraftAcceptance::Periodic { yields: vec![2, 3] },
            lookahead: 3,
            slots: DraftSlots::default(),
            input_slots: 0,
            hash_lookahead: 0,
            drops_last_block: false,
            pads: true,
            draft: Some(Box::new(cost.clone())),
        };
        let rises = Rises::new(&cost, Some(&config), 2);
        let (decode_requests, decode_kv) = (2, 58);
        let shape =
            StepShape { decode_requests, draft_tokens: 6, decode_kv, sampled: 8, ..StepShape::default() };
        let found = rises.of(&shape).expect("two requests are on a line");
        // The step, and the passes as in the test of `draft_ticks`, which are three.
        assert_eq!(found.ticks, 100 + 80 + 58 + draft_ticks(&config, &shape));
        assert_eq!(found.token, 1 + 3);
        assert_eq!(
            Some(found),
            rise(&cost, &config, &shape).map(|rise| Rise { tokens: found.tokens, ..rise })
        );
        let longer = StepShape { decode_kv: 58 + 5, ..shape };
        assert_eq!(found.after(5), Some(cost.step(&longer) + draft_ticks(&config, &longer)));
        let three = StepShape { decode_requests: 3, ..shape };
        assert_eq!(rises.of(&three), None, "only up to two were computed beforehand");
        assert_eq!(rises.of(&StepShape { decode_requests: 0, ..shape }), None);
    }
}
