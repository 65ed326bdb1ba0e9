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

/// A column of states: its name, and its values by row.
type StateColumn = (&'static str, fn(&State) -> u64);
/// A column of sums over the interval that ends at the moment.
type CountColumn = (&'static str, fn(&Sums) -> u64);
/// The same, of numbers that 64 bits may not hold.
type LargeColumn = (&'static str, fn(&Sums) -> u128);

/// The columns of states.
const STATES: &[StateColumn] = &[
    ("running", |state| state.running),
    ("waiting", |state| state.waiting),
    ("swapped", |state| state.swapped),
    ("incoming", |state| state.incoming),
    ("kv_used_blocks", |state| state.kv_used_blocks),
    ("kv_cached_blocks", |state| state.kv_cached_blocks),
    ("kv_sending_blocks", |state| state.kv_sending_blocks),
    ("kv_receiving_blocks", |state| state.kv_receiving_blocks),
    ("kv_tokens", |state| state.kv_tokens),
    ("batch_requests", |state| state.batch_requests),
    ("batch_tokens", |state| state.batch_tokens),
    ("step_ticks", |state| state.step_ticks),
    ("role", |state| u64::from(state.role)),
];

/// The columns of sums.
const COUNTS: &[CountColumn] = &[
    ("steps", |sums| sums.steps),
    ("busy_ticks", |sums| sums.busy_ticks),
    ("prefill_tokens", |sums| sums.prefill_tokens),
    ("decode_tokens", |sums| sums.decode_tokens),
    ("finished", |sums| sums.finished),
    ("dropped", |sums| sums.dropped),
    ("preemptions", |sums| sums.preemptions),
    ("sent", |sums| sums.sent),
    ("received", |sums| sums.received),
    ("swapped_out_blocks", |sums| sums.swapped_out_blocks),
    ("swapped_in_blocks", |sums| sums.swapped_in_blocks),
    ("prefix_queries", |sums| sums.prefix_queries),
    ("prefix_hits", |sums| sums.prefix_hits),
    ("evictions", |sums| sums.evictions),
];

/// The columns of large sums, which are rounded to 64-bit floating-point numbers.
const LARGE: &[LargeColumn] = &[
    ("running_ticks", |sums| sums.running_ticks),
    ("queued_ticks", |sums| sums.queued_ticks),
    ("kv_token_ticks", |sums| sums.kv_token_ticks),
    ("hbm_bytes", |sums| sums.hbm_bytes),
    ("flops", |sums| sums.flops),
    ("link_bytes", |sums| sums.link_bytes),
    ("energy_aj", |sums| sums.energy_aj),
];

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
        let states = STATES.iter().map(|(name, of)| {
            let values = self.readings.iter().map(|reading| of(&reading.state));
            (*name, values.collect())
        });
        let counts = COUNTS.iter().map(|(name, of)| {
            let rows = self.readings.iter().enumerate();
            (*name, rows.map(|(row, reading)| of(&reading.sums) - of(&self.before(row))).collect())
        });
        states.chain(counts)
    }

    /// The columns of large sums over the interval. The difference is exact, and rounded once.
    pub fn large(&self) -> impl Iterator<Item = (&'static str, Vec<f64>)> + '_ {
        LARGE.iter().map(|(name, of)| {
            let rows = self.readings.iter().enumerate();
            let values = rows.map(|(row, reading)| (of(&reading.sums) - of(&self.before(row))) as f64);
            (*name, values.collect())
        })
    }
}
