//! Which instance's step ends next.
//!
//! A tournament tree over the instances' times: the earliest is at the root,
//! and changing one costs the logarithm of their number. Equal times go to the
//! lowest index.

use std::hint::select_unpredictable;

use crate::time::{NEVER, Ticks};

#[derive(Debug)]
pub(crate) struct Calendar {
    /// Leaves, a power of two.
    width: usize,
    /// The earliest below each node, time first, then whose it is: one number,
    /// so that which is earlier needs no branch. The root is 1.
    nodes: Vec<u128>,
}

#[inline]
fn node(time: Ticks, index: usize) -> u128 {
    u128::from(time) << 32 | u128::from(index as u32)
}

#[inline]
fn time(node: u128) -> Ticks {
    (node >> 32) as Ticks
}

impl Calendar {
    pub(crate) fn new(n: usize) -> Self {
        let width = n.next_power_of_two();
        let mut nodes = vec![0; 2 * width];
        for i in 0..width {
            nodes[width + i] = node(NEVER, i);
        }
        for i in (1..width).rev() {
            nodes[i] = nodes[2 * i];
        }
        Self { width, nodes }
    }

    /// The earliest time and whose it is.
    #[inline]
    pub(crate) fn first(&self) -> (Ticks, usize) {
        (time(self.nodes[1]), self.nodes[1] as u32 as usize)
    }

    /// Whether all others come later than `time`.
    #[inline]
    pub(crate) fn others_are_after(&self, index: usize, time: Ticks) -> bool {
        let (mut at, after) = (self.width + index, node(time, usize::MAX));
        while at > 1 {
            if self.nodes[at ^ 1] <= after {
                return false;
            }
            at /= 2;
        }
        true
    }

    /// Sets an instance's time.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, time: Ticks) {
        let mut at = self.width + index;
        let mut first = node(time, index);
        self.nodes[at] = first;
        while at > 1 {
            let other = self.nodes[at ^ 1];
            first = select_unpredictable(other < first, other, first);
            at /= 2;
            self.nodes[at] = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_equals_a_scan(
            n in 1usize..20, sets in prop::collection::vec((0usize..20, 0u64..10), 1..60),
        ) {
            let mut calendar = Calendar::new(n);
            let mut times = vec![NEVER; n];
            for (index, time) in sets {
                let index = index % n;
                calendar.set(index, time);
                times[index] = time;
                let least = *times.iter().min().unwrap();
                let first = times.iter().position(|&t| t == least).unwrap();
                prop_assert_eq!(calendar.first(), (least, first));
                let mut others = times.iter().enumerate().filter(|(other, _)| *other != index);
                prop_assert_eq!(calendar.others_are_after(index, time), others.all(|(_, &other)| other > time));
            }
        }
    }
}
