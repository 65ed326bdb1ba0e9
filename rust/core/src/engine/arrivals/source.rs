//! Sources of requests.

use crate::metrics::Status;
use crate::time::Ticks;

/// A source of requests: it says when the next one is sent, and is told how those before ended.
///
/// It sends rows of the trace, each at most once and in any order. The moments at which the trace's rows arrive are those
/// of a source, too, and need none of this type.
pub trait Source: std::fmt::Debug + Send {
    /// When the next request is sent; [`NEVER`](crate::NEVER) if none is before another has ended. After
    /// [`Self::end`] it may be earlier than before, but never before the moment at which that request ended.
    fn next(&self) -> Ticks;

    /// Sends the next request, and returns its row in the trace.
    fn send(&mut self) -> u32;

    /// Observes that a request has ended at `now`: finished, rejected or given up.
    fn end(&mut self, row: u32, status: Status, now: Ticks);

    /// How many requests it has sent and may still send. Once as many have ended, the replay ends.
    fn expected(&self) -> u64;
}
