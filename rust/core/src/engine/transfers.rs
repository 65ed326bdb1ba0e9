//! Memory on its way between instances.
//!
//! Each instance has a port that sends and receives at once. A transfer starts
//! when the sender's way out and the receiver's way in are both free, first come,
//! first served; it keeps both until its last byte, and lands a latency later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::Links;
use crate::instance::Parcel;
use crate::policy::Live;
use crate::time::{NEVER, TICKS_PER_SECOND, Ticks};

/// What a transfer carries.
#[derive(Debug)]
pub(super) enum Payload {
    /// A request that has left, and whose slot is to be freed.
    Move(Parcel),
    /// A copy of what a request has so far, which goes on running.
    Copy {
        /// The request.
        request: u32,
        /// Its preemptions when the copying began: one more ends it.
        preemptions: u32,
        /// Tokens copied once this one is there.
        copied: u32,
        /// Copies made once this one is there.
        stage: u32,
        /// The rule.
        live: Live,
    },
}

/// A transfer under way.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) source: usize,
    pub(super) slot: u32,
    pub(super) target: usize,
    pub(super) payload: Payload,
}

/// A migration under way, from the moment it was decided until the request
/// leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    pub(super) request: u32,
    pub(super) source: usize,
    pub(super) target: usize,
    /// Tokens of its KV that are at the target already.
    pub(super) copied: u32,
    /// Whether it went elsewhere while it was being copied.
    pub(super) void: bool,
}

/// All transfers under way.
#[derive(Debug)]
pub(super) struct Transfers {
    links: Option<Links>,
    /// Whole bytes a second.
    rate: u128,
    out_free: Vec<Ticks>,
    in_free: Vec<Ticks>,
    /// (when it lands, order of sending, where it is kept).
    landings: BinaryHeap<Reverse<(Ticks, u64, usize)>>,
    under_way: Vec<Option<Transfer>>,
    vacant: Vec<usize>,
    sent: u64,
    pub(super) migrations: Vec<Migration>,
}

impl Transfers {
    pub(super) fn new(links: Option<Links>, instances: usize) -> Self {
        Self {
            rate: links.map_or(1, |links| links.bytes_per_s.round().max(1.0) as u128),
            links,
            out_free: vec![0; instances],
            in_free: vec![0; instances],
            landings: BinaryHeap::new(),
            under_way: Vec::new(),
            vacant: Vec::new(),
            sent: 0,
            migrations: Vec::new(),
        }
    }

    /// When the next one lands.
    #[inline]
    pub(super) fn next(&self) -> Ticks {
        self.landings.peek().map_or(NEVER, |&Reverse((time, _, _))| time)
    }

    /// Sends `bytes`.
    pub(super) fn send(&mut self, transfer: Transfer, bytes: u64, now: Ticks) {
        let lands = match self.links {
            None => now,
            Some(links) => {
                let (out, inward) = (&mut self.out_free[transfer.source], &mut self.in_free[transfer.target]);
                let start = now.max(*out).max(*inward);
                let ticks = (u128::from(bytes) * u128::from(TICKS_PER_SECOND)).div_ceil(self.rate);
                let end = start.saturating_add(u64::try_from(ticks).unwrap_or(Ticks::MAX));
                (*out, *inward) = (end, end);
                end.saturating_add(links.latency)
            }
        };
        let index = self.vacant.pop().unwrap_or_else(|| {
            self.under_way.push(None);
            self.under_way.len() - 1
        });
        self.under_way[index] = Some(transfer);
        self.landings.push(Reverse((lands, self.sent, index)));
        self.sent += 1;
    }

    /// One that lands by `now`.
    pub(super) fn pop(&mut self, now: Ticks) -> Option<Transfer> {
        let &Reverse((time, _, index)) = self.landings.peek()?;
        if time > now {
            return None;
        }
        self.landings.pop();
        self.vacant.push(index);
        self.under_way[index].take()
    }

    /// Requests that are on their way.
    pub(super) fn on_their_way(&self) -> impl Iterator<Item = &Parcel> {
        self.under_way.iter().flatten().filter_map(|transfer| match &transfer.payload {
            Payload::Move(parcel) => Some(parcel),
            Payload::Copy { .. } => None,
        })
    }
}
