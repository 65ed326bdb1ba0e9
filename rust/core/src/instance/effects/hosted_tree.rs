//! Copies between the GPU and the host of a tree of prefixes.

use super::{AdmissionOffer, Effects};
use crate::hint::rare;
use crate::instance::Instance;
use crate::instance::observers::Fact;
use crate::instance::request::{Phase, Slot};
use crate::instance::tiers::TreeTier;
use crate::kv::{ContentOwner, Hits, Memory};
use crate::time::Ticks;
use crate::trace::RequestNumber;

impl Instance {
    /// Whether copies between the GPU and the host of a tree are recorded, each with the step that decided it: then a run has one
    /// step.
    pub(in crate::instance) fn logs_tree_copies(&self) -> bool {
        self.tiers.tree.as_deref().is_some_and(TreeTier::is_logged)
    }
}

impl Effects<'_> {
    /// Changes the copies of a tree and its memory, if the host has it, too.
    fn with_copies<T>(&mut self, change: impl FnOnce(&mut TreeTier, &mut Memory) -> T) -> Option<T> {
        let tree = self.on.tiers.tree.as_deref_mut()?;
        rare();
        Some(change(tree, self.on.kv.gpu_mut()))
    }

    /// Begins to form a step at `now`. One that is decided ahead sees the copies that had ended as the step before it started.
    pub(super) fn open_copies(&mut self, now: Ticks) {
        self.begin_reads(now);
        let seen = self.seen_copies(now);
        self.with_copies(|tree, memory| tree.open(now, seen, memory));
    }

    /// Begins to read what a store below the host has of the requests that have joined the queue.
    fn begin_reads(&mut self, now: Ticks) {
        let Some(tree) = self.on.tiers.tree.as_deref_mut() else { return };
        for request in tree.take_joined() {
            let tokens = self.trace.prompt_tokens[request.index()];
            let owner = ContentOwner::of_prompt(self.trace.origin(request), tokens);
            tree.begin_read((request, owner, tokens), now, self.on.kv.gpu_mut());
        }
    }

    /// The same of the requests that the step which is formed has preempted.
    pub(in crate::instance) fn begin_reads_again(&mut self, now: Ticks) {
        let Instance { tiers, kv, requests, .. } = &mut *self.on;
        let Some(tree) = tiers.tree.as_deref_mut() else { return };
        for slot in tree.take_preempted() {
            let state = &requests[slot];
            tree.begin_read((state.request, state.owner(), state.target()), now, kv.gpu_mut());
        }
    }

    /// Whether a request that may be admitted otherwise waits until a store below the host has been read for it.
    pub(in crate::instance) fn awaits_read(&mut self, request: RequestNumber, now: Ticks) -> bool {
        self.with_copies(|tree, memory| tree.awaits(request, now, memory)).unwrap_or(false)
    }

    /// By when copies have ended that a step which is formed at `now` sees.
    pub(in crate::instance) fn seen_copies(&self, now: Ticks) -> Ticks {
        let ahead = self.on.settings.scheduler.schedule_ahead;
        if ahead { self.on.queues.ahead().latest_start().min(now) } else { now }
    }

    /// Loads what the host has of the prefix of a request that is admitted.
    pub(super) fn load_prefix(&mut self, slot: Slot, offer: &AdmissionOffer, hits: &Hits) {
        let Instance { tiers, kv, requests, .. } = &mut *self.on;
        let Some(tree) = tiers.tree.as_deref_mut().filter(|_| offer.load.tokens() > 0) else { return };
        let end = kv.gpu_mut().load_prefix(hits, &mut requests[slot].blocks);
        tree.load(end, u64::from(hits.on_host()));
    }

    /// Notes the tokens that an admitted request has from the prefix cache and from the host.
    pub(super) fn note_loaded_prefix(
        &mut self,
        (slot, first): (Slot, bool),
        offer: &AdmissionOffer,
        hits: &Hits,
        now: Ticks,
    ) {
        let Some(tree) = self.on.tiers.tree.as_deref_mut() else { return };
        rare();
        let (cached, loaded) = (hits.len() * self.on.settings.block.tokens(), offer.load.tokens());
        let fetched = tree.admit(self.on.requests[slot].request, (cached, loaded));
        self.observe(Fact::Loaded { first, cached, loaded, fetched, wait: 0 }, slot, now);
    }

    /// Begins the loads of the step that was formed.
    pub(in crate::instance) fn begin_loads(&mut self) {
        self.with_copies(TreeTier::begin_loads);
    }

    /// Begins the forward pass of the step that was formed. Returns for how long it waits for copies.
    pub(in crate::instance) fn begin_forward(&mut self, now: Ticks) -> Ticks {
        self.with_copies(TreeTier::begin_forward).map_or(0, |begins| begins - now)
    }

    /// Copies to the host what has been inserted, as a step ends; then inserts the chunks of its prompts that continue, which
    /// are copied with the next step.
    pub(super) fn insert_continuing(&mut self, now: Ticks) {
        self.begin_reads(now);
        let seen = self.seen_copies(now);
        self.with_copies(|tree, memory| tree.flush(now, seen, memory));
        for slot in self.on.queues.ahead_mut().take_continuing() {
            if self.on.requests[slot].phase == Phase::Prefilling {
                self.insert_computed(slot);
            }
        }
        self.with_copies(|tree, memory| tree.keep(memory));
    }
}
