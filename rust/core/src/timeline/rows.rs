//! A timeline as columns.

use super::{Reading, State, Sums};
use crate::time::Ticks;

/// One row a sample and instance: by moment, then by instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows {
    /// Ticks between two samples; the interval before the end of the replay may be shorter.
    pub every: Ticks,
    /// The moments of the samples.
    pub times: Vec<Ticks>,
    /// The number of instances.
    pub instances: usize,
    /// The readings, row by row.
    readings: Vec<Reading>,
}

impl Rows {
    /// Rows of so many instances at these moments. `readings`: as of each moment, by instance.
    pub(super) fn new(every: Ticks, times: Vec<Ticks>, instances: usize, readings: Vec<Reading>) -> Self {
        debug_assert_eq!(times.len() * instances, readings.len(), "Invariant: one reading an instance");
        Self { every, times, instances, readings }
    }

    /// The sums at the start of a row's interval.
    fn before(&self, row: usize) -> Sums {
        row.checked_sub(self.instances).map_or_else(Sums::default, |before| self.readings[before].sums)
    }

    /// The columns of whole numbers: states at the moment, then sums over the interval that ends there.
    pub fn whole(&self) -> impl Iterator<Item = (&'static str, Vec<u64>)> + '_ {
        let states = State::STATES.iter().map(|(name, of)| {
            let values = self.readings.iter().map(|reading| of(&reading.state));
            (*name, values.collect())
        });
        let counts = Sums::COUNTS.iter().map(|(name, of)| {
            let rows = self.readings.iter().enumerate();
            (*name, rows.map(|(row, reading)| of(&reading.sums) - of(&self.before(row))).collect())
        });
        states.chain(counts)
    }

    /// The columns of large sums over the interval, rounded to 64-bit floating-point numbers: the difference is exact, and
    /// rounded once.
    pub fn large(&self) -> impl Iterator<Item = (&'static str, Vec<f64>)> + '_ {
        Sums::LARGE.iter().map(|(name, of)| {
            let rows = self.readings.iter().enumerate();
            let values = rows.map(|(row, reading)| (of(&reading.sums) - of(&self.before(row))) as f64);
            (*name, values.collect())
        })
    }
}
