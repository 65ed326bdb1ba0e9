//! What a policy sees of a request.

use super::Instance;
use super::active::{Phase, Slot};
use crate::config::Allocation;
use crate::policy::{InstField, Linear, Number, ReqField, Scope, Validity, Who};
use crate::time::Ticks;
use crate::trace::Trace;

/// Ticks as the seconds that expressions count in.
#[inline]
pub(crate) fn seconds(ticks: Ticks) -> f64 {
    ticks as f64 / TICKS
}

const TICKS: f64 = crate::time::TICKS_PER_SECOND as f64;

const PER_TICK: f64 = 1.0 / TICKS;

/// What an instance knows of a request at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RequestView {
    pub(crate) row: u32,
    pub(crate) now: Ticks,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    pub(crate) generated: u32,
    pub(crate) computed: u32,
    /// Whether it yields a token at each step.
    pub(crate) decoding: bool,
    /// Whether it is admitted.
    pub(crate) running: bool,
    /// Since when it is, or is not.
    pub(crate) since: Ticks,
    /// Steps of its instance since it last ran.
    pub(crate) idle_steps: u64,
    /// How long it was admitted before `since`.
    pub(crate) attained: Ticks,
    pub(crate) joined: Ticks,
    /// Tokens that it had yielded when it entered its class.
    pub(crate) base: u32,
    pub(crate) quantum: u32,
    pub(crate) preemptions: u32,
    pub(crate) blocks: u64,
    /// When its reader runs out, if it has one.
    pub(crate) deadline: Option<i128>,
    /// What its prompt alone would take.
    pub(crate) prefill: Ticks,
}

impl RequestView {
    /// One that has just arrived and is nowhere yet.
    pub(crate) fn arriving(row: u32, now: Ticks, trace: &Trace) -> Self {
        Self {
            row,
            now,
            prompt: trace.prompt_tokens[row as usize],
            output: trace.output_tokens[row as usize],
            since: now,
            joined: now,
            ..Self::default()
        }
    }

    /// A field of the request, and how it drifts.
    pub(crate) fn field(&self, field: ReqField, trace: &Trace, validity: &mut Validity) -> Linear {
        let row = self.row as usize;
        let step = if self.decoding { 1.0 } else { 0.0 };
        let tokens = |value: u32, per_step: f64| Linear { value: f64::from(value), per_step, per_tick: 0.0 };
        let clock = |value: f64, per_tick: f64| Linear { value, per_step: 0.0, per_tick };
        match field {
            ReqField::ArrivalS => Linear::fixed(seconds(trace.arrival[row])),
            ReqField::AgeS => clock(seconds(self.now - trace.arrival[row]), PER_TICK),
            ReqField::WaitingS | ReqField::IdleSteps if self.running => Linear::fixed(0.0),
            ReqField::WaitingS => clock(seconds(self.now - self.since), PER_TICK),
            ReqField::IdleSteps => Linear { value: self.idle_steps as f64, per_step: 1.0, per_tick: 0.0 },
            ReqField::AttainedS if self.running => {
                clock(seconds(self.attained + (self.now - self.since)), PER_TICK)
            }
            ReqField::AttainedS => Linear::fixed(seconds(self.attained)),
            ReqField::JoinedS => Linear::fixed(seconds(self.joined)),
            ReqField::PromptTokens => tokens(self.prompt, 0.0),
            ReqField::GeneratedTokens => tokens(self.generated, step),
            ReqField::ContextTokens => tokens(self.prompt + self.generated, step),
            ReqField::KvTokens => tokens(self.computed, step),
            ReqField::Blocks => {
                if self.decoding {
                    validity.within_steps(1);
                }
                Linear::fixed(self.blocks as f64)
            }
            ReqField::Phase => {
                if let Some(left) = self.steps_to_answer(trace) {
                    validity.within_steps(u64::from(left));
                }
                Linear::fixed(f64::from(self.phase(trace)))
            }
            ReqField::Priority => Linear::fixed(trace.rank(row) as f64),
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
            ReqField::PrefillS => Linear::fixed(seconds(self.prefill)),
            ReqField::Running => Linear::fixed(f64::from(u8::from(self.running))),
            ReqField::OutputTokens => tokens(self.output, 0.0),
            ReqField::RemainingTokens => tokens(self.output - self.generated, -step),
            ReqField::ReasoningTokens => tokens(self.reasoning(trace).unwrap_or(0), 0.0),
        }
    }

    fn reasoning(&self, trace: &Trace) -> Option<u32> {
        trace.reasoning_tokens.as_ref().map(|column| column[self.row as usize])
    }

    /// 0: prefill, 1: reasoning, 2: answering.
    pub(crate) fn phase(&self, trace: &Trace) -> u8 {
        if self.generated == 0 {
            0
        } else if self.reasoning(trace).is_some_and(|reasoning| self.generated < reasoning) {
            1
        } else {
            2
        }
    }

