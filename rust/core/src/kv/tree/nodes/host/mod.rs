//! Nodes of a radix tree in the host's memory.
//!
//! Follows `sglang` 0.5.23 with `--enable-hierarchical-cache` (`srt/mem_cache/unified_radix_cache.py`,
//! `unified_cache/unified_tree_core.py` and `components/full.py`). A node is on the GPU, on the host or on both, and a node on
//! the GPU has all nodes above it there. A node is written to the host once it was inserted often enough, and before it those
//! above it that the host lacks; or as the GPU evicts it. What the host alone has is evicted by leaves, as on the GPU. Where
//! nodes are written as they are evicted, copies of what the GPU has, too, are given up before that.

mod reads;

pub(crate) use reads::HostLock;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Leaves, Node, NodeId, RadixTree};

/// Where a node is.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(super) struct Places {
    /// Whether the GPU has it.
    pub(super) gpu: bool,
    /// Whether the host has it, or is being given it.
    host: bool,
    /// How often requests have inserted it.
    insertions: u32,
    /// The last node of the load that it is part of; the root: of none.
    loading: NodeId,
    /// Its place among those that both may have; 0: it has none.
    copy: u64,
    /// Reads that begin below it, and writes of it to a store below the host.
    host_locks: u32,
}

impl Places {
    /// Those of a node that a request inserts.
    pub(super) const GPU: Self =
        Self { gpu: true, host: false, insertions: 0, loading: NodeId::ROOT, copy: 0, host_locks: 0 };

    /// Those of the beginning of a node that is split.
    pub(super) fn of_beginning(self) -> Self {
        Self { copy: 0, ..self }
    }
}

/// The counters of the host's memory, in blocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct HostCounters {
    pub(crate) stored: u64,
    pub(crate) evicted: u64,
    /// Nodes for which there was no room.
    pub(crate) refused: u64,
    /// The most that it had.
    pub(crate) peak: u64,
}

/// The nodes of a tree in the host's memory.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct HostPart {
    /// Blocks that fit, and that it has.
    capacity: u64,
    used: u64,
    /// Of these, blocks that are being read from a store below, and in no node yet.
    reading: u64,
    /// Insertions of a node before it is written; `None`: it is as the GPU evicts it.
    least: Option<u32>,
    /// The leaves of what it alone has.
    pub(super) leaves: Leaves,
    /// Nodes that the GPU has, too, and some that it had, in the order in which both had them first; the number of the last.
    copies: BTreeMap<u64, NodeId>,
    copied: u64,
    /// Nodes that are to be copied to the host, and their blocks. Each is locked until it is.
    written: Vec<(NodeId, u64)>,
    /// Blocks of each node that was copied to the host as it was evicted.
    at_once: Vec<u64>,
    counters: HostCounters,
}

impl RadixTree {
    /// The same tree, beside a memory of the host for `capacity` blocks. `least`: insertions of a node before it is written;
    /// `None`: it is as the GPU evicts it.
    pub(crate) fn with_host(mut self, capacity: u64, least: Option<u32>) -> Self {
        self.host = Some(Box::new(HostPart { capacity, least, ..HostPart::default() }));
        self
    }

    /// Blocks in the host's memory.
    pub(crate) fn on_host(&self) -> u64 {
        self.host.as_deref().map_or(0, |host| host.used)
    }

    /// The counters of the host's memory.
    pub(crate) fn host_counters(&self) -> HostCounters {
        self.host.as_deref().map(|host| host.counters).unwrap_or_default()
    }

    /// Removes and returns the nodes that are to be copied to the host, but the first `kept`, and their blocks.
    pub(crate) fn take_written(&mut self, kept: usize) -> Vec<(NodeId, u64)> {
        self.host
            .as_deref_mut()
            .map(|host| host.written.split_off(kept.min(host.written.len())))
            .unwrap_or_default()
    }

    /// How many nodes are to be copied to the host.
    pub(crate) fn written(&self) -> usize {
        self.host.as_deref().map_or(0, |host| host.written.len())
    }

    /// Removes and returns the blocks of each node that was copied to the host as it was evicted.
    pub(crate) fn take_at_once(&mut self) -> Vec<u64> {
        self.host.as_deref_mut().map(|host| std::mem::take(&mut host.at_once)).unwrap_or_default()
    }

