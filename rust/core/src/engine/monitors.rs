//! Runs monitors: periodic checks that pair instances and migrate a request from one to the other, that change the
//! roles of instances, that set the sizes of pools, or that read gauges.

use super::cluster::Cluster;
use super::gauges;
use super::live_migration::{Migration, Migrations};
use super::ranked::ranked;
use super::router::{Best, Candidates, Router, RouterView};
use super::scaling::{self, History};
use crate::error::Error;
use crate::instance::{Asking, RequestView};
use crate::metrics::Reason;
use crate::policy::{Action, Choice, Live, Monitor};
use crate::time::{NEVER, Ticks};
use crate::trace::RequestNumber;

/// All monitors of a policy.
#[derive(Debug)]
pub(super) struct Monitors {
    /// The monitors, in the order of the policy.
    timers: Vec<MonitorTimer>,
    /// When the first of them runs next.
    next: Ticks,
}

crate::checkpoint::checkpointed!(Monitors {
    values: next;
    parts: timers;
});

/// A monitor and when it runs next.
#[derive(Debug)]
struct MonitorTimer {
    /// When it runs next.
    next: Ticks,
    /// Its condition and its actions.
    monitor: Monitor,
    /// The history of each of its actions, which those read that set the size of a pool.
    histories: Vec<History>,
}

crate::checkpoint::checkpointed!(MonitorTimer {
    values: next, histories;
    fixed: monitor;
});

impl Monitors {
    /// Monitors that first run one period after the start.
    pub(super) fn new(monitors: &[Monitor]) -> Self {
        let timers = monitors.iter().map(|monitor| MonitorTimer {
            next: monitor.period,
            monitor: monitor.clone(),
            histories: monitor.actions.iter().map(|_| History::default()).collect(),
        });
        let mut all = Self { timers: timers.collect(), next: NEVER };
        all.find_next();
        all
    }

    /// Finds when the next monitor runs.
    fn find_next(&mut self) {
        self.next = self.timers.iter().map(|timer| timer.next).min().unwrap_or(NEVER);
    }

    /// When the next monitor runs.
    pub(super) fn next(&self) -> Ticks {
        self.next
    }

    /// Runs the monitors that are due.
    #[inline(never)]
    pub(super) fn run(
        &mut self,
        cluster: &mut Cluster,
        router: &mut Router,
        migrations: &mut Migrations,
        now: Ticks,
    ) -> Result<(), Error> {
        migrations.forget_finished(cluster);
        for timer in self.timers.iter_mut().filter(|timer| timer.next <= now) {
            cluster.count_look();
            timer.next = timer.next.saturating_add(timer.monitor.period);
            for (action, history) in timer.monitor.actions.iter().zip(&mut timer.histories) {
                match action {
                    Action::Migrate { .. } => migrate_pairs(action, cluster, migrations, now),
                    Action::Flip { rule } => router.flip(rule, cluster, now)?,
                    Action::Scale(scale) => scaling::run(scale, history, cluster, now),
                    Action::Gauge(gauge) => gauges::run(gauge, cluster, now),
                }
            }
        }
        self.find_next();
        Ok(())
    }
}

/// Migrates requests as an action says: the best source is paired with the best target, the second with the second, and so on.
fn migrate_pairs(action: &Action, cluster: &mut Cluster, migrations: &mut Migrations, now: Ticks) {
    let Action::Migrate { source, target, choose, when, live } = action else { return };
    let view = RequestView::arriving(RequestNumber(0), now, cluster.trace());
    let no_request = Asking { view: &view, place: None };
    let sources = ranked(source, cluster, &no_request, now);
    // In most cases no instance is a source.
    let targets = if sources.is_empty() { Vec::new() } else { ranked(target, cluster, &no_request, now) };
    for pair in sources.into_iter().zip(targets).filter(|(source, target)| source != target) {
        let mut view = RouterView::of_pair(cluster, &no_request, pair, now);
        if when.as_ref().is_none_or(|when| view.holds(when)) {
            migrate(pair, choose, *live, cluster, migrations, now);
        }
    }
}

