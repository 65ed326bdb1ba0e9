//! The media of a tier: its links to the GPU, and the store below it.

use super::below::Below;
use super::jobs::Kind;
use crate::config::TierConfig;
use crate::kv::{Interval, Link};
use crate::time::Ticks;

/// The media of a tier.
#[derive(Debug)]
pub(super) struct Links {
    /// Copies to the tier, loads for which requests wait, and loads before a forward pass.
    copies: [Link; 3],
    /// The store below the tier, if there is one.
    pub(super) below: Option<Box<Below>>,
}

impl Links {
    pub(super) fn new(config: &TierConfig) -> Self {
        Self { copies: [config.store, config.load, config.load].map(Link::new), below: None }
    }

    /// Copies blocks between the GPU and the tier.
    pub(super) fn send(&mut self, kind: Kind, blocks: u64, now: Ticks) -> Interval {
        self.copies[kind as usize].send(blocks, now)
    }
}
