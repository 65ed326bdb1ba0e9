//! Limits of a step that depend on the instance, and limits on the prompts that are admitted beside others.

use serde::Deserialize;

use crate::policy::Expr;
use crate::time::Ticks;

/// Limits of a step that are evaluated whenever a step is formed.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct VaryingLimits {
    /// The tokens that a step may compute; `None`: always `max_num_batched_tokens`.
    pub tokens: Option<TokenBudget>,
    /// The most tokens of one prefill in a step while another request is there, rounded down, and no limit at 0 or
    /// less; `None`: always `long_prefill_token_threshold`.
    pub chunk: Option<Expr>,
}

impl VaryingLimits {
    /// Whether a limit is evaluated for each step.
    pub(crate) fn exist(&self) -> bool {
        self.tokens.is_some() || self.chunk.is_some()
    }

    /// All expressions.
    pub(crate) fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.tokens.iter().map(|budget| &budget.of).chain(&self.chunk)
    }
}

/// The tokens that a step may compute: the value of an expression, rounded down, from `least` to
/// `max_num_batched_tokens`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenBudget {
    /// The fewest tokens, at least 1.
    pub least: u64,
    /// The expression, of fields of the instance.
    pub of: Expr,
}

/// Which prompts may be admitted beside the requests that run. A request that resumes with its KV always may.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Joining {
    /// The most requests in prefill at once; 0: no limit. At the limit, the stage that admits ends.
    pub prefills: u64,
    /// The most long requests in prefill at once; 0: no limit. A request is long while it lacks more tokens than
    /// `long_prefill_token_threshold`. At the limit, a long request is passed over.
    pub long_prefills: u64,
    /// The bucket of a request, by its fields that never change. A request is passed over while the first of the
    /// running requests is in another bucket.
    pub bucket: Option<Expr>,
    /// The most adapters of running requests; 0: no limit, and adapters take no time. At the limit, a request of
    /// another adapter is passed over.
    pub adapters: u64,
    /// Ticks to load an adapter, by which the step that admits a request of it takes longer.
    pub adapter_load: Ticks,
}

impl Joining {
    /// Whether a prompt may have to wait though there is room for it.
    pub(crate) fn is_limited(&self) -> bool {
        self.prefills > 0 || self.passes_over()
    }

    /// Whether a request may be passed over, so that one behind it is admitted before it.
    pub(crate) fn passes_over(&self) -> bool {
        self.long_prefills > 0 || self.bucket.is_some() || self.adapters > 0
    }
}
