//! Stores of chunks below the host's memory, of one instance or of several.

use serde::Deserialize;

use super::limits::{MOST, on_clock, within};
use super::{Config, CopyTime, InstanceConfig};
use crate::error::Error;
use crate::time::Ticks;

/// A share of 1 in millionths.
const WHOLE: u64 = 1_000_000;

/// A store of chunks, on a disk or beyond the network.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// Chunks that fit; `None`: any number.
    pub chunks: Option<u64>,
    /// Which chunks it evicts.
    pub eviction: StoreEviction,
    /// Ticks in which it takes a block in, whichever instances write.
    pub write: Ticks,
    /// Ticks in which it gives a block out, whichever instances read.
    pub read: Ticks,
}

/// Which chunks a store evicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum StoreEviction {
    /// None: a full store takes no more.
    None,
    /// The least recently used ones, as many as are written.
    Lru,
    /// Those whose lease ended the longest ago, some at a time, as the master of Mooncake Store does.
    Lease {
        /// Ticks for which a chunk that was looked up is not evicted.
        ttl: Ticks,
        /// The use above which chunks are evicted, in millionths of the store.
        watermark: u64,
        /// The share of the chunks that is evicted at a time, in millionths.
        share: u64,
    },
}

/// The store below the host's memory of an instance, and the instance's link to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreLink {
    /// The store, by its number.
    pub store: u32,
    /// The time of a copy to the store.
    pub write: CopyTime,
    /// The time of a copy back.
    pub read: CopyTime,
    /// How chunks are read as requests join the queue; `None`: they are read as a request is looked at for admission, which
    /// waits for them.
    #[serde(default)]
    pub prefetch: Option<Prefetch>,
}

/// Reads from a store that begin as requests join the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetch {
    /// The fewest tokens that are read.
    pub least: u32,
    /// For how long a request waits for its reads.
    pub stop: PrefetchStop,
}

/// For how long a request waits for its reads, once it may be admitted otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PrefetchStop {
    /// Not at all.
    BestEffort,
    /// Until all have ended.
    WaitComplete,
    /// Until all have ended, or a time since they began is over.
    Timeout {
        /// Ticks of that time.
        base: Ticks,
        /// Further ticks for each 1,024 tokens that are read.
        per_ki_token: Ticks,
    },
}

impl PrefetchStop {
    /// The longest wait for so many tokens.
    pub(crate) fn timeout(self, tokens: u32) -> Ticks {
        match self {
            Self::BestEffort => 0,
            Self::WaitComplete => Ticks::MAX,
            Self::Timeout { base, per_ki_token } => {
                let more = u128::from(per_ki_token) * u128::from(tokens) / 1024;
                base.saturating_add(Ticks::try_from(more).unwrap_or(Ticks::MAX))
            }
        }
    }
}

impl InstanceConfig {
    /// Whether chunks are read from a store below its tier as requests join the queue.
    pub(crate) fn prefetches(&self) -> bool {
        self.below().is_some_and(|below| below.prefetch.is_some())
    }

    /// The store below its tier.
    pub(super) fn below(&self) -> Option<StoreLink> {
        self.tier.as_ref().and_then(|tier| tier.below)
    }
}

impl StoreConfig {
    fn check(&self, at: &str) -> Result<(), Error> {
        if let Some(chunks) = self.chunks {
            within(|| format!("{at}.chunks"), 1, MOST, chunks)?;
        }
        on_clock(|| format!("{at}.write"), self.write)?;
        on_clock(|| format!("{at}.read"), self.read)?;
        let StoreEviction::Lease { ttl, watermark, share } = self.eviction else { return Ok(()) };
        on_clock(|| format!("{at}.eviction.ttl"), ttl)?;
        within(|| format!("{at}.eviction.watermark"), 1, WHOLE, watermark)?;
        within(|| format!("{at}.eviction.share"), 1, WHOLE, share)
    }
}

impl Config {
    /// Whether several instances have one store.
    pub(crate) fn shares_stores(&self) -> bool {
        let mut used = vec![false; self.stores.len()];
        let mut links = self.instances.iter().filter_map(InstanceConfig::below);
        links.any(|link| std::mem::replace(&mut used[link.store as usize], true))
    }

    /// Refuses stores where clients may cancel requests.
    pub(crate) fn check_cancelled_reads(&self, cancels: bool) -> Result<(), Error> {
        match self.instances.iter().position(|instance| instance.below().is_some()) {
            Some(i) if cancels => {
                let rule = "must be null where clients cancel requests or time out, was given: a read for a request that is \
                            cancelled is not modelled";
                Err(Error::config(format!("instances[{i}].tier.below"), rule))
            }
            _ => Ok(()),
        }
    }

    /// Checks the stores, and that the instances which have one in common also have equal chunks.
    pub(super) fn check_stores(&self) -> Result<(), Error> {
        for (i, store) in self.stores.iter().enumerate() {
            store.check(&format!("stores[{i}]"))?;
        }
        let mut sizes = vec![None; self.stores.len()];
        for (i, instance) in self.instances.iter().enumerate() {
            let Some(tier) = &instance.tier else { continue };
            let Some(link) = tier.below else { continue };
            let at = format!("instances[{i}].tier.below");
            for (name, time) in [("write", link.write), ("read", link.read)] {
                on_clock(|| format!("{at}.{name}.fixed"), time.fixed)?;
                on_clock(|| format!("{at}.{name}.block"), time.block)?;
            }
            if let Some(Prefetch { stop: PrefetchStop::Timeout { base, per_ki_token }, .. }) = link.prefetch {
                on_clock(|| format!("{at}.prefetch.stop.base"), base)?;
                on_clock(|| format!("{at}.prefetch.stop.per_ki_token"), per_ki_token)?;
            }
            let Some(size) = sizes.get_mut(link.store as usize) else {
                let rule = format!("must be one of {} stores, was {}", self.stores.len(), link.store);
                return Err(Error::config(format!("{at}.store"), rule));
            };
            if tier.store_threshold > 1 {
                let rule = "must be null unless store_threshold of the tier is 0 or 1, was given";
                return Err(Error::config(at, rule));
            }
            let own = (instance.block_tokens, tier.chunk_blocks);
            if *size.get_or_insert(own) != own {
                let rule = "must be that of instances with equal block_tokens and chunk_blocks alone: one store names \
                            chunks in one way";
                return Err(Error::config(at, rule));
            }
        }
        Ok(())
    }
}
