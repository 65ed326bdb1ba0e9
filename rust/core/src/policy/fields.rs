//! The fields that a policy can read, by name.

use serde::Deserialize;

/// A field of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReqField {
    /// The time of its arrival, in seconds.
    ArrivalS,
    /// Seconds since its arrival.
    AgeS,
    /// Seconds since it last stopped running, or was routed to its instance; 0 while it runs.
    WaitingS,
    /// Steps of its instance since then; 0 while it runs.
    IdleSteps,
    /// Seconds that it has been running so far.
    AttainedS,
    /// The time at which it entered its class, in seconds.
    JoinedS,
    /// Tokens of its prompt.
    PromptTokens,
    /// Tokens that it has generated.
    GeneratedTokens,
    /// Prompt and generated tokens together.
    ContextTokens,
    /// Tokens whose KV is in the memory of the GPU or the CPU.
    KvTokens,
    /// Blocks that it holds, if it runs; else the blocks that its admission needs.
    Blocks,
    /// 0: prefill, 1: reasoning, 2: answering.
    Phase,
    /// Its priority in the trace.
    Priority,
    /// Its score in the trace.
    Score,
    /// Its tenant in the trace, as a number.
    Tenant,
    /// Quanta that it has used up in its class.
    Quanta,
    /// The level that it is at.
    Level,
    /// The time at which it last stopped running or came to its instance, in seconds; 1e18 while it runs, 0 if it never
    /// ran.
    StoppedS,
    /// How often it was preempted.
    Preemptions,
    /// Seconds until its user has read all generated tokens.
    SlackS,
    /// Seconds that the prefill of its prompt alone would take.
    PrefillS,
    /// Whether it is running.
    Running,
    /// Tokens of its prompt that the prefix cache has as a step is formed; 0 while it runs, and before the first such step.
    CachedTokens,
    /// Tokens that it will have generated at its end.
    OutputTokens,
    /// Tokens that it will still generate.
    RemainingTokens,
    /// Tokens of its output that are reasoning.
    ReasoningTokens,
}

/// A field of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstField {
    /// Tokens of KV in the memory of GPU and CPU.
    KvTokens,
    /// Tokens of KV in the memory of the GPU.
    GpuKvTokens,
    /// Tokens of KV in the memory of the CPU.
    CpuKvTokens,
    /// Free blocks.
    FreeBlocks,
    /// All blocks.
    TotalBlocks,
    /// Tokens in a block.
    BlockTokens,
    /// Free blocks of the swap space.
    FreeCpuBlocks,
    /// The share of the blocks that is allocated.
    KvUsage,
    /// Whether the free blocks hold the request.
    Fits,
    /// Running requests.
    Running,
    /// Queued requests that are not swapped out.
    Waiting,
    /// Swapped-out requests.
    Swapped,
    /// Unfinished requests.
    Requests,
    /// Requests that have arrived since the start.
    Arrived,
    /// Prompt tokens of the requests that have arrived since the start.
    ArrivedTokens,
    /// Requests that have finished since the start.
    Finished,
    /// Output tokens of the requests that have finished since the start.
    FinishedTokens,
    /// Unfinished requests whose prefill has not ended.
    PrefillingRequests,
    /// Unfinished requests whose prefill has ended.
    DecodingRequests,
    /// Unfinished requests whose reasoning has not ended.
    ReasoningRequests,
    /// Unfinished requests whose reasoning has ended.
    AnsweringRequests,
    /// Unfinished requests whose reasoning has ended and that are in their first quantum.
    FreshAnsweringRequests,
    /// Unfinished requests in one class.
    ClassRequests,
    /// Whether every user of an answering request has a token left to read.
    AnsweringOnPace,
    /// Tokens of context of the running requests.
    RunningTokens,
    /// Blocks that the context of each running request fills, the block of its next token included.
    ContextBlocks,
    /// Tokens of prompts and of outputs so far, over the unfinished requests.
    OutstandingTokens,
    /// The mean time between its latest decode steps, in seconds.
    MeanTokenIntervalS,
    /// Seconds that the unfinished prefills would take one by one.
    PrefillDelayS,
    /// Seconds that the prefill of the request's prompt alone would take there.
    PrefillS,
    /// Blocks that the admission of all queued requests needs.
    WaitingBlocks,
    /// Blocks that the admission of the first queued request needs.
    HeadBlocks,
    /// Requests that were handed over to it and whose KV it has not received.
    IncomingRequests,
    /// Tokens of the KV of these.
    IncomingTokens,
    /// Blocks that these hold or need.
    IncomingBlocks,
    /// Its role.
    Role,
    /// Tokens of the request's prompt that its prefix cache holds.
    PrefixTokens,
    /// Its index in the cluster.
    Index,
    /// Leading blocks of the request's prompt that the router's prefix index believes it to hold.
    IndexBlocks,
    /// The tokens of these.
    IndexTokens,
    /// Distinct blocks of its unfinished requests, by weight, as the router has booked them.
    ActiveBlocks,
    /// Full blocks of the request's prompt that are not among these.
    ActiveNewBlocks,
    /// Prompt tokens of its unfinished requests whose prefill has not ended, as the router has booked them.
    ActivePrefillTokens,
    /// Unfinished requests that the router sent to it.
    RoutedRequests,
    /// Tokens of the prompts of these.
    RoutedTokens,
    /// Requests that the router sent to it since the latest report, or since the start.
    RoutedSinceReport,
    /// Requests that the router ever sent to it.
    RoutedEver,
    /// The value of one gauge.
    Gauge,
}

