//! A link between the GPU and the host, which makes one copy after the other.
//!
//! Links of one instance are independent of each other. They are not media of the network: a transfer there takes the
//! earliest interval in which several media are free, and a copy here never overtakes another.

use crate::config::CopyTime;
use crate::time::Ticks;

/// When a copy is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) begins: Ticks,
    pub(crate) ends: Ticks,
}

/// A link, first in, first out.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    time: CopyTime,
    /// When its last copy ends.
    free: Ticks,
}

impl Link {
    pub(crate) fn new(time: CopyTime) -> Self {
        Self { time, free: 0 }
    }

    /// When its last copy ends.
    pub(crate) fn free(&self) -> Ticks {
        self.free
    }

    /// Copies so many blocks after all copies before, and not before `now`.
    pub(crate) fn send(&mut self, blocks: u64, now: Ticks) -> Interval {
        let begins = now.max(self.free);
        self.free = begins.saturating_add(self.time.of(blocks));
        Interval { begins, ends: self.free }
    }

    /// Likewise, where `other` carries the same blocks in the order in which they are sent: the copy ends once both have
    /// made it.
    pub(crate) fn send_through(&mut self, other: &mut Self, blocks: u64, now: Ticks) -> Interval {
        let Interval { begins, ends } = self.send(blocks, now);
        self.free = ends.max(other.send(blocks, now).ends);
        Interval { begins, ends: self.free }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_follow_one_another() {
        let mut link = Link::new(CopyTime { fixed: 10, block: 3 });
        assert_eq!(link.send(2, 100), Interval { begins: 100, ends: 116 });
        assert_eq!((link.free(), link.send(1, 105)), (116, Interval { begins: 116, ends: 129 }));
        assert_eq!(link.send(1, 200), Interval { begins: 200, ends: 213 });
    }

    #[test]
    fn a_copy_over_two_links_ends_with_the_later_one() {
        let (mut link, mut slow) =
            (Link::new(CopyTime { fixed: 10, block: 3 }), Link::new(CopyTime { fixed: 50, block: 0 }));
        assert_eq!(link.send_through(&mut slow, 2, 100), Interval { begins: 100, ends: 150 });
        assert_eq!(link.send(1, 100), Interval { begins: 150, ends: 163 });
        let mut fast = Link::new(CopyTime { fixed: 1, block: 0 });
        assert_eq!(link.send_through(&mut fast, 2, 200), Interval { begins: 200, ends: 216 });
    }
}