    /// The last node of a path that the GPU has.
    pub(crate) fn end_on_gpu(&self, end: NodeId) -> NodeId {
        self.path(end).find(|&id| self.node(id).places.gpu).unwrap_or_default()
    }

    /// Checks that the accounts of blocks are the sums of what nodes say.
    ///
    /// # Panics
    ///
    /// If one differs: a bug in the engine.
    pub(crate) fn check_accounts(&self) {
        let sum = |has: fn(&Node) -> bool| {
            self.nodes.iter().filter(|node| has(node)).map(Node::blocks).sum::<u64>()
        };
        let said = (sum(|node| node.places.gpu), sum(|node| node.places.gpu && node.locks == 0));
        assert_eq!(
            said,
            (self.blocks, self.unlocked),
            "Invariant: the blocks of a tree on the GPU are its nodes'"
        );
        let reading = self.host.as_deref().map_or(0, |host| host.reading);
        let on_host = sum(|node| node.places.host) + reading;
        assert_eq!(on_host, self.on_host(), "Invariant: those on the host are, too, or are being read");
    }

    // -- insertions and loads ---------------------------------------------------------------

    /// A request inserts a node that the tree has. `counts`: it has not before.
    pub(super) fn insert_again(&mut self, id: NodeId, counts: bool) {
        if !self.node(id).places.gpu {
            self.enter_gpu(id);
            self.note_copy(id);
        }
        if counts {
            self.count_insertion(id);
        }
    }

    /// Counts an insertion of a node on the GPU, and has it be written if it is due.
    pub(super) fn count_insertion(&mut self, id: NodeId) {
        let Some(least) = self.host.as_deref().and_then(|host| host.least) else { return };
        let places = &mut self.node_mut(id).places;
        places.insertions = places.insertions.saturating_add(1);
        if places.host || places.insertions < least {
            return;
        }
        let lacking: Vec<_> = self.path(id).take_while(|&id| !self.node(id).places.host).collect();
        for id in lacking.into_iter().rev() {
            if !self.store(id) {
                return;
            }
            let blocks = self.node(id).blocks();
            if let Some(host) = &mut self.host {
                host.written.push((id, blocks));
            }
            self.lock(id);
        }
    }

    /// The GPU has a node that it had not.
    fn enter_gpu(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.places.gpu = true;
        let (blocks, locked, above) = (node.blocks(), node.locks > 0, node.above);
        self.blocks += blocks;
        self.unlocked += if locked { 0 } else { blocks };
        self.node_mut(above).children_on_gpu += 1;
        self.refresh(above);
        self.refresh(id);
    }

    /// Gives the nodes of a locked path that the host alone has a place on the GPU, into which they are loaded: the path is
    /// locked once more until they are.
    pub(crate) fn load(&mut self, end: NodeId) {
        let lacking: Vec<_> = self.path(end).take_while(|&id| !self.node(id).places.gpu).collect();
        for id in lacking.into_iter().rev() {
            self.enter_gpu(id);
            self.node_mut(id).places.loading = end;
        }
        self.lock(end);
    }

    /// A load has ended.
    pub(crate) fn end_load(&mut self, end: NodeId) {
        self.unlock(end);
        let loaded: Vec<_> = self.path(end).filter(|&id| self.node(id).places.loading == end).collect();
        for id in loaded {
            self.node_mut(id).places.loading = NodeId::ROOT;
            self.note_copy(id);
        }
    }

    // -- evictions -------------------------------------------------------------------------------

    /// Whether a leaf that the GPU evicts stays in the tree, as the host has it or takes it now.
    pub(super) fn stays_on_host(&mut self, id: NodeId) -> bool {
        if self.node(id).places.host {
            return true;
        }
        let writes = self.host.as_deref().is_some_and(|host| host.least.is_none());
        if !(writes && self.store(id)) {
            return false;
        }
        let blocks = self.node(id).blocks();
        if let Some(host) = &mut self.host {
            host.at_once.push(blocks);
        }
        self.note_copy(id);
        true
    }

    /// The GPU loses a leaf that the host has.
    pub(super) fn leave_gpu(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.places.gpu = false;
        let (blocks, above) = (node.blocks(), node.above);
        self.blocks -= blocks;
        self.unlocked -= blocks;
        self.node_mut(above).children_on_gpu -= 1;
        self.refresh(id);
        self.refresh(above);
    }

