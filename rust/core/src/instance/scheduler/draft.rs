//! A step while it is formed.

use super::limits::StepLimits;
use crate::instance::request::Phase;
use crate::time::Ticks;

/// The room that is left in a step while it is formed.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is what one stage reports to the later ones")]
pub(crate) struct StepDraft {
    /// When the step is formed.
    pub(crate) now: Ticks,
    /// The limits of the step.
    pub(crate) limits: StepLimits,
    /// Tokens left in the step's budget.
    pub(crate) tokens_left: u64,
    /// Numbers of the requests preempted so far, in order.
    pub(crate) preempted: Vec<u32>,
    /// Requests that were displaced or dropped.
    pub(crate) removed: Removed,
    /// Whether the decode set has its tokens and its blocks.
    pub(crate) decoded: bool,
    /// Whether decodes use up the budget.
    pub(crate) charged: bool,
    /// Whether the batch between two groups of layers was formed in this step.
    pub(crate) new_batch: bool,
    /// Whether decodes take seats.
    pub(crate) count_decodes: bool,
    /// Whether a request was admitted, resumed or left out by rank.
    pub(crate) reseated: bool,
    /// The loads from a tier.
    pub(crate) loads: Loads,
    /// The memory and the prompts that it holds back.
    pub(crate) held_back: HeldBack,
    /// Blocks that were free once it was decided.
    pub(crate) free_blocks: u64,
    /// When the step is to be formed again though no event occurs.
    pub(crate) retry_at: Option<Ticks>,
}

/// The requests that a step removes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Removed {
    /// How many of the preempted requests were displaced.
    pub(crate) displaced: u64,
    /// Whether a queued request was dropped, as no step could ever admit it.
    pub(crate) dropped: bool,
}

/// The memory and the prompts that a step holds back.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeldBack {
    /// Where requests are selected by rank.
    pub(crate) selection: Selection,
    /// Where admissions leave room for outputs to come.
    pub(crate) reserve: Reserved,
    /// Blocks that the running requests will take until they end, once they were counted.
    pub(crate) to_come: Option<u64>,
    /// Whether prompts that would fit wait for others.
    pub(crate) prompts: bool,
    /// Whether prompts wait for those of instances that step together with this one.
    pub(crate) together: bool,
    /// Whether a prompt is padded with drafts: if it lost cached tokens, it might take fewer.
    pub(crate) padded: bool,
}

/// The bounds of a selection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Selection {
    /// Blocks that it leaves free.
    pub(crate) reserve: u64,
    /// Whether prompts were passed over, as the swap space is nearly full.
    pub(crate) passes_over: bool,
}

/// The tokens that a step takes of those that were free, where admissions leave room for outputs to come.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reserved {
    /// Blocks that the step gives to decodes.
    pub(crate) grown: u64,
    /// Blocks that were free as it was opened.
    pub(crate) free: u64,
    /// Tokens that its prefills take, and decodes that are charged before them.
    pub(crate) taken: u64,
    /// The output tokens that running requests may still generate, and how many decode, once they were counted.
    pub(crate) to_come: Option<(u64, usize)>,
}

/// The loads from a tier that a step begins.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loads {
    /// Tokens that are loaded before the forward pass.
    pub(crate) sync_tokens: u64,
    /// Whether a queued request waits for a load, would wait for one, or does not know yet.
    pub(crate) looked_up: bool,
    /// Whether a step without tokens waits for copies, and no step is formed before that.
    pub(crate) waits: bool,
}

impl StepDraft {
    /// The draft of a step without room.
    pub(crate) fn new(now: Ticks) -> Self {
        Self {
            now,
            limits: StepLimits { tokens: 0, threshold: 0, chunk: 0 },
            tokens_left: 0,
            preempted: Vec::new(),
            removed: Removed::default(),
            decoded: false,
            charged: true,
            new_batch: false,
            count_decodes: true,
            reseated: false,
            loads: Loads::default(),
            held_back: HeldBack::default(),
            free_blocks: 0,
            retry_at: None,
        }
    }

    /// Whether a request was preempted.
    pub(crate) fn has_preempted(&self) -> bool {
        !self.preempted.is_empty()
    }

    /// Whether a request takes a seat: any admitted one, or only one whose prefill runs
    /// in this step.
    pub(crate) fn takes_seat(&self, phase: Phase, runs: bool) -> bool {
        self.count_decodes || phase == Phase::Prefilling && runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decode_takes_a_seat_only_where_decodes_are_counted() {
        let draft = StepDraft::new(0);
        for phase in [Phase::Prefilling, Phase::Decoding, Phase::Stalled] {
            assert!(draft.takes_seat(phase, true) && draft.takes_seat(phase, false));
        }
        let draft = StepDraft { count_decodes: false, ..draft };
        assert!(draft.takes_seat(Phase::Prefilling, true));
        assert!(!draft.takes_seat(Phase::Prefilling, false), "its prefill does not run in this step");
        assert!(!draft.takes_seat(Phase::Decoding, true) && !draft.takes_seat(Phase::Stalled, true));
    }
}
