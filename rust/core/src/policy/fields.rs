//! What a policy may look at, by name.

use serde::Deserialize;

/// Something about a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReqField {
    /// When it arrived, in seconds.
    ArrivalS,
    /// Seconds since then.
    AgeS,
    /// Seconds since it last stopped running, or came to its instance; 0 while it runs.
    WaitingS,
    /// The same in steps of its instance.
    IdleSteps,
    /// Seconds for which it has been admitted so far.
    AttainedS,
    /// When it entered its class, in seconds.
    JoinedS,
    /// Tokens of its prompt.
    PromptTokens,
    /// Tokens that it has yielded.
    GeneratedTokens,
    /// Both together.
    ContextTokens,
    /// Tokens whose KV is in a cache, the GPU's or the CPU's.
    KvTokens,
    /// Blocks that it holds while it runs; else those it needs to come in.
    Blocks,
    /// 0: prefill, 1: reasoning, 2: answering.
    Phase,
    /// The trace's priority.
    Priority,
    /// The trace's score.
    Score,
    /// The trace's tenant, as a number.
    Tenant,
    /// Quanta used up in its class.
    Quanta,
    /// How often it gave way.
    Preemptions,
    /// Seconds until its reader has nothing left to read.
    SlackS,
    /// Seconds that its prompt alone would take.
    PrefillS,
    /// Whether it is admitted.
    Running,
    /// Tokens that it will yield in all.
    OutputTokens,
    /// Those of them still to come.
    RemainingTokens,
    /// Those of them that are reasoning.
    ReasoningTokens,
}

impl ReqField {
    /// Whether it changes at each step, or with time.
    pub(crate) fn drifts(self) -> bool {
        matches!(
            self,
            Self::AgeS
                | Self::WaitingS
                | Self::IdleSteps
                | Self::AttainedS
                | Self::GeneratedTokens
                | Self::ContextTokens
                | Self::KvTokens
                | Self::Blocks
                | Self::SlackS
                | Self::RemainingTokens
        )
    }
}

/// Something about an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InstField {
    /// Tokens of KV, on the GPU and with the CPU.
    KvTokens,
    /// Those on the GPU.
    GpuKvTokens,
    /// Those with the CPU.
    CpuKvTokens,
    /// Blocks that are free.
    FreeBlocks,
    /// Blocks in all.
    TotalBlocks,
    /// Tokens in a block.
    BlockTokens,
    /// Blocks of the CPU's memory that are free.
    FreeCpuBlocks,
    /// Share of the blocks that is taken.
    KvUsage,
    /// Whether the request fits into what is free.
    Fits,
    /// Requests admitted.
    Running,
    /// Requests queued that are not swapped out.
    Waiting,
    /// Requests swapped out.
    Swapped,
    /// Requests there that have not finished.
    Requests,
    /// Those of them that have not finished their reasoning.
    ReasoningRequests,
    /// Those of them that have.
    AnsweringRequests,
    /// Those of these in their first quantum.
    FreshAnsweringRequests,
    /// Requests in one class.
    ClassRequests,
    /// Whether every reader has something left to read.
    AnsweringOnPace,
    /// Context of the admitted requests, in tokens.
    RunningTokens,
    /// Tokens of prompt and output so far, over all unfinished requests.
    OutstandingTokens,
    /// Mean time between its latest steps that decoded, in seconds.
    MeanTokenIntervalS,
    /// Seconds that the prompts not yet through would take one by one.
    PrefillDelayS,
    /// Seconds that the request's prompt alone would take there.
    PrefillS,
    /// Blocks that all who are queued need to come in.
    WaitingBlocks,
    /// Blocks that the first of them needs.
    HeadBlocks,
    /// Its role.
    Role,
    /// Tokens of the request's prompt that its prefix cache holds.
    PrefixTokens,
    /// Its place in the cluster.
    Index,
}

/// Which instance a field is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Who {
    /// The one under consideration.
    Candidate,
    /// The one that the request is on.
    Here,
    /// The one that was picked.
    There,
}

/// A field of a request or an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Of the request.
    Req(ReqField),
    /// Of an instance; the number is the class, for [`InstField::ClassRequests`].
    Inst(Who, InstField, u32),
}

impl Field {
    /// The field that `name` names, with the class where one is asked for.
    pub(super) fn named(name: &str, class: u32) -> Option<Self> {
        let (scope, name) = name.split_once('.')?;
        let who = match scope {
            "req" | "oracle" => return by_name(name).map(Self::Req),
            "inst" => Who::Candidate,
            "here" => Who::Here,
            "there" => Who::There,
            _ => return None,
        };
        by_name(name).map(|field| Self::Inst(who, field, class))
    }
}

fn by_name<'de, T: Deserialize<'de>>(name: &'de str) -> Option<T> {
    let deserializer = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(name);
    T::deserialize(deserializer).ok()
}