    /// Takes room in the host's memory for a node. Returns whether there is any.
    fn store(&mut self, id: NodeId) -> bool {
        let blocks = self.node(id).blocks();
        let Some(host) = self.host.as_deref() else { return false };
        let wanted = (host.used + blocks).saturating_sub(host.capacity);
        let has_room = wanted == 0 || self.evict_from_host(wanted) >= wanted;
        let Some(host) = self.host.as_deref_mut() else { return false };
        if !has_room {
            host.counters.refused += 1;
            return false;
        }
        host.used += blocks;
        host.counters.stored += blocks;
        host.counters.peak = host.counters.peak.max(host.used);
        self.node_mut(id).places.host = true;
        true
    }

    /// Evicts `blocks` blocks from the host, or what there is to evict. Returns how many.
    fn evict_from_host(&mut self, blocks: u64) -> u64 {
        let gives_up = self.host.as_deref().is_some_and(|host| host.least.is_none());
        let mut freed = if gives_up { self.give_up_copies(blocks) } else { 0 };
        while freed < blocks {
            let Some(id) = self.host.as_deref_mut().and_then(|host| host.leaves.pop()) else { break };
            freed += self.node(id).blocks();
            self.remove(id);
        }
        freed
    }

    /// The host loses a node.
    pub(super) fn leave_host(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        let blocks = node.blocks();
        let had = std::mem::replace(&mut node.places.host, false);
        let copy = std::mem::replace(&mut node.places.copy, 0);
        let Some(host) = self.host.as_deref_mut() else { return };
        host.copies.remove(&copy);
        if had {
            host.used -= blocks;
            host.counters.evicted += blocks;
        }
    }

    /// Notes a node that both have and that is not being loaded.
    pub(super) fn note_copy(&mut self, id: NodeId) {
        let Places { gpu, host: on_host, loading, copy, .. } = self.node(id).places;
        let Some(host) = self.host.as_deref_mut() else { return };
        let settled = gpu && on_host && loading == NodeId::ROOT;
        let copy = match (settled, copy) {
            (true, 0) => {
                host.copied += 1;
                host.copies.insert(host.copied, id);
                host.copied
            }
            (true, noted) => noted,
            (false, noted) => {
                host.copies.remove(&noted);
                0
            }
        };
        self.node_mut(id).places.copy = copy;
    }

    /// Has the host give up copies of what the GPU has, those of leaves that the GPU may evict last. Returns the blocks.
    fn give_up_copies(&mut self, blocks: u64) -> u64 {
        let mut freed = 0;
        for spares in [true, false] {
            let mut next = 0;
            while freed < blocks {
                let noted = self.host.as_deref().and_then(|host| host.copies.range(next..).next());
                let Some((&copy, &id)) = noted else { break };
                next = copy + 1;
                let Places { gpu, host, loading, .. } = self.node(id).places;
                if !(gpu && host) {
                    self.forget_copy(id);
                } else if loading == NodeId::ROOT && !(spares && self.node(id).is_leaf_on_gpu()) {
                    freed += self.node(id).blocks();
                    self.leave_host(id);
                }
            }
        }
        freed
    }

    /// Forgets that both have a node.
    fn forget_copy(&mut self, id: NodeId) {
        let copy = std::mem::replace(&mut self.node_mut(id).places.copy, 0);
        if let Some(host) = &mut self.host {
            host.copies.remove(&copy);
        }
    }

    /// Notes whether a node is a leaf that the GPU or the host may evict.
    pub(super) fn refresh(&mut self, id: NodeId) {
        if id == NodeId::ROOT {
            return;
        }
        let node = &self.nodes[id.index()];
        let used = node.used;
        if node.is_leaf_on_gpu() {
            self.leaves.add(used, id);
        } else {
            self.leaves.remove(used);
        }
        if let Some(host) = self.host.as_deref_mut() {
            if node.is_leaf_on_host() {
                host.leaves.add(used, id);
            } else {
                host.leaves.remove(used);
            }
        }
    }
}

impl Node {
    /// Whether the GPU may evict it.
    pub(super) fn is_leaf_on_gpu(&self) -> bool {
        self.locks == 0 && self.places.gpu && self.children_on_gpu == 0
    }

    /// Whether the host may evict it.
    fn is_leaf_on_host(&self) -> bool {
        let locks = self.locks + self.places.host_locks;
        locks == 0 && !self.places.gpu && self.places.host && self.children == 0
    }
}

#[cfg(test)]
mod tests;
