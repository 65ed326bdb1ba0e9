//! Which instance's step ends next.
//!
//! A tournament tree over the instances' times: the earliest is at the root,
//! and changing one costs the logarithm of their number. Equal times go to the
//! lowest index.

use crate::time::{NEVER, Ticks};

#[derive(Debug)]
pub(crate) struct Calendar {
    /// Leaves, a power of two.
    width: usize,
    times: Vec<Ticks>,
    /// `winner[node]` is the index of the earliest below it; the root is 1.
    winner: Vec<u32>,
}

impl Calendar {
    pub(crate) fn new(n: usize) -> Self {
        let width = n.next_power_of_two();
        let mut winner = vec![0; 2 * width];
        for i in 0..width {
            winner[width + i] = i as u32;
        }
        for node in (1..width).rev() {
            winner[node] = winner[2 * node];
        }
        Self { width, times: vec![NEVER; width], winner }
    }

    /// The earliest time and whose it is.
    #[inline]
    pub(crate) fn first(&self) -> (Ticks, usize) {
        let index = self.winner[1] as usize;
        (self.times[index], index)
    }

    /// Sets an instance's time.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, time: Ticks) {
        self.times[index] = time;
        let mut node = usize::midpoint(self.width, index);
        while node >= 1 {
            let (left, right) = (self.winner[2 * node], self.winner[2 * node + 1]);
            let earlier = self.times[left as usize] <= self.times[right as usize];
            self.winner[node] = if earlier { left } else { right };
            node /= 2;
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
            }
        }
    }
}
