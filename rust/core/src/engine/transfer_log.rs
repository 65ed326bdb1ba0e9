//! The transfers of KV between instances, one by one, where they are recorded.

use serde::{Deserialize, Serialize};

use super::network::Sent;
use crate::config::Window;
use crate::time::Ticks;
use crate::trace::RequestNumber;

/// The contents of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TransferKind {
    /// The KV of a request that has left its instance.
    Request,
    /// The KV of a request that its target has accepted.
    Accepted,
    /// A stage of a live migration: a copy of the KV that a running request has.
    Stage,
}

/// One transfer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferRecord {
    /// The request, by its row.
    pub request: u32,
    /// The instances.
    pub source: usize,
    /// See `source`.
    pub target: usize,
    /// The contents of the transfer.
    pub kind: TransferKind,
    /// When it was sent: from then on it waited for the network.
    pub sent: Ticks,
    /// When its first byte was sent.
    pub first_byte: Ticks,
    /// When it is delivered, which may be after the end of the replay.
    pub delivered: Ticks,
    /// Its bytes.
    pub bytes: u64,
}

/// The transfers that were sent within a window.
#[derive(Debug)]
pub(super) struct TransferLog {
    window: Option<Window>,
    records: Vec<TransferRecord>,
}

crate::checkpoint::checkpointed!(TransferLog {
    values: records;
    fixed: window;
});

impl TransferLog {
    /// No transfers. `window`: when a transfer must be sent to be kept; `None`: none is.
    pub(super) fn new(window: Option<Window>) -> Self {
        Self { window, records: Vec::new() }
    }

    /// Keeps a transfer from `source` to `target` that is sent now.
    pub(super) fn add(
        &mut self,
        request: RequestNumber,
        (source, target): (usize, usize),
        kind: TransferKind,
        bytes: u64,
        sent: Sent,
        now: Ticks,
    ) {
        if self.window.is_some_and(|window| window.contains(now)) {
            let Sent { first_byte, delivered } = sent;
            let record = TransferRecord {
                request: request.0,
                source,
                target,
                kind,
                sent: now,
                first_byte,
                delivered,
                bytes,
            };
            self.records.push(record);
        }
    }

    /// All records, in the order in which they were sent. `origins`: the row in the trace of each request, by its number,
    /// where that is another.
    pub(super) fn into_records(mut self, origins: Option<&[u32]>) -> Vec<TransferRecord> {
        for record in &mut self.records {
            record.request = origins.map_or(record.request, |origins| origins[record.request as usize]);
        }
        self.records
    }
}