    /// Steps until it answers, if it is on its way there.
    pub(crate) fn steps_to_answer(&self, trace: &Trace) -> Option<u32> {
        let reasoning = self.reasoning(trace).filter(|_| self.decoding)?;
        (self.generated < reasoning).then(|| reasoning - self.generated)
    }

    #[inline]
    pub(crate) fn quanta(&self) -> u32 {
        (self.generated - self.base).checked_div(self.quantum).unwrap_or(0)
    }

    /// Steps until its quantum ends, if it is using one up.
    #[inline]
    pub(crate) fn steps_to_quantum(&self) -> Option<u32> {
        let counts = self.decoding && self.quantum > 0;
        counts.then(|| self.quantum - (self.generated - self.base) % self.quantum)
    }
}

impl Instance {
    /// What is known of a request.
    pub(crate) fn view(&self, slot: Slot, now: Ticks) -> RequestView {
        let mut view = self.base_view(slot, now, 0);
        view.blocks = self.blocks_seen(slot, view.computed, now);
        if self.watches_slack {
            view.deadline = self.deadline(slot);
        }
        view
    }

    /// What is known of a request but its blocks and its reader; of a member of
    /// the decode set, as it was `behind` of the set's steps ago.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "what of it is not looked at is not worked out")]
    pub(super) fn base_view(&self, slot: Slot, now: Ticks, behind: u64) -> RequestView {
        let active = &self.table[slot];
        let decoding = active.phase == Phase::Decoding;
        let (computed, generated) = if decoding {
            let computed = self.decode.computed(active) - behind as u32;
            (computed, computed + 1 - active.prompt)
        } else {
            (active.computed, active.generated)
        };
        let mut view = RequestView {
            row: active.request,
            now,
            prompt: active.prompt,
            output: active.output,
            generated,
            computed,
            decoding,
            running: active.is_admitted(),
            since: now,
            joined: now,
            preemptions: active.preemptions,
            prefill: if self.predicts { self.predicted_prefill(active.prompt) } else { 0 },
            ..RequestView::default()
        };
        if self.ranks.is_none() {
            view.since = if view.running { active.admitted_at } else { active.out_since.min(now) };
            (view.attained, view.joined) = (active.attained, active.came_at);
        }
        if let Some(ranks) = &self.ranks {
            let entry = ranks.entry(slot);
            view.since = entry.since;
            view.attained = entry.attained;
            view.idle_steps = self.usage.steps.saturating_sub(entry.since_steps);
            (view.joined, view.base, view.quantum) = (entry.joined, entry.base, ranks.rules.quantum);
        }
        view
    }

    /// Blocks that a request with `computed` tokens holds while it runs; else
    /// those it needs to come in.
    pub(super) fn blocks_seen(&self, slot: Slot, computed: u32, now: Ticks) -> u64 {
        let active = &self.table[slot];
        match active.phase {
            // In the middle of a step it has the block of the token under way, as
            // has whoever was let in while the step is formed.
            Phase::Decoding => {
                let comes = || self.decode.newcomers().iter().any(|newcomer| newcomer.0 == slot);
                let under_way = self.is_in_step(now) || (self.flight.is_none() && comes());
                self.blocks(computed + u32::from(under_way))
            }
            Phase::Swapped(_) | Phase::Landed => self.blocks(computed + 1).max(active.count),
            Phase::Preempted => self.blocks(self.first_chunk(active.target())),
            _ => active.count,
        }
    }

    /// Of so many tokens, those for which an admission takes blocks.
    pub(super) fn first_chunk(&self, tokens: u32) -> u32 {
        match self.scheduler.allocation {
            Allocation::Chunk => u64::from(tokens).min(self.scheduler.max_num_batched_tokens) as u32,
            Allocation::ChunkIfAllFits | Allocation::Sequence => tokens,
        }
    }

    /// When a request's reader runs out, if it has one.
    pub(super) fn deadline(&self, slot: Slot) -> Option<i128> {
        self.pacing.as_ref().and_then(|pacing| pacing.deadline(slot, self.decode.step()))
    }

    /// Whether a step of the decode set has begun that has not ended, as far as
    /// its steps are booked.
    #[inline]
    fn is_in_step(&self, now: Ticks) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.decodes && (flight.begun || flight.start < now))
    }
}

/// Lends the fields of one request, and of no instance.
pub(super) struct OfRequest<'a> {
    pub(super) view: &'a RequestView,
    pub(super) trace: &'a Trace,
}

impl Scope for OfRequest<'_> {
    #[inline]
    fn request(&mut self, field: ReqField, validity: &mut Validity) -> Linear {
        self.view.field(field, self.trace, validity)
    }

    fn instance(&mut self, _: Who, _: InstField, _: u32) -> f64 {
        debug_assert!(false, "Invariant: ranks do not look at instances");
        0.0
    }

    fn instances(&self) -> usize {
        0
    }

    fn has_role(&self, _: usize, _: &[u32]) -> bool {
        false
    }

    fn consider(&mut self, index: usize) -> usize {
        index
    }
}
