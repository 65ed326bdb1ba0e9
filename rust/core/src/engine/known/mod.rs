//! The knowledge of routers: their own counts, and the reports of the instances; and the gauges of monitors.

mod gauges;
mod kept;
mod relay;
mod reports;

use gauges::Gauges;
use kept::Kept;
use relay::Relay;
use reports::Reports;

use crate::config::Config;
use crate::hint::rare;
use crate::policy::{Gauge, InstField, Source};
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// How a router comes to know a field of an instance at a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::engine) enum Knowledge {
    /// This is its value.
    Value(f64),
    /// The request fits if the instance has this many free blocks or lacks none.
    FreeBlocks(f64),
    /// As the instance has it now.
    AsIs,
}

/// The counts of the routers, and the reports of the instances.
#[derive(Debug)]
pub(in crate::engine) struct Known {
    /// Routers.
    routers: usize,
    /// Counts of the routers' own decisions, if a rule reads one.
    kept: Option<Kept>,
    /// Reports, if routers do not see the instances as they are.
    reports: Option<Reports>,
    /// The relay to which instances report in place of the routers, if there is one.
    relay: Option<Box<Relay>>,
    /// The numbers that monitors have read of the instances.
    gauges: Gauges,
}

crate::checkpoint::checkpointed!(Known {
    values: kept, gauges;
    parts: reports, relay;
    fixed: routers;
});

impl Known {
    /// The knowledge of the routers of a configuration at the start. `shown`: the fields that callbacks see.
    pub(in crate::engine) fn new(config: &Config, trace: &Trace, shown: &[InstField]) -> Self {
        let (mut keeps, mut fields) = (false, Vec::new());
        config.routing.visit_instance_fields(shown, &mut |field, class| {
            let reported = if field == InstField::Fits { InstField::FreeBlocks } else { field };
            match reported.source() {
                Source::Kept => keeps = true,
                Source::Reported if !fields.contains(&(reported, class)) => fields.push((reported, class)),
                Source::Reported | Source::Known => {}
            }
        });
        let (routers, instances) = (config.routers.count as usize, config.instances.len());
        Self {
            routers,
            kept: keeps.then(|| Kept::new(routers, instances, trace.len())),
            relay: config
                .routers
                .relay
                .zip(config.routers.report_every)
                .map(|(relay, every)| Box::new(Relay::new(relay, every, instances))),
            reports: config.routers.report_every.map(|every| Reports::new(every, fields, instances)),
            gauges: Gauges::new(&config.routing, instances),
        }
    }

    /// Adds requests that have not arrived until there are `n`.
    pub(in crate::engine) fn grow_to(&mut self, n: usize) {
        if let Some(kept) = &mut self.kept {
            kept.grow_to(n);
        }
    }

    /// Forgets the requests before `row`, which have ended.
    pub(in crate::engine) fn forget(&mut self, row: usize) {
        if let Some(kept) = &mut self.kept {
            kept.forget(row);
        }
    }

    /// The router of a request.
    pub(in crate::engine) fn router_of(&self, row: usize) -> usize {
        if self.routers == 1 { 0 } else { self.router_in_turn(row) }
    }

    /// The router of a request, of several.
    #[cold]
    #[inline(never)]
    fn router_in_turn(&self, row: usize) -> usize {
        row % self.routers
    }

    /// Whether routers keep counts of their own.
    pub(in crate::engine) fn keeps(&self) -> bool {
        self.kept.is_some()
    }

    /// Whether routers see reports, and not the instances as they are.
    pub(in crate::engine) fn is_reported(&self) -> bool {
        self.reports.is_some()
    }

    /// Counts a request on the instance that a rule picked for it.
    pub(in crate::engine) fn route(&mut self, row: usize, instance: usize, trace: &Trace) {
        if let Some(kept) = &mut self.kept {
            rare();
            kept.route(row, instance, trace.prompt_tokens[row]);
        }
    }

    /// Counts a request that is about to be routed on the instance that a rule picked for its decode.
    pub(in crate::engine) fn route_decode(&mut self, row: usize, instance: usize, trace: &Trace) {
        if let Some(kept) = &mut self.kept {
            kept.route_decode(row, instance, trace.prompt_tokens[row]);
        }
    }

    /// No longer counts requests that ended.
    pub(in crate::engine) fn end(&mut self, rows: &[u32], trace: &Trace) {
        if let Some(kept) = &mut self.kept {
            for &row in rows {
                kept.end(row as usize, trace.prompt_tokens[row as usize]);
            }
        }
    }