/// Begins the migration of the decoding request that `choose` chooses on the source, if there is one.
fn migrate(
    (source, target): (usize, usize),
    choose: &Choice,
    live: Option<Live>,
    cluster: &mut Cluster,
    migrations: &mut Migrations,
    now: Ticks,
) {
    cluster.catch_up(source, now);
    let mut best: Best<(u32, RequestView)> = Best::default();
    for slot in cluster.instance(source).decoding() {
        let view = cluster.view(source, slot, now);
        let model = cluster.trace().model_of(view.request.index());
        let settings = cluster.instance(target).settings();
        let refused = settings.refuses(view.prompt, view.output, model) != Reason::None;
        if refused || migrations.is_under_way(view.request) {
            continue;
        }
        let request = Asking { view: &view, place: Some((source, slot)) };
        let mut pair = RouterView::of_pair(cluster, &request, (source, target), now);
        if choose.r#where.as_ref().is_some_and(|condition| !pair.holds(condition)) {
            continue;
        }
        if best.is_beaten(&choose.min, &mut pair) {
            best.replace((slot, view));
        }
    }
    if let Some((slot, view)) = best.into_found() {
        let migration = Migration::new(view.request, slot, source, target);
        migrations.begin(migration, &view, live, cluster, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{cluster, router, row};
    use crate::policy::Expr;

    fn expr(text: &str) -> Expr {
        serde_json::from_str(text).unwrap()
    }

    /// Every 100 ticks, migrates the request with the most context from the instance with the most requests, above 1,
    /// to the one with the fewest.
    fn balance(live: Option<Live>) -> Monitor {
        let requests = r#"{"field": "inst.requests"}"#;
        let busy = format!(r#"{{"op": "gt", "args": [{requests}, {{"const": 1}}]}}"#);
        let most = format!(r#"{{"op": "neg", "args": [{requests}]}}"#);
        let longest = r#"{"op": "neg", "args": [{"field": "req.context_tokens"}]}"#;
        let choice = |min: &str, r#where: Option<&str>| Choice {
            min: vec![expr(min)],
            r#where: r#where.map(expr),
            within: None,
        };
        let action = Action::Migrate {
            source: choice(&most, Some(&busy)),
            target: choice(requests, None),
            choose: choice(longest, None),
            when: None,
            live,
        };
        Monitor { period: 100, actions: vec![action] }
    }

    /// Instance 0 decodes requests 0 and 1, instance 1 is idle, and the first decode of both is in progress.
    fn unbalanced() -> (Cluster, Router, Migrations) {
        let mut cluster = cluster(&[10, 10], &[row(0, 20, 50), row(0, 30, 50)]);
        cluster.send(0, 0, 0);
        cluster.send(1, 0, 0);
        cluster.start_steps(0).unwrap();
        let (end, _) = cluster.next_end();
        assert_eq!(end, 150);
        cluster.end_steps(end);
        cluster.start_steps(end).unwrap();
        let router = router(&cluster);
        (cluster, router, Migrations::new(None, None, 2))
    }

    #[test]
    fn a_monitor_runs_at_each_period() {
        let (mut cluster, mut router, mut migrations) = unbalanced();
        let mut monitors = Monitors::new(&[Monitor { period: 100, actions: vec![] }]);
        for moment in [100, 200, 300] {
            assert_eq!(monitors.next(), moment);
            monitors.run(&mut cluster, &mut router, &mut migrations, moment).unwrap();
        }
        assert_eq!(Monitors::new(&[]).next(), NEVER);
    }

    #[test]
    fn the_chosen_request_leaves_once_the_step_in_progress_has_ended() {
        let (mut cluster, mut router, mut migrations) = unbalanced();
        Monitors::new(&[balance(None)]).run(&mut cluster, &mut router, &mut migrations, 200).unwrap();
        assert!(
            migrations.is_under_way(RequestNumber(1)) && !migrations.is_under_way(RequestNumber(0)),
            "the longest one is chosen"
        );
        // A decode of two takes 102 ticks: the run is cut at the end of its first step.
        assert_eq!(cluster.next_end(), (252, 0));
        assert_eq!(migrations.in_transfer().count(), 0);
    }

    #[test]
    fn a_live_migration_keeps_the_request_running_while_its_kv_is_copied() {
        let (mut cluster, mut router, mut migrations) = unbalanced();
        let live = Live { stages: 1, last_blocks: 0 };
        Monitors::new(&[balance(Some(live))]).run(&mut cluster, &mut router, &mut migrations, 200).unwrap();
        assert_eq!(migrations.next_delivery(), 200, "without links a copy takes no time");
        assert_eq!((cluster.outstanding(0), migrations.in_transfer().count()), (2, 0));
        migrations.deliver(&mut cluster, 200);
        assert!(
            migrations.is_under_way(RequestNumber(1)),
            "the copy is delivered, and the request is to leave"
        );
        assert_eq!(cluster.next_end(), (252, 0));
    }

    #[test]
    fn a_balanced_cluster_is_left_alone() {
        let mut cluster = cluster(&[10, 10], &[row(0, 20, 50), row(0, 30, 50)]);
        cluster.send(0, 0, 0);
        cluster.send(1, 1, 0);
        cluster.start_steps(0).unwrap();
        let mut router = router(&cluster);
        let mut migrations = Migrations::new(None, None, 2);
        Monitors::new(&[balance(None)]).run(&mut cluster, &mut router, &mut migrations, 100).unwrap();
        assert!(!migrations.is_under_way(RequestNumber(0)) && !migrations.is_under_way(RequestNumber(1)));
    }
}
