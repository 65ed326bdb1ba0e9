//! The fields of a request that a policy reads.

use crate::policy::{InstField, InstanceRef, Linear, Number, ReqField, Scope, Validity};
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};

/// A count as a number that expressions compute with.
pub(crate) fn whole(count: u64) -> f64 {
    // A processor converts signed numbers in one instruction, and no count has 64 bits.
    debug_assert!(count >> 63 == 0, "Invariant: a count has 63 bits");
    count as i64 as f64
}

/// Ticks as the seconds that expressions count in.
pub(crate) fn seconds(ticks: Ticks) -> f64 {
    ticks as f64 / TICKS
}

/// At most what [`seconds`] gives, without its division.
pub(crate) fn seconds_at_least(ticks: Ticks) -> f64 {
    // Three roundings are less than this.
    const BELOW: f64 = 1.0 - 4.0 * f64::EPSILON;
    ticks as f64 * (PER_TICK * BELOW)
}

const TICKS: f64 = crate::time::TICKS_PER_SECOND as f64;

const PER_TICK: f64 = 1.0 / TICKS;

/// A request at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestView {
    /// Row in the trace.
    pub(crate) request: RequestNumber,
    /// The moment.
    pub(crate) now: Ticks,
    /// Prompt tokens.
    pub(crate) prompt: u32,
    /// Output tokens, all told.
    pub(crate) output: u32,
    /// Output tokens so far.
    pub(crate) generated: u32,
    /// Tokens whose KV exists.
    pub(crate) computed: u32,
    /// Whether it is in the decode set, or is evaluated as if it were.
    pub(crate) decoding: bool,
    /// Whether it is admitted.
    pub(crate) running: bool,
    /// Preemptions so far.
    pub(crate) preemptions: u32,
    /// When its reader runs out of tokens, if it has one.
    pub(crate) deadline: Option<i128>,
    /// How long it is admitted, or is not.
    pub(crate) stay: Stay,
    /// Its class and its level.
    pub(crate) class: InClass,
    /// The memory and the prefill that it takes.
    pub(crate) takes: Takes,
}

/// How long a request is admitted, or is not.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stay {
    /// Since when it is admitted, or is not.
    pub(crate) since: Ticks,
    /// Steps of its instance since then.
    pub(crate) idle_steps: u64,
    /// How long it was admitted before.
    pub(crate) attained: Ticks,
}

/// A request in its class of ranks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InClass {
    /// When it entered its class, or came to the instance.
    pub(crate) joined: Ticks,
    /// Output tokens when it entered its class.
    pub(crate) base: u32,
    /// Tokens in a quantum; 0: there are none.
    pub(crate) quantum: u32,
    /// The level that it is at, and the ticks until that may change.
    pub(crate) level: (u32, Option<Ticks>),
}

impl InClass {
    /// Quanta used up in the class by a request that has yielded `generated` tokens.
    fn quanta(&self, generated: u32) -> u32 {
        (generated - self.base).checked_div(self.quantum).unwrap_or(0)
    }

    /// Tokens until the quantum ends; `None` without quanta.
    fn left_of_quantum(&self, generated: u32) -> Option<u32> {
        (self.quantum > 0).then(|| self.quantum - (generated - self.base) % self.quantum)
    }
}

/// The memory and the prefill that a request takes, as far as they are read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Takes {
    /// Blocks that it holds if it is admitted; else blocks that its admission needs.
    pub(crate) blocks: u64,
    /// Predicted ticks of its prefill alone.
    pub(crate) prefill: Ticks,
    /// Tokens of its prompt that the prefix cache has.
    pub(crate) cached: u64,
}

impl RequestView {
    /// A request that arrives and is on no instance yet.
    pub(crate) fn arriving(request: RequestNumber, now: Ticks, trace: &Trace) -> Self {
        Self {
            request,
            now,
            // A trace that grows may be empty yet.
            prompt: trace.prompt_tokens.get(request.index()).copied().unwrap_or_default(),
            output: trace.output_tokens.get(request.index()).copied().unwrap_or_default(),
            stay: Stay { since: now, ..Stay::default() },
            class: InClass { joined: now, ..InClass::default() },
            ..Self::default()
        }
    }

