//! Nodes that are read into the host's memory from a store below it, and kept there while they are copied to it.
//!
//! Follows `insert_host` of `unified_cache/unified_tree_core.py`, the host's locks of `components/full.py` and
//! `allocate_storage_hit` of `hybrid_cache/hybrid_cache_controller.py` (`srt/mem_cache` of `sglang` 0.5.23), where nodes are
//! written as they are inserted. Room is taken before a read; what has been read becomes nodes below the last one that the
//! request had as it began. Nodes on that way which the GPU alone had are then on the host, too.

use serde::{Deserialize, Serialize};

use super::{Node, NodeId, Places, RadixTree};
use crate::kv::content::Content;

/// A lock that keeps a part of a path on the host: a node, and as many blocks up from its end as it had, as it may be split.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct HostLock {
    end: NodeId,
    blocks: u64,
}

impl RadixTree {
    /// The nodes that a node with so many blocks has become, from the root down.
    fn parts(&self, end: NodeId, blocks: u64) -> Vec<NodeId> {
        let mut left = blocks;
        let part = |&id: &NodeId| {
            let whole = left > 0;
            left = left.saturating_sub(self.node(id).blocks());
            whole
        };
        let mut parts: Vec<_> = self.path(end).take_while(part).collect();
        parts.reverse();
        parts
    }

    /// Whether a read may begin below a node: the host has it, or it is the root.
    pub(crate) fn reads_below(&self, id: NodeId) -> bool {
        id == NodeId::ROOT || self.node(id).places.host
    }

    /// Keeps a node on the host, if it is there.
    pub(crate) fn lock_on_host(&mut self, end: NodeId) -> HostLock {
        let node = self.node_mut(end);
        if !node.places.host {
            return HostLock { end, blocks: 0 };
        }
        node.places.host_locks += 1;
        let blocks = node.blocks();
        self.refresh(end);
        HostLock { end, blocks }
    }

    /// Keeps on the host each part of a node that had so many blocks. Returns the locks, and the contents that they keep.
    pub(crate) fn lock_parts(&mut self, end: NodeId, blocks: u64) -> Vec<(HostLock, Vec<u64>)> {
        let parts = self.parts(end, blocks).into_iter();
        parts
            .map(|id| (self.lock_on_host(id), self.node(id).contents.iter().map(|one| one.key()).collect()))
            .collect()
    }

    /// Takes a lock back.
    pub(crate) fn unlock_on_host(&mut self, lock: HostLock) {
        for id in self.parts(lock.end, lock.blocks) {
            self.node_mut(id).places.host_locks -= 1;
            self.refresh(id);
        }
    }

    /// Takes room on the host for up to `blocks` blocks that are to be read, and for `least` at least. Returns for how many.
    pub(crate) fn take_room(&mut self, blocks: u64, least: u64) -> u64 {
        let free = |tree: &Self| tree.host.as_deref().map_or(0, |host| host.capacity - host.used);
        if free(self) < blocks {
            self.evict_from_host(blocks);
        }
        let room = free(self).min(blocks);
        let room = if room >= least { room } else { 0 };
        if let Some(host) = &mut self.host {
            host.used += room;
            host.reading += room;
            host.counters.peak = host.counters.peak.max(host.used);
        }
        room
    }

    /// Gives room back of blocks that were not read.
    pub(crate) fn leave_room(&mut self, blocks: u64) {
        if let Some(host) = &mut self.host {
            host.reading -= blocks;
            host.used -= blocks;
        }
    }

    /// Inserts below a node what has been read, into room that was taken. Returns how many of the blocks the host had.
    pub(crate) fn insert_read(&mut self, lock: HostLock, contents: &[Content]) -> u64 {
        let (mut above, mut at, mut had) = (lock.end, 0, 0);
        self.uses += 1;
        self.reuse(above, self.uses);
        while at < contents.len() {
            let Some(&id) = self.by_first.get(&contents[at].key()) else {
                self.add_on_host(above, contents[at..].to_vec());
                break;
            };
            self.uses += 1;
            self.reuse(id, self.uses);
            let equal =
                self.equal(id, at as u32, contents.len() as u32, &|position| contents[position as usize]);
            let whole = u64::from(equal) == self.node(id).blocks();
            above = if whole { id } else { self.split(id, equal) };
            at += equal as usize;
            if self.node(above).places.host {
                had += u64::from(equal);
                continue;
            }
            let node = self.node_mut(above);
            node.places.host = true;
            let over = node.above;
            self.refresh(above);
            self.refresh(over);
            self.note_copy(above);
        }
        if let Some(host) = &mut self.host {
            host.reading -= contents.len() as u64;
            host.used -= had;
        }
        had
    }

    /// Adds a node that the host alone has.
    fn add_on_host(&mut self, above: NodeId, contents: Vec<Content>) {
        self.uses += 1;
        let (used, first) = (self.uses, contents[0].key());
        let places = Places { host: true, ..Places::default() };
        let id = self.place(Node { contents, above, used, order: used, places, ..Node::default() });
        self.by_first.insert(first, id);
        self.node_mut(above).children += 1;
        self.refresh(id);
        self.refresh(above);
    }
}
