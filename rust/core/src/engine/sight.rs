//! What a rule sees: the request that asks, and every instance as of its last
//! finished step.

use super::route::CallbackView;
use crate::instance::{Asking, Instance, World};
use crate::metrics::Reason;
use crate::policy::{Expr, Field, InstField, Linear, Number, ReqField, Scope, Validity, Who, holds_now};
use crate::time::Ticks;

/// See the module.
pub(crate) struct RouterView<'a> {
    pub(crate) instances: &'a mut [Instance],
    pub(crate) world: &'a mut World,
    pub(crate) now: Ticks,
    pub(crate) asking: &'a Asking,
    /// The instance under consideration.
    pub(crate) candidate: usize,
    /// The instance that was picked.
    pub(crate) there: Option<usize>,
    /// Where the request is, or the source of a pair.
    pub(crate) here: Option<usize>,
}

/// Fields of a request that a callable is shown.
pub const CALLBACK_REQUEST_FIELDS: [(&str, ReqField); 14] = [
    ("arrival_s", ReqField::ArrivalS),
    ("age_s", ReqField::AgeS),
    ("attained_s", ReqField::AttainedS),
    ("prompt_tokens", ReqField::PromptTokens),
    ("generated_tokens", ReqField::GeneratedTokens),
    ("context_tokens", ReqField::ContextTokens),
    ("kv_tokens", ReqField::KvTokens),
    ("phase", ReqField::Phase),
    ("priority", ReqField::Priority),
    ("score", ReqField::Score),
    ("tenant", ReqField::Tenant),
    ("quanta", ReqField::Quanta),
    ("preemptions", ReqField::Preemptions),
    ("slack_s", ReqField::SlackS),
];

/// Fields of an instance that a callable is shown.
pub const CALLBACK_INSTANCE_FIELDS: [(&str, InstField); 23] = [
    ("kv_tokens", InstField::KvTokens),
    ("gpu_kv_tokens", InstField::GpuKvTokens),
    ("cpu_kv_tokens", InstField::CpuKvTokens),
    ("free_blocks", InstField::FreeBlocks),
    ("total_blocks", InstField::TotalBlocks),
    ("free_cpu_blocks", InstField::FreeCpuBlocks),
    ("kv_usage", InstField::KvUsage),
    ("fits", InstField::Fits),
    ("running", InstField::Running),
    ("waiting", InstField::Waiting),
    ("swapped", InstField::Swapped),
    ("requests", InstField::Requests),
    ("reasoning_requests", InstField::ReasoningRequests),
    ("answering_requests", InstField::AnsweringRequests),
    ("fresh_answering_requests", InstField::FreshAnsweringRequests),
    ("answering_on_pace", InstField::AnsweringOnPace),
    ("running_tokens", InstField::RunningTokens),
    ("outstanding_tokens", InstField::OutstandingTokens),
    ("mean_token_interval_s", InstField::MeanTokenIntervalS),
    ("prefill_delay_s", InstField::PrefillDelayS),
    ("prefill_s", InstField::PrefillS),
    ("role", InstField::Role),
    ("prefix_tokens", InstField::PrefixTokens),
];

impl RouterView<'_> {
    /// Everything that a callable is shown.
    pub(super) fn callback_view(&mut self) -> CallbackView {
        let request =
            CALLBACK_REQUEST_FIELDS.map(|(_, field)| self.request(field, &mut Validity::EVER.clone()).value);
        let instances = (0..self.instances.len())
            .map(|index| {
                self.candidate = index;
                CALLBACK_INSTANCE_FIELDS.map(|(_, field)| self.instance(Who::Candidate, field, 0)).to_vec()
            })
            .collect();
        let here = self.asking.place.map(|(index, _)| index);
        CallbackView { request: request.to_vec(), instances, here, row: self.asking.view.row as usize }
    }
}

impl RouterView<'_> {
    /// Whether an instance could serve the request.
    pub(super) fn serves(&self, index: usize) -> bool {
        let view = &self.asking.view;
        self.instances[index].refuses(view.prompt, view.output) == Reason::None
    }

    /// Whether a condition holds now.
    #[inline]
    pub(super) fn holds(&mut self, expr: &Expr) -> bool {
        match *expr {
            Expr::Field(Field::Inst(Who::Candidate, field, class)) => {
                self.field(self.candidate, field, class) != 0.0
            }
            _ => holds_now(expr, self),
        }
    }

    /// A field of an instance as of its last finished step.
    #[inline(never)]
    pub(super) fn field(&mut self, index: usize, field: InstField, class: u32) -> f64 {
        let instance = &mut self.instances[index];
        match instance.try_field(field, class, self.now) {
            Some(value) => value,
            None => instance.field(field, class, self.now, self.asking, self.world),
        }
    }
}

impl Scope for RouterView<'_> {
    fn request(&mut self, field: ReqField, validity: &mut Validity) -> Linear {
        if field == ReqField::PrefillS {
            let prompt = self.asking.view.prompt;
            let ticks = self.instances[self.candidate].predicted_prefill(prompt);
            return Linear::fixed(crate::instance::seconds(ticks));
        }
        self.asking.view.field(field, &self.world.trace, validity)
    }

    fn instance(&mut self, who: Who, field: InstField, class: u32) -> f64 {
        let index = match who {
            Who::Candidate => Some(self.candidate),
            Who::Here => self.here,
            Who::There => self.there,
        };
        index.map_or(0.0, |index| self.field(index, field, class))
    }

    fn instances(&self) -> usize {
        self.instances.len()
    }

    fn has_role(&self, index: usize, roles: &[u32]) -> bool {
        roles.contains(&self.instances[index].role())
    }

    fn consider(&mut self, index: usize) -> usize {
        std::mem::replace(&mut self.candidate, index)
    }
}