    /// When the instances report next.
    pub(in crate::engine) fn next_report(&self) -> Ticks {
        match &self.relay {
            Some(relay) => {
                rare();
                relay.due()
            }
            None => self.reports.as_ref().map_or(NEVER, Reports::next),
        }
    }

    /// Whether something has happened since the instances last reported, after so many `happenings`.
    pub(in crate::engine) fn has_news(&self, happenings: u64) -> bool {
        self.reports.as_ref().is_none_or(|reports| !reports.is_fresh(happenings))
    }

    /// When the instances report next, if something has happened since they last did, after so many `happenings`.
    pub(in crate::engine) fn next_news(&self, happenings: u64) -> Ticks {
        let news = |reports: &&Reports| {
            !reports.is_fresh(happenings) || self.relay.as_ref().is_some_and(|relay| relay.has_news())
        };
        self.reports.as_ref().filter(news).map_or(NEVER, |_| self.next_report())
    }

    /// Whether instances report to a relay: before and after steps, or only after them.
    pub(in crate::engine) fn is_relayed(&self, before: bool) -> bool {
        self.relay.as_ref().is_some_and(|relay| !before || relay.hears_before())
    }

    /// Has an instance tell its fields to the relay if its `counts` have changed, before or after a step: its running and its
    /// queued requests. `value` gives a field.
    pub(in crate::engine) fn tell(
        &mut self,
        instance: usize,
        step: u64,
        counts: [u64; 2],
        value: impl FnMut((InstField, u32)) -> f64,
    ) {
        if let (Some(relay), Some(reports)) = (&mut self.relay, &self.reports)
            && relay.differs(instance, counts)
        {
            relay.tell(instance, step, counts, reports.fields().iter().copied().map(value).collect());
        }
    }

    /// Has the relay read what it was told at this moment. Returns whether it publishes now.
    pub(in crate::engine) fn read(&mut self, now: Ticks) -> bool {
        self.relay.as_mut().is_some_and(|relay| relay.read(now))
    }

    /// Takes a report; `value` gives a field of an instance.
    pub(in crate::engine) fn report(
        &mut self,
        (now, happenings): (Ticks, u64),
        instances: usize,
        mut value: impl FnMut(usize, (InstField, u32)) -> f64,
    ) {
        match (&mut self.reports, &mut self.relay) {
            (Some(reports), Some(relay)) => {
                for instance in (0..instances).filter(|_| relay.is_new()).collect::<Vec<_>>() {
                    relay.begin_with(reports.fields().iter().map(|&field| value(instance, field)));
                }
                relay.publish(now, reports.replace(happenings));
            }
            (Some(reports), None) => reports.take(happenings, value),
            (None, _) => {}
        }
        if let Some(kept) = &mut self.kept {
            kept.report();
        }
    }

    /// Notes what a gauge has read of some instances, in their order.
    pub(in crate::engine) fn read_gauge(&mut self, gauge: &Gauge, values: &[(usize, f64)], now: Ticks) {
        self.gauges.read(gauge, values, now);
    }

    /// How a router knows a field of an instance; a monitor sees the sums of all routers.
    pub(in crate::engine) fn field(
        &self,
        instance: usize,
        (field, class): (InstField, u32),
        router: Option<usize>,
    ) -> Knowledge {
        match (field.source(), &self.kept, &self.reports) {
            (Source::Kept, Some(kept), _) => Knowledge::Value(kept.field(field, router, instance)),
            (Source::Reported, _, Some(reports)) => Knowledge::Value(reports.field(instance, (field, class))),
            (_, _, Some(reports)) if field == InstField::Fits => {
                Knowledge::FreeBlocks(reports.field(instance, (InstField::FreeBlocks, 0)))
            }
            (Source::Known, ..) if field == InstField::Gauge => {
                Knowledge::Value(self.gauges.value(class, instance))
            }
            _ => Knowledge::AsIs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Relay as RelayConfig;
    use crate::engine::fixtures::{config, row, trace};

    /// Two instances, and two routers that read what they keep of an instance and what it reports.
    fn known(change: impl Fn(&mut Config)) -> (Known, Trace) {
        let trace = trace(&[row(0, 30, 1), row(0, 40, 1), row(0, 50, 1)]);
        let mut config = config(
            &[10, 10],
            r#"{"on_arrival": {"rule": "pick", "min": [{"field": "inst.routed_requests"}, {"field": "inst.running"}],
                "where": {"field": "inst.fits"}}}"#,
        );
        config.routers.count = 2;
        change(&mut config);
        (Known::new(&config, &trace, &[InstField::FreeBlocks]), trace)
    }

