//! Callbacks: a caller's own code that picks instances.

use super::view::RouterView;
use crate::error::Error;
use crate::policy::{InstField, InstanceRef, ReqField, Scope, Validity};

/// Picks instances in place of a rule.
pub trait Decide: Send {
    /// The instance for a request, or none. `callable`: the number of the callback, as in the rule.
    ///
    /// # Errors
    ///
    /// An error ends the replay.
    fn decide(&mut self, callable: usize, view: &CallbackView) -> Result<Option<usize>, Error>;
}

/// The request and the instances that a callback sees.
#[derive(Debug, Clone)]
pub struct CallbackView {
    /// The fields of the request, in the order of [`CALLBACK_REQUEST_FIELDS`].
    pub request: Vec<f64>,
    /// The fields of each instance, in the order of [`CALLBACK_INSTANCE_FIELDS`].
    pub instances: Vec<Vec<f64>>,
    /// The instance that the request is on.
    pub here: Option<usize>,
    /// The row of the request in the trace.
    pub row: usize,
}

impl CallbackView {
    /// Reads the fields that callbacks see in a view.
    pub(super) fn of(view: &mut RouterView) -> Self {
        let request =
            CALLBACK_REQUEST_FIELDS.map(|(_, field)| view.request(field, &mut Validity::EVER.clone()).value);
        let instances = (0..view.len())
            .map(|index| {
                view.set_candidate(index);
                CALLBACK_INSTANCE_FIELDS
                    .map(|(_, field)| view.instance(InstanceRef::Candidate, field, 0))
                    .to_vec()
            })
            .collect();
        Self { request: request.to_vec(), instances, here: view.here(), row: view.asked().index() }
    }
}

/// The request fields that a callback sees, by name.
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

/// The instance fields that a callback sees, by name.
pub const CALLBACK_INSTANCE_FIELDS: [(&str, InstField); 33] = [
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
    ("arrived", InstField::Arrived),
    ("arrived_tokens", InstField::ArrivedTokens),
    ("finished", InstField::Finished),
    ("finished_tokens", InstField::FinishedTokens),
    ("prefilling_requests", InstField::PrefillingRequests),
    ("decoding_requests", InstField::DecodingRequests),
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
    ("routed_requests", InstField::RoutedRequests),
    ("routed_tokens", InstField::RoutedTokens),
    ("routed_since_report", InstField::RoutedSinceReport),
    ("routed_ever", InstField::RoutedEver),
];