    /// A field, as a line over steps and time, which is valid as `validity` says.
    pub(crate) fn field(&self, field: ReqField, trace: &Trace, validity: &mut Validity) -> Linear {
        let row = self.request.index();
        let step = if self.decoding { 1.0 } else { 0.0 };
        let tokens = |value: u32, per_step: f64| Linear { value: f64::from(value), per_step, per_tick: 0.0 };
        let clock = |value: f64, per_tick: f64| Linear { value, per_step: 0.0, per_tick };
        match field {
            ReqField::ArrivalS => Linear::fixed(seconds(trace.arrival[row])),
            ReqField::AgeS => clock(seconds(self.now - trace.arrival[row]), PER_TICK),
            ReqField::WaitingS | ReqField::IdleSteps if self.running => Linear::fixed(0.0),
            ReqField::WaitingS => clock(seconds(self.now - self.stay.since), PER_TICK),
            ReqField::IdleSteps => {
                Linear { value: whole(self.stay.idle_steps), per_step: 1.0, per_tick: 0.0 }
            }
            ReqField::AttainedS if self.running => {
                clock(seconds(self.stay.attained + (self.now - self.stay.since)), PER_TICK)
            }
            ReqField::AttainedS => Linear::fixed(seconds(self.stay.attained)),
            ReqField::JoinedS => Linear::fixed(seconds(self.class.joined)),
            ReqField::PromptTokens => tokens(self.prompt, 0.0),
            ReqField::GeneratedTokens => tokens(self.generated, step),
            ReqField::ContextTokens => tokens(self.prompt + self.generated, step),
            ReqField::KvTokens => tokens(self.computed, step),
            ReqField::Blocks => {
                if self.decoding {
                    validity.within_steps(1);
                }
                Linear::fixed(whole(self.takes.blocks))
            }
            ReqField::Phase => {
                if let Some(left) = self.steps_to_answer(trace) {
                    validity.within_steps(u64::from(left));
                }
                Linear::fixed(f64::from(self.phase(trace)))
            }
            ReqField::Priority => Linear::fixed(trace.priority_of(row) as f64),
            ReqField::Score => Linear::fixed(trace.score.as_ref().map_or(0.0, |column| column[row])),
            ReqField::Tenant => {
                Linear::fixed(trace.tenant.as_ref().map_or(0.0, |column| f64::from(column[row])))
            }
            ReqField::Quanta => {
                if let Some(left) = self.steps_to_quantum() {
                    validity.within_steps(u64::from(left));
                }
                Linear::fixed(f64::from(self.quanta()))
            }
            ReqField::Level => {
                if let Some(left) = self.class.level.1 {
                    validity.within_ticks(left);
                }
                Linear::fixed(f64::from(self.class.level.0))
            }
            ReqField::StoppedS if self.running => Linear::fixed(1e18),
            ReqField::StoppedS if self.generated == 0 && self.stay.attained == 0 => Linear::fixed(0.0),
            ReqField::StoppedS => Linear::fixed(seconds(self.stay.since)),
            ReqField::Preemptions => tokens(self.preemptions, 0.0),
            ReqField::SlackS => {
                let Some(deadline) = self.deadline else {
                    if let Some(left) = self.steps_to_answer(trace) {
                        validity.within_steps(u64::from(left));
                    }
                    return Linear::fixed(1e18);
                };
                if self.decoding {
                    validity.within_steps(1);
                }
                clock((deadline - i128::from(self.now)) as f64 / TICKS, -PER_TICK)
            }
            ReqField::PrefillS => Linear::fixed(seconds(self.takes.prefill)),
            ReqField::CachedTokens => Linear::fixed(whole(self.takes.cached)),
            ReqField::Running => Linear::fixed(f64::from(u8::from(self.running))),
            ReqField::OutputTokens => tokens(self.output, 0.0),
            ReqField::RemainingTokens => tokens(self.output - self.generated, -step),
            ReqField::ReasoningTokens => tokens(self.reasoning(trace).unwrap_or(0), 0.0),
        }
    }

    fn reasoning(&self, trace: &Trace) -> Option<u32> {
        trace.reasoning_tokens.as_ref().map(|column| column[self.request.index()])
    }

    /// Its phase: 0 prefill, 1 reasoning, 2 answering.
    pub(crate) fn phase(&self, trace: &Trace) -> u8 {
        if self.generated == 0 {
            0
        } else if self.reasoning(trace).is_some_and(|reasoning| self.generated < reasoning) {
            1
        } else {
            2
        }
    }

    /// Steps until it answers, if it is in the decode set and reasons.
    pub(crate) fn steps_to_answer(&self, trace: &Trace) -> Option<u32> {
        let reasoning = self.reasoning(trace).filter(|_| self.decoding)?;
        (self.generated < reasoning).then(|| reasoning - self.generated)
    }

    /// Quanta used up in its class.
    pub(crate) fn quanta(&self) -> u32 {
        self.class.quanta(self.generated)
    }

    /// Steps until its quantum ends, if it is in the decode set.
    pub(crate) fn steps_to_quantum(&self) -> Option<u32> {
        self.class.left_of_quantum(self.generated).filter(|_| self.decoding)
    }
}

/// The scope of an expression that reads the fields of one request only.
pub(crate) struct OfRequest<'a> {
    pub(crate) view: &'a RequestView,
    pub(crate) trace: &'a Trace,
}

impl Scope for OfRequest<'_> {
    fn request(&mut self, field: ReqField, validity: &mut Validity) -> Linear {
        self.view.field(field, self.trace, validity)
    }

    fn instance(&mut self, _: InstanceRef, _: InstField, _: u32) -> f64 {
        debug_assert!(false, "Invariant: ranks do not look at instances");
        0.0
    }

    fn column(&self, index: u32) -> f64 {
        self.trace.number(index, self.view.request.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bound_of_seconds_is_just_below_them(ticks in prop_oneof![0u64..10_000, any::<u64>()]) {
            let (bound, exact) = (seconds_at_least(ticks), seconds(ticks));
            prop_assert!(bound <= exact && bound >= exact * (1.0 - 1e-14));
        }
    }
}
