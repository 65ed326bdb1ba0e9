//! The instances over time: what each of them was in, and had done, at equally spaced moments.
//!
//! A timeline keeps [`Reading`]s. It knows no instances: the engine asks it when the next sample is due ([`Timeline::next`]),
//! and gives it a reading of each instance ([`Timeline::push`]). A sample is the state after all events of its moment.
//!
//! Sums are kept as of the start of the replay, so that the sum over any interval is a difference of two readings. That
//! bounds the memory without losing exactness: when a timeline is full, every second sample is dropped, and the interval
//! doubles. The rows are those that a replay with the doubled interval would have from the start.

mod reading;
mod rows;

pub use reading::{Reading, State, Sums};
pub use rows::Rows;

use serde::{Deserialize, Serialize};

use crate::time::{NEVER, Ticks};

/// When a replay is sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Ticks between two samples, until there are `most` of them.
    pub every: Ticks,
    /// The most samples; one more at the end of the replay, if that is between two.
    pub most: u64,
}

/// The samples of all instances so far, and the moment of the next.
#[derive(Debug, Serialize, Deserialize)]
pub struct Timeline {
    /// Ticks between two samples.
    every: Ticks,
    /// The most samples: an even number.
    most: usize,
    /// The number of instances.
    instances: usize,
    /// The readings of the samples, instance by instance; sample `i` is of the moment `(i + 1) * every`.
    readings: Vec<Reading>,
    /// The readings at the end of the replay, and when that was, if it was between two samples.
    end: Option<(Ticks, Vec<Reading>)>,
}

impl Timeline {
    /// A timeline of so many instances, without samples.
    pub fn new(sample: Sample, instances: usize) -> Self {
        // An odd number of samples could not be halved so that the next one follows the last that is kept.
        let most = (sample.most as usize & !1).max(2);
        Self { every: sample.every.max(1), most, instances, readings: Vec::new(), end: None }
    }

    /// The number of samples.
    fn samples(&self) -> usize {
        self.readings.len() / self.instances.max(1)
    }

    /// When the next sample is due; [`NEVER`] if that is past the clock's range.
    pub fn next(&self) -> Ticks {
        (self.samples() as u64 + 1).checked_mul(self.every).unwrap_or(NEVER)
    }

    /// Makes room for the sample that is due, if there is none. It may be due later then, see [`Self::next`].
    pub fn make_room(&mut self) {
        if self.samples() < self.most {
            return;
        }
        let instances = self.instances.max(1);
        for kept in 0..self.most / 2 {
            let from = (2 * kept + 1) * instances;
            self.readings.copy_within(from..from + instances, kept * instances);
        }
        self.readings.truncate(self.most / 2 * instances);
        self.every = self.every.saturating_mul(2);
    }

    /// Adds the sample that is due: a reading of each instance, by index.
    pub fn push(&mut self, readings: impl Iterator<Item = Reading>) {
        self.readings.extend(readings);
        debug_assert_eq!(
            self.readings.len() % self.instances.max(1),
            0,
            "Invariant: one reading an instance"
        );
    }

    /// Adds the readings at the end of the replay, `now`, unless that is the moment of the last sample.
    pub fn finish(&mut self, now: Ticks, readings: impl Iterator<Item = Reading>) {
        if now > self.samples() as u64 * self.every {
            self.end = Some((now, readings.collect()));
        }
    }

    /// The rows: for each sample, one of each instance.
    pub fn rows(&self) -> Rows {
        let end = self.end.as_ref();
        let times = (1..=self.samples() as u64).map(|k| k * self.every).chain(end.map(|end| end.0));
        let readings = self.readings.iter().chain(end.iter().flat_map(|end| &end.1));
        Rows::new(self.every, times.collect(), self.instances, readings.copied().collect())
    }
}

#[cfg(test)]
mod tests;