    fn plain(config: &mut Config) {
        config.routing = serde_json::from_str(r#"{"on_arrival": {"rule": "fewest_requests"}}"#).unwrap();
    }

    fn relay(before: bool) -> impl Fn(&mut Config) {
        move |config| {
            config.routers.report_every = Some(100);
            config.routers.relay = Some(RelayConfig { gap: 10, unit: 1, before, copies: None });
        }
    }

    #[test]
    fn a_router_keeps_counts_of_the_requests_that_it_routes() {
        let (mut known, trace) = known(|_| ());
        assert!(known.keeps() && !known.is_reported());
        assert_eq!([0, 1, 2].map(|row| known.router_of(row)), [0, 1, 0]);
        let routed = |known: &Known, router| {
            [0, 1].map(|instance| known.field(instance, (InstField::RoutedRequests, 0), router))
        };
        known.route(0, 0, &trace);
        known.route_decode(1, 0, &trace);
        known.route(1, 1, &trace);
        known.route(2, 1, &trace);
        let value = Knowledge::Value;
        assert_eq!(routed(&known, Some(0)), [value(1.0), value(1.0)]);
        assert_eq!(routed(&known, Some(1)), [value(1.0), value(1.0)]);
        assert_eq!(routed(&known, None), [value(2.0), value(2.0)]);
        known.end(&[1, 2], &trace);
        assert_eq!(routed(&known, None), [value(1.0), value(0.0)]);
        assert_eq!(known.field(0, (InstField::Running, 0), Some(0)), Knowledge::AsIs);
    }

    #[test]
    fn without_fields_of_routers_and_without_reports_fields_are_as_they_are() {
        let (mut known, trace) = known(plain);
        known.route(0, 0, &trace);
        assert!(!known.keeps() && !known.is_reported() && !known.is_relayed(false) && !known.read(0));
        assert_eq!(known.field(0, (InstField::Running, 0), Some(0)), Knowledge::AsIs);
        assert_eq!((known.next_report(), known.next_news(1)), (NEVER, NEVER));
    }

    #[test]
    fn a_router_knows_reported_fields_as_of_the_report() {
        let (mut known, _) = known(|config| config.routers.report_every = Some(100));
        assert!(known.is_reported() && !known.is_relayed(false));
        known.report((100, 7), 2, |instance, (field, _)| match field {
            InstField::Running => 5.0 + instance as f64,
            InstField::FreeBlocks => 8.0,
            other => panic!("no rule reads {other:?}"),
        });
        assert_eq!(known.field(1, (InstField::Running, 0), Some(0)), Knowledge::Value(6.0));
        assert_eq!(known.field(1, (InstField::Fits, 0), Some(0)), Knowledge::FreeBlocks(8.0));
        assert_eq!(known.field(1, (InstField::Index, 0), Some(0)), Knowledge::AsIs);
        assert_eq!((known.next_news(7), known.next_news(8)), (NEVER, known.next_report()));
    }

    #[test]
    fn a_relay_is_told_of_changed_counts_and_publishes_at_its_deadline() {
        let (mut known, _) = known(relay(false));
        assert!(known.is_relayed(false) && !known.is_relayed(true));
        assert!(super::tests::known(relay(true)).0.is_relayed(true));
        known.report((0, 0), 2, |_, _| 0.0);
        let due = known.next_report();
        let of_second = |field: (InstField, u32)| if field.0 == InstField::Running { 3.0 } else { 0.0 };
        known.tell(1, 1, [3, 0], of_second);
        assert!(!known.read(1), "its deadline has not passed");
        assert!(known.next_report() <= due && known.next_news(0) == known.next_report());
        let running = |known: &Known| [0, 1].map(|i| known.field(i, (InstField::Running, 0), Some(0)));
        assert_eq!(running(&known), [Knowledge::Value(0.0); 2], "nothing is published yet");
        let now = known.next_report();
        assert!(known.read(now));
        known.report((now, 1), 2, |_, _| panic!("the relay has the fields"));
        assert_eq!(running(&known), [Knowledge::Value(0.0), Knowledge::Value(3.0)]);
        // The counts are as told: there is no news.
        known.tell(1, 2, [3, 0], of_second);
        assert_eq!(known.next_news(1), NEVER);
    }
}
