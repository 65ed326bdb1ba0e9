//! The nodes of a radix tree, and what lookups, insertions, locks and evictions change in them.

mod host;

pub(crate) use host::{HostCounters, HostLock};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::leaves::Leaves;
use crate::kv::content::Content;
use host::{HostPart, Places};

/// The number of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub(crate) struct NodeId(u32);

impl NodeId {
    /// The root, which has no blocks.
    const ROOT: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Consecutive blocks of a prefix.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Node {
    /// The contents of the blocks.
    contents: Vec<Content>,
    above: NodeId,
    /// Nodes below it.
    children: u32,
    /// Those of them that the GPU has.
    children_on_gpu: u32,
    /// Requests and copies whose path it is on.
    locks: u32,
    /// When it was used last.
    used: u64,
    /// Where it is.
    places: Places,
    /// Its order among the nodes below the same one: that of the first of its blocks to come.
    order: u64,
}

impl Node {
    fn blocks(&self) -> u64 {
        self.contents.len() as u64
    }

    /// Its blocks of the GPU.
    fn blocks_on_gpu(&self) -> u64 {
        if self.places.gpu { self.blocks() } else { 0 }
    }
}

/// The cached prefix that a lookup found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Found {
    /// Blocks of the prefix on the GPU.
    pub(crate) blocks: u32,
    /// Blocks after these that the host alone has.
    pub(crate) on_host: u32,
    /// The last node of it, and how many blocks of that node it has.
    end: (NodeId, u32),
}

impl Found {
    /// The last node of the prefix.
    pub(crate) fn end(&self) -> NodeId {
        self.end.0
    }
}

/// See [the module](super).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RadixTree {
    /// The nodes, the root first; some are unused.
    nodes: Vec<Node>,
    /// The unused nodes.
    unused: Vec<NodeId>,
    /// The nodes but the root, by the key of their first content.
    by_first: FxHashMap<u64, NodeId>,
    leaves: Leaves,
    /// Blocks of all nodes on the GPU, and of those that no request has locked.
    blocks: u64,
    unlocked: u64,
    /// The number of uses so far.
    uses: u64,
    /// Its part in the host's memory, if there is a tier.
    host: Option<Box<HostPart>>,
}

impl Default for RadixTree {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            unused: Vec::new(),
            by_first: FxHashMap::default(),
            leaves: Leaves::default(),
            blocks: 0,
            unlocked: 0,
            uses: 0,
            host: None,
        }
    }
}

impl RadixTree {
    /// Blocks of nodes that no request has locked.
    pub(crate) fn unlocked(&self) -> u64 {
        self.unlocked
    }

    /// Blocks of nodes that requests have locked.
    pub(crate) fn locked(&self) -> u64 {
        self.blocks - self.unlocked
    }

    /// Blocks of all nodes on the GPU.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// The contents of all blocks.
    pub(crate) fn contents(&self) -> impl Iterator<Item = Content> {
        self.nodes.iter().flat_map(|node| node.contents.iter().copied())
    }

    /// Finds the longest cached prefix of a sequence of `blocks` blocks.
    pub(crate) fn find(&self, blocks: u32, content: impl Fn(u32) -> Content) -> Found {
        let (mut found, mut at) = (Found::default(), 0);
        while at < blocks {
            let Some(&id) = self.by_first.get(&content(at).key()) else { break };
            let equal = self.equal(id, at, blocks, &content);
            at += equal;
            let node = &self.nodes[id.index()];
            let part = if node.places.gpu { &mut found.blocks } else { &mut found.on_host };
            *part += equal;
            found.end = (id, equal);
            if u64::from(equal) < node.blocks() {
                break;
            }
        }
        found
    }