/// Where a router has a field of an instance from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// It keeps the field itself, at its own decisions and as requests end.
    Kept,
    /// The instance reports it.
    Reported,
    /// It knows it from the configuration, or computes it at the decision.
    Known,
}

impl InstField {
    /// Whether the books of a router have it.
    pub(crate) const fn is_booked(self) -> bool {
        matches!(
            self,
            Self::IndexBlocks
                | Self::IndexTokens
                | Self::ActiveBlocks
                | Self::ActiveNewBlocks
                | Self::ActivePrefillTokens
        )
    }

    /// Whether an instance has it by itself: it is of no request, and no router keeps it.
    pub(crate) fn is_of_instance(self) -> bool {
        !matches!(self, Self::Fits | Self::PrefillS | Self::PrefixTokens | Self::Gauge)
            && self.source() != Source::Kept
    }

    /// Where a router has it from.
    pub(crate) const fn source(self) -> Source {
        match self {
            Self::RoutedRequests
            | Self::RoutedTokens
            | Self::RoutedSinceReport
            | Self::RoutedEver
            | Self::IndexBlocks
            | Self::IndexTokens
            | Self::ActiveBlocks
            | Self::ActiveNewBlocks
            | Self::ActivePrefillTokens => Source::Kept,
            Self::TotalBlocks
            | Self::BlockTokens
            | Self::Role
            | Self::Index
            | Self::Fits
            | Self::PrefillS
            | Self::PrefixTokens
            | Self::Gauge => Source::Known,
            _ => Source::Reported,
        }
    }
}

/// A field of a cached block that no request holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockField {
    /// The time at which it was freed last, in seconds.
    UsedS,
    /// Seconds since then, as of the latest moment at which its instance freed blocks.
    IdleS,
    /// Requests that have held it since its content was computed.
    Uses,
    /// Its place, from 0, in the sequence of the request that freed it last.
    Position,
}

/// The instance that a field belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstanceRef {
    /// The instance under consideration.
    Candidate,
    /// The instance of the request.
    Here,
    /// The instance that was picked.
    There,
}

/// A field of a request or an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A field of the request.
    Req(ReqField),
    /// A field of an instance; the number is the class, for [`InstField::ClassRequests`], or the gauge.
    Inst(InstanceRef, InstField, u32),
    /// The number that an accumulator of the scheduler has for the group of the request.
    Accumulator(u32),
    /// A column of numbers of the trace, for the request.
    Column(u32),
    /// A field of a cached block.
    Block(BlockField),
}

impl Field {
    /// The field of this name; `class` is the class, the accumulator or the column, if the field depends on one.
    pub(super) fn named(name: &str, class: u32) -> Option<Self> {
        let (scope, name) = name.split_once('.')?;
        let which = match scope {
            "req" if name == "column" => return Some(Self::Column(class)),
            "req" | "oracle" => return by_name(name).map(Self::Req),
            "block" => return by_name(name).map(Self::Block),
            "group" => return (name == "accumulated").then_some(Self::Accumulator(class)),
            "inst" => InstanceRef::Candidate,
            "here" => InstanceRef::Here,
            "there" => InstanceRef::There,
            _ => return None,
        };
        by_name(name).map(|field| Self::Inst(which, field, class))
    }
}

/// The variant of this name.
fn by_name<'de, T: Deserialize<'de>>(name: &'de str) -> Option<T> {
    let deserializer = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
    T::deserialize(deserializer).ok()
}
