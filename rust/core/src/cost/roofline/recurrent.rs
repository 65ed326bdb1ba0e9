//! Layers with states of constant size: linear attention and state-space models.

use serde::Deserialize;

use super::super::StepShape;
use crate::time::Ticks;

/// The kernels of layers in which a request keeps a state and no cache. They do not grow with the context, so they add
/// the same to each step of a run.
///
/// A step that only decodes is one kernel, `request_decodes` for each request. Prefills are computed chunk by chunk:
/// `max(request_bytes * requests + token_bytes * tokens, token_flops * tokens)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recurrent {
    /// Ticks of a decoding request: its states read and written, and its token.
    pub request_decodes: Ticks,
    /// Ticks to read and write the states of a request in prefill.
    pub request_bytes: Ticks,
    /// Ticks to read and write one token in prefill.
    pub token_bytes: Ticks,
    /// Ticks to compute one token in prefill.
    pub token_flops: Ticks,
}

impl Recurrent {
    /// Ticks of the decoding requests in a step.
    pub(super) fn decode(self, shape: &StepShape) -> Ticks {
        self.request_decodes.saturating_mul(shape.decode_requests)
    }

    /// Ticks of the prefills in a step, in all layers.
    pub(super) fn prefill(self, shape: &StepShape) -> Ticks {
        let bytes = self
            .request_bytes
            .saturating_mul(shape.prefill_requests)
            .saturating_add(self.token_bytes.saturating_mul(shape.prefill_tokens));
        bytes.max(self.token_flops.saturating_mul(shape.prefill_tokens))
    }
}
