//! Reads from the store below a tier that begin as requests join the queue.
//!
//! Follows `prefetch_from_storage` and `check_prefetch_progress` of `srt/mem_cache/unified_radix_cache.py` in `SGLang` 0.5.23. As
//! a step is formed, the chunks of each request that has joined the queue since the one before are looked for in the GPU's
//! prefix cache, then in the tier, then in the store. A request that is looked at for admission waits for its reads as the
//! stop rule says, and then has what has been read. Each chunk is a copy of its own.

use std::collections::BTreeMap;

use crate::config::{Prefetch, PrefetchStop};
use crate::kv::StoredChunk;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The requests for which chunks are to be read, and those that wait for their reads.
#[derive(Debug)]
pub(super) struct Prefetching {
    rules: Prefetch,
    /// Requests that have joined the queue since a step was formed.
    joined: Vec<RequestNumber>,
    /// Until when requests wait that have not been admitted.
    until: BTreeMap<RequestNumber, Ticks>,
}

impl Prefetching {
    pub(super) fn new(rules: Prefetch) -> Self {
        Self { rules, joined: Vec::new(), until: BTreeMap::new() }
    }

    /// A request joins the queue.
    pub(super) fn join(&mut self, request: RequestNumber) {
        self.joined.push(request);
    }

    /// The requests that have joined the queue since the last call.
    pub(super) fn take_joined(&mut self) -> Vec<RequestNumber> {
        std::mem::take(&mut self.joined)
    }

    /// Those of a request's chunks that are to be read, if they are enough: the ones that the tier lacks and the store has,
    /// up to the first that neither has. A chunk has `size` tokens.
    pub(super) fn wanted(
        &self,
        chunks: &[StoredChunk],
        size: u32,
        lacks: impl Fn(&StoredChunk) -> bool,
        is_below: impl Fn(&StoredChunk) -> bool,
    ) -> Vec<StoredChunk> {
        let lacking = chunks.iter().filter(|chunk| lacks(chunk));
        let found: Vec<_> = lacking.take_while(|chunk| is_below(chunk)).copied().collect();
        if found.len() as u32 * size < self.rules.least { Vec::new() } else { found }
    }

    /// Notes that reads of so many tokens for a request begin at `now` and end at `ends`.
    pub(super) fn begin(&mut self, request: RequestNumber, tokens: u32, now: Ticks, ends: Ticks) {
        self.until.insert(request, until(self.rules.stop, tokens, now, ends));
    }

    /// A request is admitted.
    pub(super) fn admit(&mut self, request: RequestNumber) {
        self.until.remove(&request);
    }

    /// Whether a request waits for its reads.
    pub(super) fn awaits(&self, request: RequestNumber, now: Ticks) -> bool {
        self.until.get(&request).is_some_and(|&until| until > now)
    }

    /// When the next request stops waiting for its reads.
    pub(super) fn next_stop(&self, now: Ticks) -> Option<Ticks> {
        self.until.values().copied().filter(|&until| until > now).min()
    }
}

/// Until when a request waits for reads of so many tokens that begin at `now` and end at `ends`.
fn until(stop: PrefetchStop, tokens: u32, now: Ticks, ends: Ticks) -> Ticks {
    match stop {
        PrefetchStop::BestEffort => now,
        PrefetchStop::WaitComplete => ends,
        PrefetchStop::Timeout { .. } => now.saturating_add(stop.timeout(tokens)).min(ends),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefetching(least: u32) -> Prefetching {
        Prefetching::new(Prefetch { least, stop: PrefetchStop::WaitComplete })
    }

    #[test]
    fn a_stop_rule_says_how_long_a_request_waits() {
        assert_eq!(until(PrefetchStop::BestEffort, 2048, 10, 500), 10);
        assert_eq!(until(PrefetchStop::WaitComplete, 2048, 10, 500), 500);
        let stop = PrefetchStop::Timeout { base: 100, per_ki_token: 7 };
        assert_eq!([2048, 512].map(|tokens| until(stop, tokens, 10, 500)), [124, 113]);
        assert_eq!(until(stop, 2048, 10, 90), 90, "all have been read before");
    }

    #[test]
    fn chunks_are_read_up_to_the_first_that_neither_has() {
        let chunks: Vec<_> = (0..6).map(|at| StoredChunk { at, key: u64::from(at) }).collect();
        let places = |least, tier: &[u32], store: &[u32]| -> Vec<u32> {
            let (lacks, is_below) = (
                |chunk: &StoredChunk| !tier.contains(&chunk.at),
                |chunk: &StoredChunk| store.contains(&chunk.at),
            );
            prefetching(least).wanted(&chunks, 16, lacks, is_below).iter().map(|chunk| chunk.at).collect()
        };
        assert_eq!(places(0, &[0, 2], &[1, 3, 5]), [1, 3], "neither has the fourth");
        assert_eq!(places(32, &[0, 2], &[1, 3, 5]), [1, 3]);
        assert_eq!(places(33, &[0, 2], &[1, 3, 5]), [0; 0], "two chunks of 16 tokens are too few");
        assert_eq!(places(0, &[0, 1, 2, 3, 4, 5], &[0, 1]), [0; 0], "the tier has all");
    }

    #[test]
    fn a_request_waits_until_its_reads_end_or_it_is_admitted() {
        let (mut prefetching, [one, other]) = (prefetching(0), [4, 2].map(RequestNumber));
        prefetching.join(one);
        prefetching.join(other);
        assert_eq!((prefetching.take_joined(), prefetching.take_joined()), (vec![one, other], vec![]));
        prefetching.begin(one, 16, 10, 70);
        prefetching.begin(other, 16, 10, 50);
        assert_eq!([10, 50, 70].map(|now| prefetching.next_stop(now)), [Some(50), Some(70), None]);
        assert_eq!([10, 50].map(|now| prefetching.awaits(other, now)), [true, false]);
        prefetching.admit(one);
        assert!(!prefetching.awaits(one, 10));
        assert_eq!(prefetching.next_stop(50), None);
    }
}
