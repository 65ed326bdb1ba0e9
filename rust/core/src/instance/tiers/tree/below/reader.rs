//! The reads of an instance, which are made one after the other.

use std::collections::{BTreeMap, VecDeque};

use super::{BATCH, Read, StoreLinks};
use crate::time::Ticks;

/// The reads that are to be made, by their numbers.
#[derive(Debug, Default)]
pub(super) struct Reader {
    /// The first is in progress.
    queue: VecDeque<u32>,
    /// When its batch ends, and the blocks of that.
    batch: Option<(Ticks, usize)>,
    /// Those that have ended since the last look.
    pub(super) ended: Vec<u32>,
}

impl Reader {
    /// Adds a read.
    pub(super) fn push(
        &mut self,
        id: u32,
        reads: &mut BTreeMap<u32, Read>,
        links: &mut StoreLinks,
        now: Ticks,
    ) {
        self.queue.push_back(id);
        if self.batch.is_none() {
            self.begin_batch(reads, links, now);
        }
    }

    /// Ends the batches that have ended by `now`, and begins those after them.
    pub(super) fn advance(&mut self, reads: &mut BTreeMap<u32, Read>, links: &mut StoreLinks, now: Ticks) {
        while let Some((ends, blocks)) = self.batch.filter(|&(ends, _)| ends <= now) {
            if let Some(read) = self.queue.front().and_then(|id| reads.get_mut(id)) {
                read.done += blocks;
            }
            self.begin_batch(reads, links, ends);
        }
    }

    /// Begins the next batch, if there is one: of the same read, unless it is over.
    fn begin_batch(&mut self, reads: &mut BTreeMap<u32, Read>, links: &mut StoreLinks, now: Ticks) {
        self.batch = None;
        while let Some((&id, read)) = self.queue.front().and_then(|id| Some((id, reads.get_mut(id)?))) {
            if read.short || read.kept.is_some() || read.done == read.contents.len() {
                self.ended.push(id);
                self.queue.pop_front();
                continue;
            }
            let batch = read.contents[read.done..].iter().take(BATCH).map(|content| content.key());
            let wanted = batch.len();
            let keys: Vec<_> = batch.take_while(|&key| links.has(key, now)).collect();
            read.short = keys.len() < wanted;
            if !keys.is_empty() {
                self.batch = Some((links.read(&keys, now), keys.len()));
                return;
            }
        }
    }

    /// When the batch in progress ends.
    pub(super) fn next_end(&self) -> Option<Ticks> {
        self.batch.map(|(ends, _)| ends)
    }
}
