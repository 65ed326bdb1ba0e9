//! Requests that routers hold.
//!
//! The rule is asked again about them, in order of arrival, after a first token, after a request has left its instance
//! for good, after a role has changed, after a report, as a request arrives, and once others have given up. A request that
//! is held has no effect on instances. Later requests wait behind it only if the rule says so ([`Blocks`]).
//!
//! The answers are those of asking about every request once, one after another. Requests of which the rule reads equal
//! values ([`Kind`](crate::policy::Kind)) are decided alike until one is sent, and only the first of them is asked about.

mod blocked;
mod pass;
mod queue;

use super::arrival_rules::ArrivalRules;
use super::cluster::Cluster;
use super::router::{Decision, Router};
use crate::error::Error;
use crate::metrics::Reason;
use crate::policy::{Alike, Blocks};
use crate::time::{NEVER, Ticks};

use blocked::Blocked;
use pass::Pass;
use queue::Queue;

/// The requests that routers hold, and the order in which the rule is asked about them.
#[derive(Debug)]
pub(super) struct Held {
    /// The columns of a request that the rule reads.
    alike: Alike,
    /// The requests.
    queue: Queue,
    /// Which requests wait behind others, at the moment at which the rule was asked last.
    blocked: Blocked,
    /// Ticks from its arrival after which a request gives up.
    give_up_after: Option<Ticks>,
    /// The count of changes in the cluster when the rule was asked last.
    asked_at: u64,
}

crate::checkpoint::checkpointed!(Held {
    values: queue, blocked, asked_at;
    fixed: alike, give_up_after;
});

impl Held {
    /// No requests, of so many routers, of which the rule reads what `alike` says.
    pub(super) fn new(alike: Alike, routers: usize, give_up_after: Option<Ticks>) -> Self {
        Self { alike, queue: Queue::new(routers), blocked: Blocked::default(), give_up_after, asked_at: 0 }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether a request that arrives waits behind others, which were asked about at this moment.
    pub(super) fn block(&self, row: usize, cluster: &Cluster) -> bool {
        self.queue.len() > 0 && self.blocked.cover(&self.kind(row, cluster))
    }

    fn kind(&self, row: usize, cluster: &Cluster) -> crate::policy::Kind {
        self.alike.kind(row, cluster.known().router_of(row), cluster.trace())
    }

    /// Holds a request that arrives, behind which those wait that `blocks` says.
    pub(super) fn push(&mut self, row: usize, blocks: Blocks, cluster: &Cluster) {
        if self.queue.len() == 0 {
            self.asked_at = cluster.changes();
            self.blocked = Blocked::default();
        }
        let kind = self.kind(row, cluster);
        self.queue.push(row as u32, kind);
        self.blocked.add(blocks, &kind);
    }

    /// Removes a request that is cancelled. Returns whether it was held.
    pub(super) fn remove(&mut self, row: usize, cluster: &Cluster) -> bool {
        if self.queue.len() == 0 {
            return false;
        }
        let (kind, before) = (self.kind(row, cluster), self.queue.len());
        self.queue.remove(row as u32, &kind);
        self.queue.len() < before
    }

    /// Whether something has changed since the rule was asked last.
    pub(super) fn has_news(&self, cluster: &Cluster) -> bool {
        self.queue.len() > 0 && cluster.changes() != self.asked_at
    }

    /// When the next request gives up.
    pub(super) fn next_give_up(&self, cluster: &Cluster) -> Ticks {
        let Some(after) = self.give_up_after else { return NEVER };
        // Rows are in order of arrival.
        let first = self.queue.first().map(|(row, _)| cluster.trace().arrival[row as usize]);
        first.map_or(NEVER, |arrival| arrival.saturating_add(after))
    }

    /// Asks the rules about the requests, if there are `news` or anything has changed that may let one go; then those give
    /// up that have waited for too long, after which the rules are asked about the others.
    pub(super) fn ask(
        &mut self,
        rules: &mut ArrivalRules,
        news: bool,
        cluster: &mut Cluster,
        router: &mut Router,
        now: Ticks,
    ) -> Result<(), Error> {
        if news || cluster.changes() != self.asked_at {
            self.ask_each(rules, cluster, router, now)?;
        }
        if self.next_give_up(cluster) <= now {
            self.give_up(cluster, now);
            self.ask_each(rules, cluster, router, now)?;
        }
        Ok(())
    }

    /// Has those requests give up that have waited for too long.
    fn give_up(&mut self, cluster: &mut Cluster, now: Ticks) {
        while self.next_give_up(cluster) <= now {
            let Some((row, kind)) = self.queue.first() else { return };
            self.queue.remove(row, &kind);
            cluster.count_event();
            cluster.give_up(row as usize, now);
        }
    }

    /// Asks about each request, in order of arrival, unless it waits behind another.
    fn ask_each(
        &mut self,
        rules: &mut ArrivalRules,
        cluster: &mut Cluster,
        router: &mut Router,
        now: Ticks,
    ) -> Result<(), Error> {
        self.blocked = Blocked::default();
        let mut pass = Pass::default();
        while let Some((asked, kind)) = pass.next(&self.queue, &self.blocked) {
            let row = asked as usize;
            let decision = rules.decide(row, router, cluster, now)?;
            match decision {
                Decision::Hold(blocks) => {
                    self.blocked.add(blocks, &kind);
                    pass.hold(asked, kind, &self.queue);
                    continue;
                }
                Decision::Send(index) => {
                    cluster.note_held(row, now);
                    rules.send(row, index, cluster, now);
                    router.book(asked, index, cluster);
                }
                Decision::Reject => {
                    cluster.note_held(row, now);
                    cluster.reject(row, Reason::Policy);
                }
                Decision::None => return Err(super::arrivals::no_instance(row, cluster)),
            }
            cluster.count_event();
            let sent = matches!(decision, Decision::Send(_));
            pass.let_go(asked, kind, sent, &mut self.queue);
        }
        self.asked_at = cluster.changes();
        Ok(())
    }

    /// Writes that these requests are held as the replay stops.
    pub(super) fn halt(&self, cluster: &mut Cluster, now: Ticks) {
        for row in self.queue.rows() {
            cluster.halt_held(row as usize, now);
        }
    }
}

#[cfg(test)]
mod tests;