    /// How many leading blocks of a node a sequence of `blocks` blocks has, which begin at `from`.
    fn equal(&self, id: NodeId, from: u32, blocks: u32, content: &impl Fn(u32) -> Content) -> u32 {
        let contents = &self.nodes[id.index()].contents;
        let most = contents.len().min((blocks - from) as usize);
        let (mut equal, mut unequal) = (0, most);
        // Where a content is equal, so are those before it.
        while equal < unequal {
            let middle = equal + (unequal - equal) / 2;
            if contents[middle] == content(from + middle as u32) {
                equal = middle + 1;
            } else {
                unequal = middle;
            }
        }
        equal as u32
    }

    /// How many blocks of a prefix no request has locked.
    pub(crate) fn unlocked_of(&self, found: &Found) -> u64 {
        let (end, equal) = found.end;
        let last = self.node(end);
        if last.locks > 0 {
            return 0;
        }
        // Whatever is above a locked node is locked, too.
        let above = self.path(end).skip(1).take_while(|&id| self.node(id).locks == 0);
        let last = if last.places.gpu { u64::from(equal) } else { 0 };
        last + above.map(|id| self.node(id).blocks_on_gpu()).sum::<u64>()
    }

    /// The nodes from one up to the root, without the root.
    fn path(&self, from: NodeId) -> impl Iterator<Item = NodeId> {
        let within = |id: NodeId| (id != NodeId::ROOT).then_some(id);
        std::iter::successors(within(from), move |id| within(self.nodes[id.index()].above))
    }

    /// The nodes of a prefix that was found, from the root down, each with its place among those below the same one.
    pub(crate) fn path_down(&self, found: &Found) -> Vec<(NodeId, u64)> {
        let mut path: Vec<_> = self.path(found.end.0).map(|id| (id, self.nodes[id.index()].order)).collect();
        path.reverse();
        path
    }

