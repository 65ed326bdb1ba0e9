//! How long a draft model or head takes to propose drafts.

use crate::config::SpeculationConfig;
use crate::cost::{Rise, Run, StepShape};
use crate::series::Series;
use crate::time::{HORIZON, Ticks};

/// Ticks that the passes of a draft model take after a step of this shape.
///
/// The first pass computes all tokens of the step, as the target has: the drafter has KV of its own. Each further pass
/// computes one token of each request that yielded one. The contexts of all requests count in these, and grow by a token a
/// pass. Follows `propose` in `vllm/v1/spec_decode/eagle.py` of vLLM 0.33.0.
pub(in crate::instance) fn draft_ticks(config: &SpeculationConfig, shape: &StepShape) -> Ticks {
    let passes = u64::from(config.tokens_after(shape.decode_requests + shape.prefill_requests));
    let Some(draft) = config.draft.as_ref().filter(|_| passes > 0) else { return 0 };
    let requests = shape.sampled - shape.draft_tokens;
    let mut ticks = draft.step(&StepShape { sampled: requests, ..*shape });
    let mut pass = 1;
    while requests > 0 && pass < passes {
        let shape = StepShape {
            decode_requests: requests,
            decode_kv: shape.decode_kv + shape.prefill_kv + pass * requests,
            decode_max_kv: shape.decode_max_kv + pass,
            sampled: requests,
            ..StepShape::default()
        };
        let Run { first, slope, steps } = draft.run(&shape, passes - pass);
        let total = Series { first, slope }.total(steps);
        ticks = ticks.saturating_add(total.min(u128::from(HORIZON)) as Ticks);
        pass += steps;
    }
    ticks.min(HORIZON)
}

/// As [`draft_ticks`], of a step of the decode set alone, and how the ticks rise with the context; `None` if that is not along
/// a straight line.
pub(in crate::instance) fn draft_rise(config: &SpeculationConfig, shape: &StepShape) -> Option<Rise> {
    let requests = shape.decode_requests;
    let further = u64::from(config.tokens_after(requests)).checked_sub(1);
    let Some((draft, further)) = config.draft.as_ref().zip(further) else {
        return Some(Rise { tokens: u64::MAX, ..Rise::default() });
    };
    let mut all = draft.rise(&StepShape { sampled: requests, ..*shape })?;
    if further > 0 {
        let second = StepShape {
            decode_requests: requests,
            decode_kv: shape.decode_kv + requests,
            decode_max_kv: shape.decode_max_kv + 1,
            sampled: requests,
            ..StepShape::default()
        };
        let each = draft.rise(&second)?;
        let series = Series { first: each.ticks, slope: each.token * requests };
        all.ticks = all.ticks.saturating_add(series.total(further).min(u128::from(HORIZON)) as Ticks);
        all.token += each.token * further;
        all.tokens = all.tokens.min(each.tokens.checked_sub((further - 1) * requests)?);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DraftAcceptance, DraftSlots};
    use crate::cost::{Affine, Cost};

    #[test]
    fn the_first_pass_computes_the_step_and_the_others_a_token_a_request() {
        let cost = Cost::Affine(Affine { step: 100, token: 10, kv_token: 1 });
        let config = |draft| SpeculationConfig {
            tokens: 3,
            by_batch: vec![(1, 3), (9, 0)],
            proposals: None,
            acceptance: DraftAcceptance::Periodic { yields: vec![2] },
            lookahead: 3,
            slots: DraftSlots::default(),
            input_slots: 0,
            hash_lookahead: 0,
            drops_last_block: false,
            pads: true,
            draft,
        };
        // Two requests of four tokens each, whose contexts have 58 tokens in all.
        let shape = StepShape {
            decode_requests: 2,
            draft_tokens: 6,
            decode_kv: 58,
            sampled: 8,
            ..StepShape::default()
        };
        let first = 100 + 8 * 10 + 58;
        let others = (100 + 2 * 10 + 60) + (100 + 2 * 10 + 62);
        let drafted = config(Some(Box::new(cost)));
        assert_eq!(draft_ticks(&drafted, &shape), first + others);
        assert_eq!(draft_ticks(&config(None), &shape), 0);
        assert_eq!(
            draft_ticks(&drafted, &StepShape { decode_requests: 9, ..shape }),
            0,
            "no drafts are proposed"
        );
    }
}
