//! Requests that are handed over with their KV, from an instance that holds their blocks
//! until the last byte is read to one that has accepted them.
//!
//! A request is offered to its target, which accepts requests in order: it allocates the
//! blocks for their next step, less those that its prefix cache has, and asks for the
//! rest of the KV. Once that is received, the request waits for a seat, ahead of the
//! waiting queue: it holds its blocks, so it can always be admitted.
//!
//! Where transfers overlap with prefills, a request is offered as the last step of its
//! prompt starts. Until that ends, it is expected here: it may be accepted, and counts
//! only as incoming.

mod acceptance;
mod admitted;
mod transfers;

pub(crate) use acceptance::Acceptance;
use admitted::Admitted;
pub(super) use transfers::{Committed, Offer, Transfers};
pub(crate) use transfers::{Origin, Pull};
