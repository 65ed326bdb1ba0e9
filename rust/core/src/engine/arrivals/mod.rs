//! Arrivals of requests: their source, their way to the routers, and the rules that route them.

mod cancels;
mod entrance;
mod numbering;
mod predictor;
mod retries;
mod sent;
mod source;
mod submitted;

pub use source::Source;

pub(super) use cancels::Cancels;
pub(super) use entrance::{Entrance, Sending};

use super::arrival_rules::ArrivalRules;
use super::cluster::Cluster;
use super::held::Held;
use super::router::{Decision, Router};
use crate::error::Error;
use crate::hint::rare;
use crate::instance::Origin;
use crate::metrics::Reason;
use crate::policy::Blocks;
use crate::time::{HORIZON, NEVER, TICKS_PER_SECOND, Ticks};
use crate::trace::RequestNumber;

/// The requests that have not arrived, those that are held, and the rule that routes them.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The rules that pick their instances.
    rules: ArrivalRules,
    /// The requests that have not arrived.
    entrance: Entrance,
    /// Requests that arrived and are on no instance yet.
    held: Held,
    /// When requests are cancelled, if any may be.
    cancels: Option<Box<Cancels>>,
}

crate::checkpoint::checkpointed!(Arrivals {
    parts: rules, entrance, held, cancels;
});

impl Arrivals {
    /// The requests of an entrance, routed by `rules`.
    pub(super) fn new(rules: ArrivalRules, entrance: Entrance, held: Held) -> Self {
        Self { rules, entrance, held, cancels: None }
    }

    /// Has requests cancelled.
    pub(super) fn cancel_by(&mut self, cancels: Option<Cancels>) {
        self.cancels = cancels.map(Box::new);
    }

    /// When the next request is cancelled; [`NEVER`](crate::NEVER) if none will be.
    pub(super) fn next_cancel(&self) -> Ticks {
        self.cancels.as_ref().map_or(NEVER, |cancels| cancels.next())
    }

    /// When the next request arrives, reaches a stage before, is cancelled or gives up; [`NEVER`](crate::NEVER) if none
    /// will.
    pub(super) fn next(&self, cluster: &Cluster) -> Ticks {
        let arrival = self.next_arrival().min(self.next_cancel());
        if self.held.len() == 0 {
            return arrival;
        }
        rare();
        arrival.min(self.held.next_give_up(cluster))
    }

    /// When the next request arrives, or reaches a stage before; [`NEVER`](crate::NEVER) if none will unless another ends.
    pub(super) fn next_arrival(&self) -> Ticks {
        self.entrance.next()
    }

    /// Adds requests that are submitted, the last ones of the trace, and arrive at these moments.
    pub(super) fn grow(&mut self, arrivals: &[Ticks], cluster: &Cluster) {
        self.rules.grow_to(cluster.trace().len());
        self.entrance.submit(arrivals, cluster.trace());
    }

    /// Makes room for requests that follow in the trace.
    pub(super) fn follow(&mut self, cluster: &Cluster) {
        self.rules.grow_to(cluster.trace().len());
        self.entrance.follow(cluster.trace());
    }

    /// Forgets the requests before `row`, which have ended.
    pub(super) fn forget(&mut self, row: usize) {
        self.rules.forget(row);
        if let Some(cancels) = &mut self.cancels {
            cancels.forget(row as u32);
        }
    }

    /// Ends the submissions.
    pub(super) fn close(&mut self) {
        self.entrance.close();
    }

    /// By row of submission: its place in the result, if requests are submitted.
    pub(super) fn places(&self) -> Option<Vec<u32>> {
        self.entrance.places()
    }

    /// How many requests have been sent and may still be sent.
    pub(super) fn expected(&self, cluster: &Cluster) -> u64 {
        self.entrance.expected(cluster.trace())
    }

    /// Tells the source of the requests that have ended since the last call.
    pub(super) fn hear(&mut self, cluster: &mut Cluster, now: Ticks) {
        if cluster.has_ends() {
            rare();
            self.hear_each(cluster, now);
        }
    }

    #[inline(never)]
    fn hear_each(&mut self, cluster: &mut Cluster, now: Ticks) {
        for (row, status) in cluster.take_ends() {
            if let Some(cancels) = &mut self.cancels {
                cancels.end(row);
            }
            let again = self.entrance.repeats() && cluster.may_be_repeated(RequestNumber(row), status);
            self.entrance.end(row, (status, again), now, cluster.trace());
        }
    }

    /// Requests that routers hold.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether something has changed since the rule was asked about requests that are held.
    pub(super) fn has_news(&self, cluster: &Cluster) -> bool {
        self.held.has_news(cluster)
    }

