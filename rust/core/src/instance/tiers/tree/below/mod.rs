//! The store below the host's part of a tree: nodes are written to it once they are on the host, and read back as requests
//! join the queue.
//!
//! Follows `sglang` 0.5.23: `prefetch_from_storage`, `check_prefetch_progress`, `write_backup_storage` and
//! `drain_storage_control_queues` of `srt/mem_cache/unified_radix_cache.py`, and the threads for storage of
//! `srt/managers/cache_controller.py`. One read is made after the other, in batches of [`BATCH`] blocks; one that its request
//! waits for no more ends with its batch. A step looks for what has ended as it is formed. Room on the host that it sees not to be
//! needed is given back by the next look.

mod reader;

use std::collections::{BTreeMap, VecDeque};

use super::super::transfers::StoreLinks;
use crate::config::{Prefetch, PrefetchStop, StoreLink};
use crate::kv::{Content, ContentOwner, HostLock, Memory, NodeId, SharedStore};
use crate::time::Ticks;
use crate::trace::RequestNumber;
use reader::Reader;

/// Blocks that are read or written at a time (`STORAGE_BATCH_SIZE`).
const BATCH: usize = 128;

/// A read for a request.
#[derive(Debug)]
struct Read {
    request: RequestNumber,
    /// The last node of the prefix that the request had.
    anchor: HostLock,
    /// The blocks of that prefix, and those after it that were asked for.
    first: u32,
    asked: u64,
    /// The contents that are read.
    contents: Vec<Content>,
    /// How many of them have been read.
    done: usize,
    /// Whether the store had less than it should.
    short: bool,
    /// How many of them the tree has taken, once the request waits no more.
    kept: Option<usize>,
}

/// A request that has a read, or had one and has not been admitted since.
#[derive(Debug, Default)]
struct Wait {
    /// The read that is not in the tree yet.
    read: Option<u32>,
    /// Until when it waits at most, from the first time on that it could be admitted otherwise.
    deadline: Option<Ticks>,
    /// The first token that was read for it, and how many were.
    fetched: (u32, u32),
}

/// Copies that a look finds to have ended, and room that it gives back.
#[derive(Debug, Default)]
pub(super) struct Ended {
    reads: Vec<u32>,
    writes: usize,
    spare: u64,
}

/// See [the module](self).
#[derive(Debug)]
pub(super) struct TreeBelow {
    pub(super) links: StoreLinks,
    rules: Prefetch,
    block_tokens: u32,
    /// The tokens of reads under way from which on none begins.
    limit: u64,
    /// Requests that have joined the queue since the last look.
    joined: Vec<RequestNumber>,
    waits: BTreeMap<RequestNumber, Wait>,
    /// The reads under way, by number, and those among them for which room has not been sought yet.
    reads: BTreeMap<u32, Read>,
    begun: u32,
    found: Vec<u32>,
    reader: Reader,
    /// Room on the host that the next look gives back.
    spare: u64,
    /// The ends of writes, and the nodes that stay on the host until then.
    writes: VecDeque<(Ticks, HostLock)>,
}

impl TreeBelow {
    /// `chunks`: blocks of the host's memory.
    pub(super) fn new(
        config: StoreLink,
        chunks: u64,
        block_tokens: u32,
        stores: &[SharedStore],
    ) -> Option<Self> {
        Some(Self {
            links: StoreLinks::new(config, 1, stores),
            rules: config.prefetch?,
            block_tokens,
            limit: chunks * u64::from(block_tokens) / 2,
            joined: Vec::new(),
            waits: BTreeMap::new(),
            reads: BTreeMap::new(),
            begun: 0,
            found: Vec::new(),
            reader: Reader::default(),
            spare: 0,
            writes: VecDeque::new(),
        })
    }

    /// A request joins the queue. The next look begins its read.
    pub(super) fn join(&mut self, request: RequestNumber) {
        self.joined.push(request);
    }

    /// The requests that have joined the queue since the last call.
    pub(super) fn take_joined(&mut self) -> Vec<RequestNumber> {
        std::mem::take(&mut self.joined)
    }

    /// Begins to read what the store has of a request of `tokens` tokens after its prefix on the GPU and the host.
    pub(super) fn begin(
        &mut self,
        (request, owner, tokens): (RequestNumber, ContentOwner, u32),
        now: Ticks,
        memory: &mut Memory,
    ) {
        let Some((anchor, first, mut contents)) = memory.begin_read(owner, tokens, self.rules.least) else {
            return;
        };
        let under_way: u64 =
            self.reads.values().filter(|read| read.kept.is_none()).map(|read| read.asked).sum();
        if under_way * u64::from(self.block_tokens) >= self.limit {
            unlock(memory, anchor);
            return;
        }
        let asked = contents.len() as u64;
        let there = contents.iter().take_while(|content| self.links.has(content.key(), now)).count();
        contents.truncate(there);
        let read = Read { request, anchor, first, asked, contents, done: 0, short: false, kept: None };
        self.reads.insert(self.begun, read);
        self.found.push(self.begun);
        self.waits.entry(request).or_default().read = Some(self.begun);
        self.begun += 1;
    }

    /// Looks at `now` for what has ended.
    pub(super) fn look(&mut self, now: Ticks) -> Ended {
        self.reader.advance(&mut self.reads, &mut self.links, now);
        Ended {
            reads: std::mem::take(&mut self.reader.ended),
            writes: self.writes.iter().take_while(|&&(ends, _)| ends <= now).count(),
            spare: std::mem::take(&mut self.spare),
        }
    }

