//! Recorded steps, column by column.
//!
//! A list of values a step is one column of all values and one of where each step's end. So a recorded request takes 13 bytes
//! and a step some 70, in a few allocations.

use serde::{Serialize, Serializer};

use super::step_record::{Part, StepRecord};
use crate::time::Ticks;

/// The steps of one instance, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepColumns {
    /// When each started.
    pub start: Vec<Ticks>,
    /// How long each took, the copies before it included.
    pub ticks: Vec<Ticks>,
    /// Blocks copied to the CPU's memory.
    pub copied_out: Vec<u64>,
    /// Blocks copied from the CPU's memory.
    pub copied_in: Vec<u64>,
    /// Free blocks once it was formed.
    pub free_blocks: Vec<u64>,
    /// The group of layers that ran prefills, and the number of groups.
    groups: Vec<Option<(u32, u32)>>,
    /// Where the requests of each step end in the next columns.
    pub scheduled_ends: Vec<u64>,
    /// The requests that ran, in the order of admission.
    pub requests: Vec<u32>,
    /// Their tokens in the step.
    pub tokens: Vec<u32>,
    /// Their tokens computed before.
    before: Vec<u32>,
    /// Why they ran.
    parts: Vec<Part>,
    /// The columns that few schedulers have.
    rare: RareColumns,
    /// Where the preempted requests of each step end in the next column.
    pub preempted_ends: Vec<u64>,
    /// Requests preempted while a step was formed, in order.
    pub preempted: Vec<u32>,
}

/// Columns that few schedulers have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct RareColumns {
    /// When each step was decided, where steps are decided ahead.
    decided: Vec<Ticks>,
    /// The drafts of each request, where tokens are drafted.
    drafted: Vec<(u32, i32, u32)>,
}

impl StepColumns {
    /// Number of steps.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Replaces the number of each request by its row in the trace, which `origins` has for it.
    pub(crate) fn restore(&mut self, origins: &[u32]) {
        for request in self.requests.iter_mut().chain(&mut self.preempted) {
            *request = origins[*request as usize];
        }
    }

    /// Whether each recorded request decoded.
    pub fn decodes(&self) -> impl Iterator<Item = bool> + '_ {
        self.parts.iter().map(|part| matches!(part, Part::Decode | Part::SwappedInDecode | Part::MigratedIn))
    }

    /// Adds the step that comes `later` steps after `first` in its run, which ends with so many free blocks.
    pub(super) fn push(
        &mut self,
        first: &StepRecord,
        later: u64,
        (start, ticks): (Ticks, Ticks),
        decided: Option<Ticks>,
        free_blocks: u64,
    ) {
        self.rare.decided.extend(decided);
        self.start.push(start);
        self.ticks.push(ticks);
        self.free_blocks.push(free_blocks);
        self.groups.push(first.group);
        let is_first = later == 0;
        let copied = if is_first { first.copied } else { (0, 0) };
        self.copied_out.push(copied.0);
        self.copied_in.push(copied.1);
        for &(request, tokens, before, part) in &first.scheduled {
            self.requests.push(request);
            self.tokens.push(tokens);
            self.before.push(before + later as u32);
            self.parts.push(if is_first { part } else { Part::Decode });
        }
        self.rare.drafted.extend_from_slice(&first.drafted);
        if is_first {
            self.preempted.extend_from_slice(&first.preempted);
        }
        self.scheduled_ends.push(self.requests.len() as u64);
        self.preempted_ends.push(self.preempted.len() as u64);
    }

    /// A step.
    pub fn record(&self, at: usize) -> StepRecord {
        let range = |ends: &[u64]| {
            let from = at.checked_sub(1).map_or(0, |before| ends[before]);
            from as usize..ends[at] as usize
        };
        let scheduled = range(&self.scheduled_ends)
            .map(|i| (self.requests[i], self.tokens[i], self.before[i], self.parts[i]))
            .collect();
        let drafted = self.rare.drafted.get(range(&self.scheduled_ends)).map_or_else(Vec::new, <[_]>::to_vec);
        StepRecord {
            drafted,
            start: self.start[at],
            decided: self.rare.decided.get(at).copied(),
            ticks: self.ticks[at],
            scheduled,
            preempted: self.preempted[range(&self.preempted_ends)].to_vec(),
            copied: (self.copied_out[at], self.copied_in[at]),
            group: self.groups[at],
            free_blocks: self.free_blocks[at],
        }
    }
}

impl Serialize for StepColumns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((0..self.len()).map(|at| self.record(at)))
    }
}