    /// Routes the requests that are held and may go now, and then all that arrive now, in the order of the trace. A
    /// request that no instance could ever serve is rejected. `reported`: instances reported at this moment.
    pub(super) fn route(
        &mut self,
        reported: bool,
        cluster: &mut Cluster,
        router: &mut Router,
        now: Ticks,
    ) -> Result<(), Error> {
        if self.held.len() > 0 {
            rare();
            let news = reported || self.next_arrival() == now;
            self.held.ask(&mut self.rules, news, cluster, router, now)?;
            self.hear(cluster, now);
        }
        while self.next_arrival() == now {
            let Some(row) = self.take(cluster, now) else { break };
            if now > HORIZON {
                let row = cluster.trace().origin(RequestNumber(row as u32)).index();
                return Err(Error::LateArrival { row, seconds: now / TICKS_PER_SECOND });
            }
            cluster.count_event();
            if self.cancels.is_some() && self.cancel_on_arrival(row, cluster, now) {
                rare();
                self.hear(cluster, now);
                continue;
            }
            let reason = router.rejects(row, cluster);
            if reason != Reason::None {
                rare();
                cluster.reject(row, reason);
                self.hear(cluster, now);
                continue;
            }
            if self.held.block(row, cluster) {
                rare();
                self.held.push(row, Blocks::None, cluster);
                continue;
            }
            match self.rules.decide(row, router, cluster, now)? {
                Decision::Send(index) => {
                    self.rules.send(row, index, cluster, now);
                    router.book(row as u32, index, cluster);
                }
                Decision::Hold(blocks) => {
                    rare();
                    self.held.push(row, blocks, cluster);
                }
                Decision::Reject => {
                    rare();
                    cluster.reject(row, Reason::Policy);
                    self.hear(cluster, now);
                }
                Decision::None => return Err(no_instance(row, cluster)),
            }
        }
        Ok(())
    }

    /// Removes the next request that arrives at `now`, and returns its number.
    fn take(&mut self, cluster: &mut Cluster, now: Ticks) -> Option<usize> {
        let (trace, recorder) = cluster.recording();
        let row = self.entrance.take(now, trace, recorder)?;
        if self.entrance.repeats() {
            rare();
            // A request that is sent again is one more.
            self.rules.grow_to(cluster.trace().len());
            cluster.follow_repeats();
        }
        Some(row)
    }

    /// Notes when a request is cancelled that arrives. Returns whether it is cancelled at once.
    fn cancel_on_arrival(&mut self, row: usize, cluster: &mut Cluster, now: Ticks) -> bool {
        let sent = self.entrance.sent();
        let Some(cancels) = &mut self.cancels else { return false };
        let Some(reason) = cancels.arrive(row as u32, sent, now, cluster.trace()) else { return false };
        cluster.cancel_unrouted(row, reason, false, now);
        true
    }

    /// Cancels the next request that is cancelled by now. Returns whether there was one; and if it had been offered, which
    /// request it is, the instance that had the offer, and where its KV is. `awaits`: whether a request is on no instance until
    /// its target accepts it.
    pub(super) fn cancel(
        &mut self,
        cluster: &mut Cluster,
        awaits: impl Fn(RequestNumber) -> bool,
        now: Ticks,
    ) -> Option<(RequestNumber, Option<(usize, Origin)>)> {
        let (request, reason) = self.cancels.as_mut()?.pop(now, cluster.trace())?;
        let request = RequestNumber(request);
        cluster.count_event();
        if self.held.remove(request.index(), cluster) {
            cluster.cancel_unrouted(request.index(), reason, true, now);
            return Some((request, None));
        }
        if awaits(request) {
            cluster.cancel_announced(request, reason, now);
            return Some((request, None));
        }
        Some((request, cluster.cancel(request, reason, now)))
    }

    /// The instance on which a request is to decode, if that was picked as it arrived.
    pub(super) fn decode_target(&self, request: RequestNumber) -> Option<usize> {
        self.rules.target(request.0)
    }

    /// Writes what became of the requests that are held as the replay stops.
    pub(super) fn halt(&self, cluster: &mut Cluster, now: Ticks) {
        self.held.halt(cluster, now);
    }
}

/// The error of a rule that leaves an arrival without an instance.
#[cold]
pub(super) fn no_instance(number: usize, cluster: &Cluster) -> Error {
    let row = cluster.trace().origin(RequestNumber(number as u32)).0;
    let rule = format!("must give an instance for every arrival, gave none for row {row}");
    Error::config("routing.on_arrival", rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::engine::fixtures::{cluster, router, row};
    use crate::policy::{Alike, Rule};

    fn routed_by(rule: Rule, cluster: &mut Cluster) -> Arrivals {
        let entrance = Entrance::new(&config::Entrance::default(), Sending::Trace, cluster.trace_mut());
        Arrivals::new(ArrivalRules::new(rule, None, 0), entrance, Held::new(Alike::default(), 1, None))
    }

    #[test]
    fn requests_that_arrive_together_are_routed_in_order_and_hopeless_ones_rejected() {
        let rows = [row(5, 20, 2), row(5, 9_999, 2), row(5, 30, 2), row(6, 20, 2)];
        let mut cluster = cluster(&[10, 10], &rows);
        let mut router = router(&cluster);
        let mut arrivals = routed_by(Rule::RoundRobin { turn: 0, within: None }, &mut cluster);
        assert_eq!(arrivals.next(&cluster), 5);
        arrivals.route(false, &mut cluster, &mut router, 5).unwrap();
        assert_eq!(arrivals.next(&cluster), 6);
        assert_eq!((cluster.outstanding(0), cluster.outstanding(1)), (1, 1));
        assert_eq!((cluster.settled(), cluster.events()), (1, 3), "one is rejected, and three arrived");
        arrivals.route(false, &mut cluster, &mut router, 6).unwrap();
        assert_eq!(arrivals.next(&cluster), NEVER);
        assert_eq!((cluster.outstanding(0), cluster.outstanding(1)), (2, 1));
    }

    #[test]
    fn a_rule_that_picks_no_instance_for_an_arrival_is_an_error() {
        let mut cluster = cluster(&[10], &[row(0, 20, 2)]);
        let mut router = router(&cluster);
        let mut arrivals = routed_by(Rule::Stay { when: None }, &mut cluster);
        let error = arrivals.route(false, &mut cluster, &mut router, 0).unwrap_err();
        assert!(error.to_string().contains("routing.on_arrival: must give an instance"), "{error}");
    }
}
