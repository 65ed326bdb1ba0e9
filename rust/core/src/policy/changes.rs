//! When the value of a request field changes.

use super::fields::ReqField;

/// A set of events with which a value changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Changes(u8);

impl Changes {
    /// With each token that the request computes.
    pub(crate) const TOKEN: Self = Self(1);
    /// With some tokens: the value jumps.
    pub(crate) const SOME_TOKENS: Self = Self(1 << 1);
    /// With time, whether the request runs or not.
    pub(crate) const TIME: Self = Self(1 << 2);
    /// With time, while the request is queued.
    pub(crate) const QUEUED_TIME: Self = Self(1 << 3);
    /// With the steps of the instance, while the request is queued.
    pub(crate) const QUEUED_STEP: Self = Self(1 << 4);
    /// When the request is admitted, and when it is preempted.
    pub(crate) const ADMISSION: Self = Self(1 << 5);
    /// When the request is preempted.
    pub(crate) const PREEMPTION: Self = Self(1 << 6);
    /// When the request enters a class.
    pub(crate) const CLASS: Self = Self(1 << 7);
    /// With anything but that the request enters a class.
    pub(crate) const BESIDE_CLASS: Self = Self::TOKEN
        .or(Self::SOME_TOKENS)
        .or(Self::TIME)
        .or(Self::QUEUED_TIME)
        .or(Self::QUEUED_STEP)
        .or(Self::ADMISSION)
        .or(Self::PREEMPTION);
    /// Never.
    pub(crate) const NEVER: Self = Self(0);

    /// With the events of either set.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether the sets have an event in common.
    pub(crate) const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

impl ReqField {
    /// When its value changes.
    pub(crate) const fn changes(self) -> Changes {
        match self {
            Self::AgeS | Self::CachedTokens => Changes::TIME,
            Self::WaitingS => Changes::QUEUED_TIME.or(Changes::ADMISSION),
            Self::IdleSteps => Changes::QUEUED_STEP.or(Changes::ADMISSION),
            Self::AttainedS | Self::Level => Changes::TIME.or(Changes::ADMISSION),
            Self::JoinedS => Changes::CLASS,
            Self::GeneratedTokens | Self::ContextTokens | Self::KvTokens | Self::RemainingTokens => {
                Changes::TOKEN
            }
            Self::Blocks => Changes::TOKEN.or(Changes::ADMISSION),
            Self::Phase | Self::Quanta => Changes::SOME_TOKENS,
            Self::Preemptions => Changes::PREEMPTION,
            Self::Running | Self::StoppedS => Changes::ADMISSION,
            Self::SlackS => Changes::TIME.or(Changes::TOKEN),
            Self::ArrivalS
            | Self::PromptTokens
            | Self::Priority
            | Self::Score
            | Self::Tenant
            | Self::PrefillS
            | Self::OutputTokens
            | Self::ReasoningTokens => Changes::NEVER,
        }
    }

    /// Whether its value changes from step to step, or with time.
    pub(crate) fn drifts(self) -> bool {
        const DRIFT: Changes =
            Changes::TOKEN.or(Changes::TIME).or(Changes::QUEUED_TIME).or(Changes::QUEUED_STEP);
        self != Self::Level && self.changes().meets(DRIFT)
    }
}
