//! The requests that an instance has scheduled at least once and not finished.

mod phase;
mod table;

pub(crate) use phase::Phase;
pub(crate) use table::{AdmissionSeq, Member, RequestState, RequestTable, Slot};
