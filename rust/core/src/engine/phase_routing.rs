//! Asks rules about requests whose phase has changed: whose prefill or whose reasoning has ended.

use super::arrivals::Arrivals;
use super::cluster::Cluster;
use super::live_migration::{Migration, Migrations};
use super::router::Router;
use crate::error::Error;
use crate::instance::{Asking, PhaseChange};
use crate::policy::Rule;
use crate::time::Ticks;

/// The rules that are asked when the phase of a request changes.
#[derive(Debug)]
pub(super) struct PhaseRouting {
    /// Asked when a prefill has ended.
    on_prefilled: Option<Rule>,
    /// Asked when reasoning has ended.
    on_answering: Option<Rule>,
    /// The instances on which requests changed their phase: kept for its memory.
    changed: Vec<usize>,
}

crate::checkpoint::checkpointed!(PhaseRouting {
    values: changed;
    fixed: on_prefilled, on_answering;
});

impl PhaseRouting {
    /// Phase routing by these rules.
    pub(super) fn new(on_prefilled: Option<Rule>, on_answering: Option<Rule>) -> Self {
        Self { on_prefilled, on_answering, changed: Vec::new() }
    }

    /// Routes the requests whose phase changed in a step that ended now, by instance and in order of admission.
    /// Requests that a monitor asked to leave migrate now; no rule is asked about these.
    #[inline(never)]
    pub(super) fn route(
        &mut self,
        cluster: &mut Cluster,
        router: &mut Router,
        migrations: &mut Migrations,
        arrivals: &Arrivals,
        now: Ticks,
    ) -> Result<(), Error> {
        cluster.list_phase_changes(&mut self.changed);
        for &source in &self.changed {
            while let Some((change, slot, request)) = cluster.next_phase_change(source) {
                let rule = match change {
                    PhaseChange::Departure => {
                        migrations.leave_as_asked(slot, request, cluster, now);
                        continue;
                    }
                    PhaseChange::Prefilled => &self.on_prefilled,
                    PhaseChange::Answering => &self.on_answering,
                };
                let target = match rule {
                    Some(rule) => {
                        let view = cluster.view(source, slot, now);
                        let asking = Asking { view: &view, place: Some((source, slot)) };
                        router.pick(rule, &asking, cluster, now)?
                    }
                    None if change == PhaseChange::Prefilled => arrivals.decode_target(request),
                    None => None,
                };
                if let Some(target) = target.filter(|&target| target != source) {
                    let migration = Migration::new(request, slot, source, target);
                    migrations.leave_at_once(&migration, cluster, now);
                    router.book(request.0, target, cluster);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::engine::arrival_rules::ArrivalRules;
    use crate::engine::arrivals::{Entrance, Sending};
    use crate::engine::fixtures::{cluster, router, row};
    use crate::engine::held::Held;
    use crate::policy::{Alike, Expr, Pick};

    /// Runs the prefill of one request on instance 0 and asks `rule` about it.
    fn after_prefill(rule: Option<Rule>) -> (Cluster, Migrations) {
        let mut cluster = cluster(&[10, 10], &[row(0, 20, 5)]);
        let mut router = router(&cluster);
        let mut migrations = Migrations::new(None, None, 2);
        let entrance = Entrance::new(&config::Entrance::default(), Sending::Trace, cluster.trace_mut());
        let arrivals = Arrivals::new(
            ArrivalRules::new(Rule::Stay { when: None }, None, 1),
            entrance,
            Held::new(Alike::default(), 1, None),
        );
        cluster.send(0, 0, 0);
        cluster.start_steps(0).unwrap();
        let (end, index) = cluster.next_end();
        assert_eq!((end, index), (120, 0));
        cluster.end_steps(end);
        PhaseRouting::new(rule, None)
            .route(&mut cluster, &mut router, &mut migrations, &arrivals, end)
            .unwrap();
        (cluster, migrations)
    }

    fn picks(index: f64) -> Rule {
        let condition =
            format!(r#"{{"op": "eq", "args": [{{"field": "inst.index"}}, {{"const": {index}}}]}}"#);
        let r#where: Expr = serde_json::from_str(&condition).unwrap();
        Rule::Pick(Pick { r#where: Some(r#where), ..Pick::default() })
    }

    #[test]
    fn a_request_whose_prefill_ended_migrates_to_the_picked_instance() {
        let (mut cluster, mut migrations) = after_prefill(Some(picks(1.0)));
        assert_eq!((cluster.outstanding(0), cluster.outstanding(1)), (0, 0), "it is in transfer");
        assert_eq!(migrations.in_transfer().count(), 1);
        migrations.deliver(&mut cluster, 120);
        assert_eq!((cluster.outstanding(0), cluster.outstanding(1)), (0, 1));
        assert_eq!(migrations.in_transfer().count(), 0);
    }

    #[test]
    fn a_request_stays_if_the_rule_picks_its_instance_or_none() {
        for rule in [Some(picks(0.0)), Some(picks(7.0)), None] {
            let (cluster, migrations) = after_prefill(rule);
            assert_eq!(cluster.outstanding(0), 1);
            assert_eq!(migrations.in_transfer().count(), 0);
        }
    }
}
