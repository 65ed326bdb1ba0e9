//! Facts: events of the requests of an instance, as observers are told of them.

use crate::cost::StepShape;
use crate::instance::request::{RequestState, Slot};
use crate::instance::run::Run;
use crate::metrics::Drafts;
use crate::series::Series;
use crate::time::Ticks;
use crate::trace::Trace;

/// Something that happened to one request. The request's state is as it is afterwards.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) enum Fact {
    /// It was admitted, for the first time or again.
    Admitted {
        /// Since when it was out of the batch; `None` at its first admission.
        since: Option<Ticks>,
        /// Whether it waited with its KV, which another instance had sent.
        received: bool,
        /// Tokens that it computes of those whose KV it had lost or never had; 0 if it was admitted with its KV.
        computes: u32,
    },
    /// It was admitted on an instance with a tier.
    Loaded {
        /// Whether that is its first admission.
        first: bool,
        /// Tokens that the prefix cache had.
        cached: u32,
        /// Tokens after these that were loaded.
        loaded: u32,
        /// Of these, the tokens that were read from a store below the tier for it.
        fetched: u32,
        /// For how long it waited for that.
        wait: Ticks,
    },
    /// A step computed tokens of it, or layers of them, and it was not in the decode set. If the step yielded a token of
    /// it, [`Fact::Yielded`] follows.
    Computed {
        /// When the step started.
        start: Ticks,
    },
    /// A step yielded a token of it, and it was not in the decode set.
    Yielded {
        /// When the step started.
        start: Ticks,
        /// The time since its previous token; `None` for the first.
        gap: Option<Ticks>,
    },
    /// A step outside the decode set verified its drafts, if it had any, and yielded `yielded` tokens of it; it runs on.
    Verified { yielded: u32 },
    /// It became a member of the decode set, which has taken `step` steps. Where tokens are drafted, [`Fact::Verified`] says
    /// so.
    Joined { step: u64 },
    /// As a member of the decode set, it yielded the last token of its reasoning or the first one of its answer.
    Passed {
        /// How many tokens it has yielded with that one.
        generated: u32,
        /// The set's step that yielded it.
        step: u64,
        /// When that step started.
        start: Ticks,
    },
    /// It was preempted.
    Preempted,
    /// It yielded its last token.
    Finished,
    /// It was dropped, as it could never be admitted again.
    Dropped,
    /// It left, as its client had cancelled it.
    Cancelled {
        /// Whether it was admitted.
        ran: bool,
    },
    /// It migrated to another instance.
    Left,
    /// It migrated from another instance, and counts here from now on.
    Came,
    /// Its KV has come from another instance, or was given up.
    Landed {
        /// The time since it left that instance.
        transfer: Ticks,
        /// The part of it before the first byte was sent.
        wait: Ticks,
        /// Whether the KV was given up.
        expired: bool,
    },
}

/// The request of a fact, and its moment.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct Subject<'a> {
    pub(in crate::instance) slot: Slot,
    /// Its state after the fact.
    pub(in crate::instance) state: &'a RequestState,
    /// The predicted ticks of its prefill alone; 0 if no rule reads that.
    pub(in crate::instance) prefill: Ticks,
    pub(in crate::instance) now: Ticks,
    pub(in crate::instance) trace: &'a Trace,
}

impl Subject<'_> {
    /// Its place in a column.
    pub(super) fn index(&self) -> usize {
        self.state.request.index()
    }

    /// Its reasoning tokens, if the trace has any.
    pub(super) fn reasoning(&self) -> Option<u32> {
        self.trace.reasoning(self.index())
    }

    /// Whether it is between the end of its reasoning and its first answer token.
    pub(super) fn is_before_answer(&self) -> bool {
        self.reasoning() == Some(self.state.generated)
    }
}

/// Steps of a run that have ended.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct Ended<'a> {
    pub(in crate::instance) run: &'a Run,
    /// How many of its steps.
    pub(in crate::instance) steps: u64,
    /// The shape of the first of them.
    pub(in crate::instance) shape: &'a StepShape,
    /// Members of the decode set that run in each.
    pub(in crate::instance) members: u64,
    /// Requests that had ended before, whose tokens are discarded.
    pub(in crate::instance) discarded: u64,
    /// These tokens.
    pub(in crate::instance) discarded_tokens: u64,
    /// Whether the prefills run in it with their last layers.
    pub(in crate::instance) ends_prefills: bool,
}

/// The lengths of steps in turn.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) enum Lengths<'a> {
    /// An arithmetic series.
    Series(Series),
    /// Given by when each step ends.
    Ends(&'a [Ticks]),
}

/// Steps in turn: in each, every member of the decode set yields tokens. In bulk, these are the facts [`Fact::Yielded`] and
/// [`Fact::Verified`] of all members.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct Steps<'a> {
    /// When the first one starts.
    pub(in crate::instance) start: Ticks,
    /// Their lengths.
    pub(in crate::instance) lengths: Lengths<'a>,
    /// How many there are.
    pub(in crate::instance) count: u64,
    /// Ticks that they take.
    pub(in crate::instance) ticks: u128,
    /// Members of the decode set that run; 0 if it does not.
    pub(in crate::instance) members: u64,
    /// Tokens that the members yield.
    pub(in crate::instance) tokens: u64,
    /// Drafts of the members that the steps verify, where tokens are drafted.
    pub(in crate::instance) drafts: Option<Drafts>,
    /// Running requests.
    pub(in crate::instance) running: u64,
    /// The time integral of the tokens of KV of the running requests.
    pub(in crate::instance) kv_ticks: u128,
    /// Whether any request decodes, in the decode set or outside.
    pub(in crate::instance) decodes: bool,
}

impl Steps<'_> {
    /// When the `step`th of them ends.
    pub(super) fn end_of(&self, step: u64) -> Ticks {
        match self.lengths {
            Lengths::Series(series) => self.start + series.total(step) as Ticks,
            Lengths::Ends(ends) => ends[step as usize - 1],
        }
    }
}
