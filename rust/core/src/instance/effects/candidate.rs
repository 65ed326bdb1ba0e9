//! A request that may be admitted, and what its admission takes.

use crate::instance::Part;
use crate::instance::request::{Phase, Slot};
use crate::kv::ContentOwner;
use crate::trace::{RequestNumber, Trace};

/// The request that is admitted next, if it fits.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct Candidate {
    pub(in crate::instance) request: RequestNumber,
    pub(in crate::instance) place: Place,
    pub(in crate::instance) phase: Phase,
    /// The owner of the content of its blocks.
    pub(in crate::instance) owner: ContentOwner,
    /// Tokens to compute before its next token is yielded.
    pub(in crate::instance) target: u32,
    /// Tokens whose KV exists.
    pub(in crate::instance) computed: u32,
    /// Blocks of that KV.
    pub(in crate::instance) blocks: u64,
}

impl Candidate {
    /// A request that was never admitted.
    pub(in crate::instance) fn new(request: RequestNumber, place: Place, trace: &Trace) -> Self {
        let prompt = trace.prompt_tokens[request.index()];
        let owner = ContentOwner::of_prompt(trace.origin(request), prompt);
        Self { request, place, phase: Phase::Preempted, owner, target: prompt, computed: 0, blocks: 0 }
    }

    /// Tokens that it lacks.
    pub(in crate::instance) fn lacking(&self) -> u64 {
        u64::from(self.target - self.computed)
    }
}

/// Where the candidate for an admission is.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) enum Place {
    /// It has a slot.
    Slot(Slot),
    /// It is new, and first in the queue's order.
    Front,
    /// It is new, and the best of those that are ranked without a slot.
    Arrival,
}

/// The tokens and blocks that an admission takes.
#[derive(Debug, Clone, Copy)]
pub(in crate::instance) struct AdmissionOffer {
    /// Tokens computed in this step.
    pub(in crate::instance) tokens: u64,
    /// Blocks that must be free.
    pub(in crate::instance) blocks: u64,
    /// Whether the budget suffices: for all tokens that are wanted, or for some if the
    /// prompt may be cut.
    pub(in crate::instance) affordable: bool,
    pub(in crate::instance) part: Part,
    /// The part of the prefix that a tier has.
    pub(in crate::instance) load: ChunkLoad,
}

/// The part of a request's prefix that a tier has, after the part that the prefix cache has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::instance) enum ChunkLoad {
    /// Nothing, or there is no tier.
    #[default]
    None,
    /// That is not known yet.
    Unknown,
    /// So many tokens, which are loaded before the step.
    Before(u32),
    /// So many tokens, for which the request waits.
    Wait(u32),
}

impl ChunkLoad {
    /// The tokens that are loaded.
    pub(in crate::instance) fn tokens(self) -> u32 {
        match self {
            Self::None | Self::Unknown => 0,
            Self::Before(tokens) | Self::Wait(tokens) => tokens,
        }
    }
}