    /// Blocks of the nodes on the paths to these.
    pub(crate) fn blocks_of_paths(&self, ends: impl Iterator<Item = NodeId>) -> u64 {
        let mut nodes: Vec<_> = ends.flat_map(|end| self.path(end)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.iter().map(|&id| self.node(id).blocks()).sum()
    }

    /// Uses a prefix that was found just now, whose last node ends with it from then on. Returns that node.
    pub(crate) fn use_prefix(&mut self, found: &mut Found) -> NodeId {
        let (end, equal) = found.end;
        if end == NodeId::ROOT {
            return end;
        }
        let whole = u64::from(equal) == self.nodes[end.index()].blocks();
        let end = if whole { end } else { self.split(end, equal) };
        found.end.0 = end;
        // The nodes above are used before those below.
        self.uses += self.path(end).count() as u64;
        let (mut id, mut moment) = (end, self.uses);
        while id != NodeId::ROOT {
            self.reuse(id, moment);
            moment -= 1;
            id = self.nodes[id.index()].above;
        }
        end
    }

    /// Inserts a sequence of `blocks` blocks, of which the request has inserted the first `before`. Returns its last node.
    pub(crate) fn insert(&mut self, blocks: u32, before: u32, content: impl Fn(u32) -> Content) -> NodeId {
        let (mut above, mut at) = (NodeId::ROOT, 0);
        while at < blocks {
            let Some(&id) = self.by_first.get(&content(at).key()) else {
                let id = self.add(above, (at..blocks).map(content).collect());
                if self.host.is_some() && blocks > before {
                    self.count_insertion(id);
                }
                return id;
            };
            self.uses += 1;
            self.reuse(id, self.uses);
            let equal = self.equal(id, at, blocks, &content);
            let whole = u64::from(equal) == self.nodes[id.index()].blocks();
            above = if whole { id } else { self.split(id, equal) };
            at += equal;
            if self.host.is_some() {
                self.insert_again(above, at > before);
            }
        }
        above
    }

    /// Notes when a node was used last.
    fn reuse(&mut self, id: NodeId, moment: u64) {
        let before = std::mem::replace(&mut self.nodes[id.index()].used, moment);
        self.leaves.reuse(before, moment);
        if let Some(host) = &mut self.host {
            host.leaves.reuse(before, moment);
        }
    }

    /// Adds an unlocked leaf on the GPU.
    fn add(&mut self, above: NodeId, contents: Vec<Content>) -> NodeId {
        self.uses += 1;
        let (blocks, used) = (contents.len() as u64, self.uses);
        let first = contents[0].key();
        let id =
            self.place(Node { contents, above, used, order: used, places: Places::GPU, ..Node::default() });
        self.by_first.insert(first, id);
        let node = self.node_mut(above);
        (node.children, node.children_on_gpu) = (node.children + 1, node.children_on_gpu + 1);
        self.refresh(above);
        self.leaves.add(used, id);
        self.blocks += blocks;
        self.unlocked += blocks;
        id
    }

    /// Splits a node after `length` blocks. Returns the new node, which has these.
    fn split(&mut self, id: NodeId, length: u32) -> NodeId {
        let node = &mut self.nodes[id.index()];
        let rest = node.contents.split_off(length as usize);
        let contents = std::mem::replace(&mut node.contents, rest);
        let (first, next) = (contents[0].key(), node.contents[0].key());
        let (above, locks, order) = (node.above, node.locks, node.order);
        let places = node.places.of_beginning();
        self.uses += 2;
        let (children_on_gpu, used) = (u32::from(places.gpu), self.uses - 1);
        let new =
            self.place(Node { contents, above, children: 1, children_on_gpu, locks, used, order, places });
        self.nodes[id.index()].above = new;
        self.reuse(id, self.uses);
        self.by_first.insert(first, new);
        self.by_first.insert(next, id);
        if self.host.is_some() {
            self.note_copy(new);
        }
        new
    }

    fn place(&mut self, node: Node) -> NodeId {
        if let Some(id) = self.unused.pop() {
            self.nodes[id.index()] = node;
            return id;
        }
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Keeps the path to a node from eviction.
    pub(crate) fn lock(&mut self, end: NodeId) {
        let mut id = end;
        while id != NodeId::ROOT {
            let node = &mut self.nodes[id.index()];
            node.locks += 1;
            let (locks, above) = (node.locks, node.above);
            if locks == 1 {
                self.unlocked -= node.blocks_on_gpu();
                self.refresh(id);
            }
            id = above;
        }
    }

    /// Takes a lock back.
    pub(crate) fn unlock(&mut self, end: NodeId) {
        let mut id = end;
        while id != NodeId::ROOT {
            let node = &mut self.nodes[id.index()];
            node.locks -= 1;
            let (locks, above) = (node.locks, node.above);
            if locks == 0 {
                self.unlocked += node.blocks_on_gpu();
                self.refresh(id);
            }
            id = above;
        }
    }

    /// Evicts the unlocked leaf of the GPU that was used the longest ago. Returns its contents; none, if there is no such leaf.
    pub(crate) fn evict(&mut self) -> Vec<Content> {
        let Some(id) = self.leaves.pop() else { return Vec::new() };
        if self.host.is_some() && self.stays_on_host(id) {
            self.leave_gpu(id);
            return self.node(id).contents.clone();
        }
        self.remove(id)
    }

    /// Removes a leaf that nothing has locked. Returns its contents.
    fn remove(&mut self, id: NodeId) -> Vec<Content> {
        debug_assert_eq!(self.node(id).children, 0, "Invariant: the host has evicted what was below");
        if self.host.is_some() {
            self.leaves.remove(self.node(id).used);
            self.leave_host(id);
        }
        let Node { contents, above, places, .. } = std::mem::take(&mut self.nodes[id.index()]);
        self.unused.push(id);
        self.by_first.remove(&contents[0].key());
        let node = self.node_mut(above);
        node.children -= 1;
        if places.gpu {
            node.children_on_gpu -= 1;
            self.blocks -= contents.len() as u64;
            self.unlocked -= contents.len() as u64;
        }
        self.refresh(above);
        contents
    }
}

#[cfg(test)]
mod tests;
