//! A medium: one direction of a port, an uplink, a fabric, or the way between two instances.

use super::free_time::FreeTime;
use super::rate::Rate;
use crate::config::Speed;
use crate::metrics::MediumStats;
use crate::time::Ticks;

/// A medium, which carries one transfer at a time.
#[derive(Debug)]
pub(super) struct Medium {
    /// Its name in results.
    name: String,
    /// Bytes a second.
    rate: Rate,
    /// Measured times: bytes and ticks.
    curve: Vec<(u64, Ticks)>,
    /// Ticks from the last byte sent to the last byte received.
    pub(super) latency: Ticks,
    /// When it is free.
    pub(super) free: FreeTime,
    /// Transfers sent over it.
    transfers: u64,
    /// Their bytes.
    bytes: u64,
    /// The time that they take.
    taken: Ticks,
}

crate::checkpoint::checkpointed!(Medium {
    values: free, transfers, bytes, taken;
    fixed: name, rate, curve, latency;
});

impl Medium {
    /// A medium that has carried nothing.
    pub(super) fn new(name: String, speed: &Speed) -> Self {
        Self {
            name,
            rate: Rate::new(speed.bytes_per_s),
            curve: speed.curve.clone(),
            latency: speed.latency,
            free: FreeTime::new(),
            transfers: 0,
            bytes: 0,
            taken: 0,
        }
    }

    /// The ticks that a message occupies the medium, rounded up; none without bytes.
    pub(super) fn time(&self, bytes: u64) -> Ticks {
        let right = self.curve.partition_point(|&(size, _)| size < bytes);
        match (right.checked_sub(1).map(|left| self.curve[left]), self.curve.get(right)) {
            _ if bytes == 0 => 0,
            (None, None) => self.rate.ticks(bytes),
            (None, Some(&(_, ticks))) => ticks,
            (Some((size, ticks)), None) => ticks.saturating_add(self.rate.ticks(bytes - size)),
            (Some((size, ticks)), Some(&(next_size, next_ticks))) => {
                let rise = u128::from(next_ticks - ticks) * u128::from(bytes - size);
                // At most the difference of the two times, which fits.
                ticks + rise.div_ceil(u128::from(next_size - size)) as Ticks
            }
        }
    }

    /// Occupies the medium for a transfer.
    pub(super) fn occupy(&mut self, start: Ticks, duration: Ticks, bytes: u64) {
        self.transfers += 1;
        self.bytes = self.bytes.saturating_add(bytes);
        self.taken = self.taken.saturating_add(duration);
        if duration > 0 {
            self.free.take(start, duration);
        }
    }

    /// The counters at the end of a replay.
    pub(super) fn stats(&self, end: Ticks) -> MediumStats {
        MediumStats {
            medium: self.name.clone(),
            transfers: self.transfers,
            bytes: self.bytes,
            busy_ticks: self.taken.saturating_sub(self.free.taken_from(end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::TICKS_PER_SECOND;

    fn time(curve: &[(u64, Ticks)], bytes: u64) -> Ticks {
        let bytes_per_s = 2.0 * TICKS_PER_SECOND as f64;
        Medium::new(String::new(), &Speed { bytes_per_s, latency: 7, curve: curve.to_vec() }).time(bytes)
    }

    #[test]
    fn bytes_take_their_time_at_the_rate_rounded_up() {
        assert_eq!([0, 1, 2, 3].map(|bytes| time(&[], bytes)), [0, 1, 1, 2]);
        assert_eq!(time(&[], u64::MAX), u64::MAX / 2 + 1);
    }

    #[test]
    fn measured_times_hold_up_to_the_largest_message() {
        let curve = [(10, 100), (14, 106), (20, 106)];
        // 4 bytes more take 6 ticks more: 1.5 ticks each, rounded up.
        let of = [0, 1, 10, 11, 12, 13, 14, 17, 20, 21, 24].map(|bytes| time(&curve, bytes));
        assert_eq!(of, [0, 100, 100, 102, 103, 105, 106, 106, 106, 107, 108]);
    }
}
