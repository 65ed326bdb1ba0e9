//! Speculative decoding on an instance: how many drafts a request has, and which are accepted.

use serde::Deserialize;

use crate::cost::Cost;
use crate::error::Error;
use crate::trace::TraceRow;

/// The most drafts of a request in a step. The methods of vLLM and `SGLang` propose at most some ten.
const MOST_DRAFTS: u32 = 64;

/// The most numbers in a list of measured ones, and in the period of an acceptance length.
const MOST_LISTED: usize = 1 << 16;

/// Speculative decoding, as vLLM V1 schedules it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpeculationConfig {
    /// Drafts that are proposed for a request after a step, at most.
    pub tokens: u32,
    /// Drafts by the requests in a step: from so many requests on, so many drafts. Empty: always `tokens`.
    pub by_batch: Vec<(u64, u32)>,
    /// How many drafts are proposed where that differs from request to request; `None`: as many as may be.
    pub proposals: Option<Listed>,
    /// Which drafts are accepted.
    pub acceptance: DraftAcceptance,
    /// Slots past the tokens of a step, for the KV of the next drafts, with [`DraftSlots::Lookahead`].
    pub lookahead: u32,
    /// Which steps have slots for drafts.
    #[serde(default)]
    pub slots: DraftSlots,
    /// Tokens of the step's budget that each scheduled request takes for the input of its drafts.
    pub input_slots: u32,
    /// Tokens after a block that its content in the prefix cache covers: 0 or 1.
    pub hash_lookahead: u32,
    /// Whether a lookup in the prefix cache does not use the last block that it finds.
    pub drops_last_block: bool,
    /// Whether a request that is admitted with one token to compute is padded with drafts that are never accepted.
    pub pads: bool,
    /// How long a pass of the draft model or head takes; `None`: drafts take no time.
    #[serde(default)]
    pub draft: Option<Box<Cost>>,
}

/// Which steps have slots for drafts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DraftSlots {
    /// Each step has `lookahead` slots past its tokens, as under vLLM. Drafts and slots end with the longest sequence.
    #[default]
    Lookahead,
    /// Each decode has slots for the tokens of two steps, and no prompt has any, as under `SGLang`. A request that ends has the
    /// KV of its last token, where drafts past that are accepted.
    TwoSteps,
}

/// Numbers by request and progress: `values[(stride * row + outputs) % len]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// The factor of the request's row in the trace.
    pub stride: u64,
    /// The numbers.
    pub values: Vec<u32>,
}

impl Listed {
    /// The number of a request that has yielded `outputs` tokens.
    pub(crate) fn at(&self, row: TraceRow, outputs: u32) -> u32 {
        let at = u128::from(self.stride) * u128::from(row.0) + u128::from(outputs);
        self.values[(at % self.values.len() as u128) as usize]
    }
}

/// Which drafts of a request are accepted. Each rule depends on the request and on the tokens that it has yielded, and not
/// on the instance or the step.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DraftAcceptance {
    /// Steps in turn yield these numbers of tokens, of which one is not a draft.
    Periodic {
        /// The numbers, each at least 1.
        yields: Vec<u32>,
    },
    /// Of each request, the mean of the tokens that its steps yield, as evenly as possible: in `i` steps
    /// `i * numerators[row % len] / denominator`, rounded down.
    ByRow {
        /// The denominator of each mean.
        denominator: u32,
        /// The numerators, by row of the trace.
        numerators: Vec<u32>,
    },
    /// Drawn for each draft, in order, until the first that is rejected.
    Drawn {
        /// By position: the probability of being accepted once those before are, times 2^32.
        chances: Vec<u64>,
        /// The seed of the draws.
        seed: u64,
    },
    /// Measured numbers of accepted drafts.
    Listed(Listed),
}

impl SpeculationConfig {
    /// Drafts that are proposed after a step of `requests` requests, at most.
    pub(crate) fn tokens_after(&self, requests: u64) -> u32 {
        let reached = self.by_batch.iter().take_while(|(from, _)| *from <= requests).last();
        reached.map_or(self.tokens, |&(_, tokens)| tokens)
    }

    /// Slots that are allocated past the tokens of a step. `decodes`: it is a decode's, and not one of a prompt.
    pub(crate) fn slots_past(&self, decodes: bool) -> u32 {
        match self.slots {
            DraftSlots::Lookahead => self.lookahead,
            DraftSlots::TwoSteps if decodes => self.tokens + 1,
            DraftSlots::TwoSteps => 0,
        }
    }

