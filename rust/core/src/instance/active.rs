//! What an instance knows of a request from its first step on.
//!
//! Records live in slots that are reused, so the ones in use stay close
//! together in memory however long the trace is.

use crate::kv::{BlockTable, ContentOwner};
use crate::time::Ticks;

/// A slot in [`ActiveTable`].
pub(crate) type Slot = u32;

/// A place in the order of admission; no two admissions share one.
pub(crate) type Turn = u64;

/// Where an active request stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Admitted, with a prompt (or what is recomputed) to get through.
    Prefilling,
    /// In the decode set: one token at each step.
    Decoding,
    /// Admitted and decoding, but not at every step: for now outside the set.
    Stalled,
    /// Holds nothing and waits to be admitted again.
    Preempted,
    /// Its memory is with the CPU; `bool`: it was decoding.
    Swapped(bool),
    /// Has come from another instance; its memory is here, but not on the GPU.
    Landed,
    /// Has left for another instance, which still reads its memory.
    Sending,
    /// Has yielded all its tokens; a step that is decided still counts on its
    /// memory being taken.
    Lingering,
    /// The slot is free.
    Vacant,
}

/// One request that has been scheduled at least once and has not finished.
#[derive(Debug, Clone)]
pub(crate) struct Active {
    pub(crate) request: u32,
    pub(crate) prompt: u32,
    pub(crate) output: u32,
    /// Tokens whose KV is in the cache; kept by the decode set while decoding.
    pub(crate) computed: u32,
    /// Tokens yielded; kept by the decode set while decoding.
    pub(crate) generated: u32,
    pub(crate) preemptions: u32,
    pub(crate) phase: Phase,
    /// Whether it is past its reasoning.
    pub(crate) answering: bool,
    pub(crate) turn: Turn,
    /// Blocks it holds; while decoding, those of its computed tokens.
    pub(crate) count: u64,
    /// The blocks, where prefixes are cached.
    pub(crate) held: BlockTable,
    /// While decoding, `computed` less the set's step counter.
    pub(crate) offset: i64,
    /// Where the set's gaps stood when the request joined it.
    pub(crate) joined: u64,
    /// When it gave way, until it is back.
    pub(crate) out_since: Ticks,
    /// When it came to the instance; kept here where requests are not ranked.
    pub(crate) came_at: Ticks,
    /// When it was last admitted, and how long it had been admitted before.
    pub(crate) admitted_at: Ticks,
    pub(crate) attained: Ticks,
    /// When its latest token came, while not decoding.
    pub(crate) last_token: Ticks,
    pub(crate) max_gap: Ticks,
}

impl Active {
    /// Tokens to be in the cache before the next one can be yielded.
    #[inline]
    pub(crate) fn target(&self) -> u32 {
        self.prompt + self.generated
    }

    #[inline]
    pub(crate) fn owner(&self) -> ContentOwner {
        ContentOwner { request: self.request, prompt: self.prompt }
    }

    /// Whether it has a place in the order of admission.
    #[inline]
    pub(crate) fn is_admitted(&self) -> bool {
        matches!(self.phase, Phase::Prefilling | Phase::Decoding | Phase::Stalled)
    }
}

/// All active requests of one instance.
#[derive(Debug, Clone, Default)]
pub(crate) struct ActiveTable {
    slots: Vec<Active>,
    vacant: Vec<Slot>,
}

impl ActiveTable {
    pub(crate) fn insert(&mut self, request: u32, prompt: u32, output: u32) -> Slot {
        let active = Active {
            request,
            prompt,
            output,
            computed: 0,
            generated: 0,
            preemptions: 0,
            phase: Phase::Prefilling,
            answering: false,
            turn: 0,
            count: 0,
            held: BlockTable::default(),
            offset: 0,
            joined: 0,
            out_since: Ticks::MAX,
            came_at: 0,
            admitted_at: 0,
            attained: 0,
            last_token: 0,
            max_gap: 0,
        };
        if let Some(slot) = self.vacant.pop() {
            self.slots[slot as usize] = active;
            return slot;
        }
        self.slots.push(active);
        (self.slots.len() - 1) as Slot
    }

    pub(crate) fn release(&mut self, slot: Slot) {
        self.slots[slot as usize].phase = Phase::Vacant;
        self.vacant.push(slot);
    }

    /// Everyone who is active, in slot order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Active> {
        self.slots.iter().filter(|active| active.phase != Phase::Vacant)
    }

    /// Whether an entry of the order still stands for an admitted request.
    #[inline]
    pub(crate) fn holds(&self, turn: Turn, slot: Slot) -> bool {
        let active = &self[slot];
        active.turn == turn && active.is_admitted()
    }
}

impl std::ops::Index<Slot> for ActiveTable {
    type Output = Active;

    #[inline]
    fn index(&self, slot: Slot) -> &Active {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<Slot> for ActiveTable {
    #[inline]
    fn index_mut(&mut self, slot: Slot) -> &mut Active {
        &mut self.slots[slot as usize]
    }
}
