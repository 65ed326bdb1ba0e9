//! Reads from the store below a tier that begin as requests join the queue.
//!
//! Follows `prefetch_from_storage` and `check_prefetch_progress` of `srt/mem_cache/unified_radix_cache.py` in `SGLang` 0.5.23. As
//! a step is formed, the chunks of each request that has joined the queue since the one before are looked for in the GPU's
//! prefix cache, then in the tier, then in the store. A request that is looked at for admission waits for its reads as the
//! stop rule says, and then has what has been read. Each chunk is a copy of its own.

use super::HostTier;
use crate::config::PrefetchStop;
use crate::kv::{ContentOwner, Found, Memory};
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// Until when a request waits for reads of so many tokens that begin at `now` and end at `ends`.
fn until(stop: PrefetchStop, tokens: u32, now: Ticks, ends: Ticks) -> Ticks {
    match stop {
        PrefetchStop::BestEffort => now,
        PrefetchStop::WaitComplete => ends,
        PrefetchStop::Timeout { base, per_ki_token } => {
            let more = u128::from(per_ki_token) * u128::from(tokens) / 1024;
            let more = Ticks::try_from(more).unwrap_or(Ticks::MAX);
            now.saturating_add(base).saturating_add(more).min(ends)
        }
    }
}

impl HostTier {
    /// Whether chunks are read from the store below as requests join the queue.
    pub(in crate::instance) fn prefetches(&self) -> bool {
        self.links.below.as_deref().is_some_and(|below| below.prefetch.is_some())
    }

    /// A request joins the queue.
    pub(in crate::instance) fn join_queue(&mut self, request: RequestNumber) {
        if let Some(below) = self.links.below.as_deref_mut().filter(|below| below.prefetch.is_some()) {
            below.joined.push(request);
        }
    }

    /// The requests that have joined the queue since the last call.
    pub(in crate::instance) fn take_joined(&mut self) -> Vec<RequestNumber> {
        self.links.below.as_deref_mut().map(|below| std::mem::take(&mut below.joined)).unwrap_or_default()
    }

    /// Begins to read the chunks that the store has of a request's `tokens` tokens after what the prefix cache, with its
    /// `cached` tokens, and the tier have, if they are enough.
    pub(in crate::instance) fn prefetch(
        &mut self,
        (request, owner): (RequestNumber, ContentOwner),
        (tokens, cached): (u32, u32),
        memory: &Memory,
    ) {
        let (size, now) = (self.chunk_tokens(), self.log.step.start);
        let places = cached / size..self.chunks_sought(tokens);
        let chunks: Vec<_> = places.map(|at| self.chunk(owner, at, memory)).collect();
        let there = chunks.iter().take_while(|chunk| self.store.find(chunk.key) != Found::Missing).count();
        let Some(below) = self.links.below.as_deref_mut() else { return };
        let Some(prefetch) = below.prefetch else { return };
        let mut found = Vec::new();
        for &chunk in &chunks[there..] {
            if self.store.find(chunk.key) == Found::Missing {
                if !below.store.get().look_up(chunk.key, now) {
                    break;
                }
                found.push(chunk);
            }
        }
        let sought = found.len() as u32 * size;
        if found.is_empty() || sought < prefetch.least {
            return;
        }
        let mut early = std::mem::take(below.early.entry(request).or_default());
        let mut ends = now;
        for chunk in found {
            if self.store.store(&[chunk], &mut early.access).is_none() {
                below.stats.refused_reads += 1;
                break;
            }
            early.fetched.push(chunk.at);
            ends = below.read_keys(vec![chunk.key], self.config.chunk_blocks, now);
        }
        early.until = until(prefetch.stop, sought, now, ends);
        below.early.insert(request, early);
        self.stats.peak_chunks = self.stats.peak_chunks.max(self.store.used());
    }

    /// Whether a request waits for its reads.
    pub(in crate::instance) fn awaits_reads(&self, request: RequestNumber) -> bool {
        let early = self.links.below.as_deref().and_then(|below| below.early.get(&request));
        early.is_some_and(|early| early.until > self.log.step.start)
    }

    /// When the next request stops waiting for its reads.
    pub(super) fn next_stop(&self) -> Option<Ticks> {
        let below = self.links.below.as_deref().filter(|below| below.prefetch.is_some())?;
        below.early.values().map(|early| early.until).filter(|&until| until > self.log.step.start).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_rule_says_how_long_a_request_waits() {
        assert_eq!(until(PrefetchStop::BestEffort, 2048, 10, 500), 10);
        assert_eq!(until(PrefetchStop::WaitComplete, 2048, 10, 500), 500);
        let stop = PrefetchStop::Timeout { base: 100, per_ki_token: 7 };
        assert_eq!([2048, 512].map(|tokens| until(stop, tokens, 10, 500)), [124, 113]);
        assert_eq!(until(stop, 2048, 10, 90), 90, "all have been read before");
    }
}
