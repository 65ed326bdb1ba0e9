//! The room for recorded steps.

use serde::{Deserialize, Serialize};

use crate::time::Ticks;

/// How many entries may still be recorded; any number, unless it is bounded.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct RecordRoom {
    most: u64,
    left: u64,
    ended: Option<Ticks>,
}

impl RecordRoom {
    /// Room for so many entries.
    pub(crate) fn new(entries: u64) -> Self {
        Self { most: entries, left: entries, ended: None }
    }

    /// Takes room for a step that starts at `start`. Returns whether there was enough; once there was not, there is none.
    pub(crate) fn take(&mut self, entries: u64, start: Ticks) -> bool {
        if self.ended.is_none() && entries <= self.left {
            self.left -= entries;
            return true;
        }
        self.ended = Some(self.ended.map_or(start, |ended| ended.min(start)));
        false
    }

    /// How many entries there was room for at first.
    pub(crate) fn most(&self) -> u64 {
        self.most
    }

    /// When the first step starts for which there was no room.
    pub(crate) fn ended(&self) -> Option<Ticks> {
        self.ended
    }
}

impl Default for RecordRoom {
    fn default() -> Self {
        Self::new(u64::MAX)
    }
}