    /// Whether drafts and slots end with the longest sequence.
    pub(crate) fn within_context(&self) -> bool {
        self.slots == DraftSlots::Lookahead
    }

    /// Whether a request that ends has the KV of its last token, where drafts past that are accepted.
    pub(crate) fn commits_last(&self) -> bool {
        self.slots == DraftSlots::TwoSteps
    }

    /// Slots that a lone request may need past its last token. `ahead`: steps are decided ahead, and count the drafts of
    /// the step before as computed.
    pub(crate) fn most_slots(&self, ahead: bool) -> u64 {
        (1 + u64::from(ahead)) * u64::from(self.tokens) + u64::from(self.slots_past(true))
    }

    /// Checks its numbers.
    ///
    /// # Errors
    ///
    /// Names the number that is out of range.
    pub(super) fn check(&self, at: &str) -> Result<(), Error> {
        let refuse =
            |field: &str, rule: String| Err(Error::config(format!("{at}.speculation.{field}"), rule));
        let drafts = |tokens: u32| (1..=MOST_DRAFTS).contains(&tokens);
        if !drafts(self.tokens) {
            return refuse("tokens", format!("must be 1 to {MOST_DRAFTS}, was {}", self.tokens));
        }
        let rises = self.by_batch.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let within = self.by_batch.iter().all(|(_, tokens)| *tokens <= self.tokens);
        if !rises || !within || self.by_batch.first().is_some_and(|(from, _)| *from != 1) {
            let rule = format!(
                "must begin at 1 request, rise, and have at most {} drafts, was {:?}",
                self.tokens, self.by_batch
            );
            return refuse("by_batch", rule);
        }
        if self.lookahead > MOST_DRAFTS || self.input_slots > MOST_DRAFTS {
            let rule =
                format!("must be at most {MOST_DRAFTS}, were {} and {}", self.lookahead, self.input_slots);
            return refuse("lookahead, input_slots", rule);
        }
        if self.hash_lookahead > 1 {
            return refuse("hash_lookahead", format!("must be 0 or 1, was {}", self.hash_lookahead));
        }
        let lists = [("proposals", self.proposals.as_ref()), ("acceptance", self.acceptance.listed())];
        for (field, list) in lists {
            if let Some(list) = list {
                check_list(list).or_else(|rule| refuse(field, rule))?;
            }
        }
        self.acceptance.check().or_else(|rule| refuse("acceptance", rule))
    }
}

/// Checks a list of measured numbers.
fn check_list(list: &Listed) -> Result<(), String> {
    let len = list.values.len();
    if !(1..=MOST_LISTED).contains(&len) || list.values.iter().any(|&value| value > MOST_DRAFTS) {
        return Err(format!(
            "must list 1 to {MOST_LISTED} numbers of at most {MOST_DRAFTS} drafts, had {len}"
        ));
    }
    Ok(())
}

impl DraftAcceptance {
    fn listed(&self) -> Option<&Listed> {
        if let Self::Listed(list) = self { Some(list) } else { None }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self::Periodic { yields } => {
                let bounds = yields.iter().all(|yielded| (1..=MOST_DRAFTS + 1).contains(yielded));
                if !(1..=MOST_LISTED).contains(&yields.len()) || !bounds {
                    return Err(format!("must yield 1 to {} tokens a step, was {yields:?}", MOST_DRAFTS + 1));
                }
            }
            Self::Drawn { chances, .. } => {
                if chances.len() > MOST_DRAFTS as usize || chances.iter().any(|chance| *chance > 1 << 32) {
                    return Err(format!(
                        "must be at most {MOST_DRAFTS} chances of at most 2^32, was {chances:?}"
                    ));
                }
            }
            Self::ByRow { denominator, numerators } => {
                let most = u64::from(*denominator) * u64::from(MOST_DRAFTS + 1);
                let bounds = u64::from(*denominator)..=most;
                if *denominator == 0 || numerators.is_empty() {
                    return Err("must have a denominator above 0 and at least one numerator".into());
                }
                if let Some(other) = numerators.iter().find(|&&of| !bounds.contains(&u64::from(of))) {
                    let tokens = MOST_DRAFTS + 1;
                    return Err(format!(
                        "must yield 1 to {tokens} tokens a step, was {other} / {denominator}"
                    ));
                }
            }
            Self::Listed(_) => {}
        }
        Ok(())
    }
}
