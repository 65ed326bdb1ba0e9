//! Requests that routers hold: first come, first served, each router its own.
//!
//! The rule is asked again about the first request of each router after a first token, after a request has left its
//! instance for good, and after a report. A request that is held has no effect on instances. Not modelled: requests
//! that pass those held before them.

use std::collections::VecDeque;

use super::arrival_rules::ArrivalRules;
use super::cluster::Cluster;
use super::router::{Decision, Router};
use crate::error::Error;
use crate::metrics::Reason;
use crate::time::{NEVER, Ticks};

/// See the module.
#[derive(Debug)]
pub(super) struct Held {
    /// By router: the rows of its requests, in order of arrival.
    queues: Vec<VecDeque<u32>>,
    /// How many there are.
    count: usize,
    /// Ticks from its arrival after which a request gives up.
    give_up_after: Option<Ticks>,
    /// What had changed in the cluster when the rule was asked last.
    asked_at: u64,
}

impl Held {
    /// No requests, of so many routers.
    pub(super) fn new(routers: usize, give_up_after: Option<Ticks>) -> Self {
        Self { queues: vec![VecDeque::new(); routers], count: 0, give_up_after, asked_at: 0 }
    }

    /// How many there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Whether the router of a request holds others, which come first.
    #[inline]
    pub(super) fn precede(&self, row: usize, cluster: &Cluster) -> bool {
        self.count > 0 && !self.queues[cluster.known().router_of(row)].is_empty()
    }

    /// Holds a request.
    pub(super) fn push(&mut self, row: usize, cluster: &Cluster) {
        if self.count == 0 {
            self.asked_at = cluster.changes();
        }
        self.queues[cluster.known().router_of(row)].push_back(row as u32);
        self.count += 1;
    }

    /// Whether something has changed since the rule was asked last.
    pub(super) fn has_news(&self, cluster: &Cluster) -> bool {
        self.count > 0 && cluster.changes() != self.asked_at
    }

    /// When the next request gives up.
    #[inline]
    pub(super) fn next_give_up(&self, cluster: &Cluster) -> Ticks {
        let Some(after) = self.give_up_after.filter(|_| self.count > 0) else { return NEVER };
        let heads = self.queues.iter().filter_map(VecDeque::front);
        let first = heads.map(|&row| cluster.trace().arrival[row as usize]).min();
        first.map_or(NEVER, |arrival| arrival.saturating_add(after))
    }

    /// Asks the rules about the requests, if anything has changed that may let one go, or if instances `reported`; then
    /// those give up that have waited for too long.
    pub(super) fn ask(
        &mut self,
        rules: &mut ArrivalRules,
        reported: bool,
        cluster: &mut Cluster,
        router: &mut Router,
        now: Ticks,
    ) -> Result<(), Error> {
        if reported || cluster.changes() != self.asked_at {
            self.ask_each(rules, cluster, router, now)?;
            self.asked_at = cluster.changes();
        }
        while self.next_give_up(cluster) <= now {
            let gave_up = self.queues.iter_mut().filter(|queue| {
                let first = queue.front().map(|&row| cluster.trace().arrival[row as usize]);
                first.is_some_and(|arrival| self.give_up_after.is_some_and(|most| now - arrival >= most))
            });
            let rows: Vec<u32> = gave_up.filter_map(VecDeque::pop_front).collect();
            for row in rows {
                self.count -= 1;
                cluster.count_event();
                cluster.give_up(row as usize, now);
            }
        }
        Ok(())
    }

    /// Asks about the first request of each router, in order of arrival, until each router holds its first.
    fn ask_each(
        &mut self,
        rules: &mut ArrivalRules,
        cluster: &mut Cluster,
        router: &mut Router,
        now: Ticks,
    ) -> Result<(), Error> {
        let mut blocked = vec![false; self.queues.len()];
        loop {
            let heads = self.queues.iter().enumerate().filter(|(i, _)| !blocked[*i]);
            let first = heads.filter_map(|(i, queue)| Some((*queue.front()?, i))).min();
            let Some((row, i)) = first else { return Ok(()) };
            let row = row as usize;
            match rules.decide(row, router, cluster, now)? {
                Decision::Hold => {
                    blocked[i] = true;
                    continue;
                }
                Decision::Send(index) => {
                    cluster.note_held(row, now);
                    cluster.send(row, index, now);
                    router.book(row as u32, index, cluster);
                }
                Decision::Reject => {
                    cluster.note_held(row, now);
                    cluster.reject(row, Reason::Policy);
                }
                Decision::None => return Err(super::arrivals::no_instance(row)),
            }
            cluster.count_event();
            self.queues[i].pop_front();
            self.count -= 1;
        }
    }

    /// Writes that these requests are held as the replay stops.
    pub(super) fn halt(&self, cluster: &mut Cluster, now: Ticks) {
        for &row in self.queues.iter().flatten() {
            cluster.halt_held(row as usize, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::event_loop::{Outcome, Simulation};
    use crate::engine::fixtures::{config, row, trace};
    use crate::metrics::Status;

    /// Picks the first idle instance, or holds the request.
    const ONE_EACH: &str = r#"{"on_arrival": {"rule": "first_of", "rules": [
        {"rule": "pick", "min": [], "where": {"op": "lt", "args": [{"field": "inst.requests"}, {"const": 1}]}},
        {"rule": "hold"}]}}"#;