    /// Seeks room for the reads that have been begun, and takes what has been read into the tree.
    pub(super) fn settle(&mut self, ended: Ended, now: Ticks, memory: &mut Memory) {
        for id in std::mem::take(&mut self.found) {
            self.seek_room(id, now, memory);
        }
        for id in ended.reads {
            self.finish(id, memory);
            if let Some(read) = self.reads.remove(&id) {
                self.spare += (read.contents.len() - read.kept.unwrap_or(0)) as u64;
            }
        }
        for (_, lock) in self.writes.drain(..ended.writes) {
            unlock(memory, lock);
        }
        if let Some(tree) = memory.hosted_mut() {
            tree.leave_room(ended.spare);
        }
    }

    /// Has a read made if the store has enough, and the host has room for it.
    fn seek_room(&mut self, id: u32, now: Ticks, memory: &mut Memory) {
        let Some(read) = self.reads.get_mut(&id) else { return };
        let (found, least) = (read.contents.len(), self.rules.least.max(1).div_ceil(self.block_tokens));
        let tree = memory.hosted_mut().filter(|_| found >= least as usize);
        let room = tree.map_or(0, |tree| tree.take_room(found as u64, u64::from(least))) as usize;
        if found >= least as usize {
            self.links.stats.refused_reads += (found - room) as u64;
        }
        read.contents.truncate(room);
        if room > 0 {
            self.reader.push(id, &mut self.reads, &mut self.links, now);
        } else {
            self.revoke(id, memory);
        }
    }

    /// Gives a read up for which no room was taken.
    fn revoke(&mut self, id: u32, memory: &mut Memory) {
        let Some(read) = self.reads.remove(&id) else { return };
        unlock(memory, read.anchor);
        if let Some(wait) = self.waits.get_mut(&read.request) {
            wait.read = None;
        }
    }

    /// Takes into the tree what has been read for a request, which waits no more.
    fn finish(&mut self, id: u32, memory: &mut Memory) {
        let Some(read) = self.reads.get_mut(&id).filter(|read| read.kept.is_none()) else { return };
        read.kept = Some(read.done);
        let contents = &read.contents[..read.done];
        let had = memory.hosted_mut().map_or(0, |tree| tree.insert_read(read.anchor, contents)) as usize;
        unlock(memory, read.anchor);
        if let Some(wait) = self.waits.get_mut(&read.request) {
            wait.read = None;
            if read.done > had {
                let tokens = |blocks: usize| blocks as u32 * self.block_tokens;
                wait.fetched = (tokens(read.first as usize + had), tokens(read.done - had));
            }
        }
    }

    /// Whether a request that may be admitted otherwise waits for its read at `now`. If it does not, it has what has been read.
    pub(super) fn awaits(&mut self, request: RequestNumber, now: Ticks, memory: &mut Memory) -> bool {
        let Some(wait) = self.waits.get_mut(&request) else { return false };
        let Some(id) = wait.read else { return false };
        match self.rules.stop {
            PrefetchStop::BestEffort => {}
            PrefetchStop::WaitComplete => return true,
            PrefetchStop::Timeout { .. } => {
                let asked = self.reads.get(&id).map_or(0, |read| read.asked as u32);
                let most = self.rules.stop.timeout(asked * self.block_tokens);
                if now <= *wait.deadline.get_or_insert(now.saturating_add(most)) {
                    return true;
                }
            }
        }
        if self.found.contains(&id) {
            self.found.retain(|&other| other != id);
            self.revoke(id, memory);
        } else {
            self.finish(id, memory);
        }
        false
    }

    /// A request is admitted with `loaded` tokens from the host after `cached`. Returns how many of these were read for it.
    pub(super) fn admit(&mut self, request: RequestNumber, (cached, loaded): (u32, u32)) -> u32 {
        let (first, count) = self.waits.remove(&request).unwrap_or_default().fetched;
        (first + count).min(cached + loaded).saturating_sub(first.max(cached))
    }

    /// Writes a node to the store that has been copied to the host, and that had so many blocks.
    pub(super) fn write(&mut self, (node, blocks): (NodeId, u64), now: Ticks, memory: &mut Memory) {
        let parts = memory.hosted_mut().map(|tree| tree.lock_parts(node, blocks)).unwrap_or_default();
        for (lock, keys) in parts {
            let mut ends = now;
            for batch in keys.chunks(BATCH) {
                ends = self.links.write(batch, now).1;
                if !self.links.holds(batch) {
                    break;
                }
            }
            self.writes.push_back((ends, lock));
        }
    }

    /// Whether a look at `now` finds what the one before it has left.
    pub(super) fn has_news(&self, now: Ticks) -> bool {
        self.spare > 0 || !self.reader.ended.is_empty() || self.next_end().is_some_and(|ends| ends <= now)
    }

    /// When the next read or write ends.
    pub(super) fn next_end(&self) -> Option<Ticks> {
        let write = self.writes.front().map(|&(ends, _)| ends);
        [write, self.reader.next_end()].into_iter().flatten().min()
    }

    /// When a request stops waiting that can be admitted otherwise.
    pub(super) fn next_stop(&self) -> Option<Ticks> {
        let waiting = self.waits.values().filter(|wait| wait.read.is_some());
        waiting.filter_map(|wait| wait.deadline).min().map(|deadline| deadline.saturating_add(1))
    }
}

fn unlock(memory: &mut Memory, lock: HostLock) {
    if let Some(tree) = memory.hosted_mut() {
        tree.unlock_on_host(lock);
    }
}

#[cfg(test)]
mod tests;