    fn replay(rows: &[(Ticks, u32, u32)], change: impl Fn(&mut crate::Config)) -> Result<Outcome, Error> {
        let outcomes = [true, false].map(|leap| {
            let mut config = config(&[10], ONE_EACH);
            config.leap = leap;
            change(&mut config);
            let mut simulation = Simulation::new(&config, trace(rows)).unwrap();
            while !simulation.advance(1)? {}
            Ok(simulation.into_outcome())
        });
        let [leaping, stepping] = outcomes;
        let (leaping, stepping) = (leaping?, stepping?);
        assert_eq!(format!("{:?}", leaping.columns), format!("{:?}", stepping.columns));
        Ok(leaping)
    }

    #[test]
    fn requests_that_are_held_follow_one_another_as_each_finishes() {
        // A step takes 100 ticks and one more a token: each request takes 120 for its prompt and 101 for its decode.
        let columns = replay(&[row(0, 20, 2), row(10, 20, 2), row(20, 20, 2)], |_| ()).unwrap().columns;
        assert_eq!(columns.finish, [221, 442, 663]);
        assert_eq!(columns.held, [0, 221 - 10, 442 - 20]);
        assert_eq!(columns.scheduled, [0, 221, 442]);
        assert_eq!(columns.instance, [0, 0, 0]);
    }

    #[test]
    fn a_request_that_could_go_waits_behind_those_that_its_router_holds() {
        // Prompts of fewer than 30 tokens go at once, others to an idle instance. The first runs until 221.
        let short = r#"{"op": "or", "args": [{"op": "lt", "args": [{"field": "req.prompt_tokens"}, {"const": 30}]},
            {"op": "lt", "args": [{"field": "inst.requests"}, {"const": 1}]}]}"#;
        let idle = r#"{"op": "lt", "args": [{"field": "inst.requests"}, {"const": 1}]}"#;
        // With two routers, the second and the fourth request are of another than the first and the third. Then the
        // third joins the first in the step from 120 to 241, and has its second token at 342.
        for (routers, held) in [(1, [0, 211, 201, 191]), (2, [0, 332, 0, 312])] {
            let change = |config: &mut crate::Config| {
                config.routing = serde_json::from_str(&ONE_EACH.replace(idle, short)).unwrap();
                config.routers.count = routers;
            };
            let rows = [row(0, 20, 2), row(10, 40, 2), row(20, 20, 2), row(30, 20, 2)];
            let columns = replay(&rows, change).unwrap().columns;
            assert_eq!(columns.held, held);
        }
    }

    #[test]
    fn a_request_gives_up_when_its_time_is_up_unless_it_may_go_at_that_moment() {
        let give_up = |after| {
            let rows = [row(0, 20, 2), row(10, 20, 2), row(20, 20, 2)];
            replay(&rows, |config| config.routers.give_up_after = Some(after)).unwrap().columns
        };
        // The second may go at 221, the third at 442 if the second went, and at 221 if not.
        let columns = give_up(211);
        let (done, gave_up) = (Status::Finished as u8, Status::GaveUp as u8);
        assert_eq!(columns.status, [done, done, gave_up]);
        assert_eq!(columns.held, [0, 211, 211]);
        let columns = give_up(210);
        assert_eq!(columns.status, [done, gave_up, done]);
        assert_eq!(columns.finish[2], 221 + 221);
    }

    #[test]
    fn a_replay_that_stops_says_which_requests_are_held() {
        let stop = |config: &mut crate::Config| config.until = Some(100);
        let columns = replay(&[row(0, 20, 2), row(10, 20, 2)], stop).unwrap().columns;
        assert_eq!(columns.status, [Status::Running as u8, Status::Held as u8]);
        assert_eq!(columns.held, [0, 90]);
    }

    #[test]
    fn a_request_is_sent_on_by_the_report_that_shows_an_idle_instance() {
        let reported = |config: &mut crate::Config| config.routers.report_every = Some(100);
        let columns = replay(&[row(0, 20, 2), row(110, 20, 2)], reported).unwrap().columns;
        // The report at 300 is the first after the finish at 221. The one at 100 shows the first request.
        assert_eq!((columns.held[1], columns.scheduled[1]), (190, 300));
    }

    #[test]
    fn a_request_that_nothing_can_let_go_is_an_error() {
        // A monitor that finds nothing to do is no news for a report.
        let looks = r#"[{"period": 10, "actions": [{"action": "migrate", "source": {"min": []}, "target": {"min": []},
            "choose": {"min": []}}]}]"#;
        for (every, monitors) in [(None, "[]"), (Some(70), "[]"), (None, looks), (Some(70), looks)] {
            let never = |config: &mut crate::Config| {
                let text = ONE_EACH.replace(r#""const": 1"#, r#""const": 0"#);
                config.routing = serde_json::from_str(&text).unwrap();
                config.routers.report_every = every;
                config.routing.every = serde_json::from_str(monitors).unwrap();
            };
            let error = replay(&[row(5, 20, 2)], never).unwrap_err();
            assert!(error.to_string().contains("the router holds 1 requests"), "{error}");
        }
    }
}
