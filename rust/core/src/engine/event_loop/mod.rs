//! The event loop: takes the next moment at which something happens, and runs its six phases.
//!
//! The order of events is total. At one moment ([`Simulation::run_moment`]):
//!
//! 1. **end steps**: the steps that end now end, by instance; then instances whose delay ends now join their pool; then
//!    instances report to the routers, if a report is due; then requests are cancelled whose clients do so now;
//! 2. **route phase changes**: the rules are asked about requests whose prefill or reasoning ended in these steps;
//! 3. **deliver transfers**: requests and copies whose transfer ends now reach their target;
//! 4. **run monitors**: the monitors that are due run;
//! 5. **route arrivals**: requests that routers hold are routed if they may go, then the requests that arrive now, in
//!    the order of the trace;
//! 6. **start steps**: the instances that are free start a step.
//!
//! So a step sees every request that arrived by its start, and a rule sees the tokens of each instance as of its
//! last finished step.

mod extent;

pub(super) use extent::Extent;

use super::arrivals::Arrivals;
use super::cluster::Cluster;
use super::live_migration::Migrations;
use super::lockstep::LockedSteps;
use super::monitors::Monitors;
use super::phase_routing::PhaseRouting;
use super::roles::FlipRecord;
use super::router::Router;
use super::sampling::Sampling;
use super::transfer_log::TransferRecord;
use crate::error::Error;
use crate::hint::rare;
use crate::instance::{StepColumns, TierLog};
use crate::metrics::{Columns, InstanceStats, NetworkStats, Sketch, StoreStats};
use crate::time::{NEVER, Ticks};
use crate::timeline::Rows;

/// How many reports of a cluster in which nothing happens may let a held request go: after so many, none will.
const MOST_QUIET: u64 = 1_000_000;

/// The kinds of events, besides arrivals and ends of steps, that the configuration allows: the loop asks for no other.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a kind of events")]
pub(super) struct CanHappen {
    /// Whether nothing else can.
    pub(super) nothing: bool,
    /// Whether the time that passes may let a held request go: the rule reads for how long it has waited.
    pub(super) passing: bool,
    /// Whether requests may arrive as others end.
    pub(super) reactions: bool,
    /// Whether requests may be cancelled.
    pub(super) cancels: bool,
    /// Whether a rule or a monitor may migrate requests; if not, phases 2 to 4 have nothing to do.
    pub(super) migrations: bool,
    /// Whether instances share a store, so that all steps of a moment end before one starts.
    pub(super) shares: bool,
    /// Whether there are monitors, reports, roles that change or steps in lockstep.
    pub(super) timers: bool,
}

/// A replay: a state machine that is advanced until it is done.
#[derive(Debug)]
pub struct Simulation {
    /// The instances.
    pub(super) cluster: Cluster,
    /// Picks instances by rules.
    pub(super) router: Router,
    /// Routes requests as they arrive.
    pub(super) arrivals: Arrivals,
    /// Routes requests whose phase has changed.
    pub(super) phase_routing: PhaseRouting,
    /// Run periodically, and migrate requests.
    pub(super) monitors: Monitors,
    /// Requests that migrate between instances.
    pub(super) migrations: Migrations,
    /// Starts steps: of each instance on its own, or of all together.
    pub(super) locked: LockedSteps,
    /// Samples the instances, if that is asked for.
    pub(super) sampling: Sampling,
    /// The kinds of events besides arrivals and ends of steps.
    pub(super) can_happen: CanHappen,
    /// The moment of the latest event.
    pub(super) clock: Ticks,
    /// Whether instances reported at the present moment.
    pub(super) reported: bool,
    /// Reports since anything else happened.
    pub(super) quiet: u64,
    /// Whether the replay has ended.
    pub(super) done: bool,
    /// How far it runs.
    pub(super) extent: Extent,
}

crate::checkpoint::checkpointed!(Simulation {
    values: clock, reported, quiet, done, extent;
    parts: cluster, router, arrivals, phase_routing, monitors, migrations, locked, sampling;
    fixed: can_happen;
});

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Requests that finished or were rejected.
    pub settled: u64,
    /// Requests in the trace.
    pub total: u64,
    /// The simulated time.
    pub clock: Ticks,
}

/// The result of a replay.
#[derive(Debug)]
pub struct Outcome {
    /// One entry a request.
    pub columns: Columns,
    /// Gaps between consecutive tokens of a request, over all requests.
    pub gaps: Sketch,
    /// One entry an instance.
    pub stats: Vec<InstanceStats>,
    /// Statistics of the network between instances.
    pub network: NetworkStats,
    /// The simulated time at the end.
    pub end: Ticks,
    /// Events that were simulated: the work of the replay.
    pub events: u64,
    /// The steps of each instance, if decisions were recorded.
    pub decisions: Vec<StepColumns>,
    /// The actions of each instance's steps on its tier, where decisions are recorded and it has one.
    pub tiers: Vec<Option<Box<TierLog>>>,
    /// The counters of stores below the tiers of instances, by number, but for those that no instance has.
    pub stores: Vec<StoreStats>,
    /// The watched number of each instance as requests arrived, one request after another.
    pub watched: Vec<f64>,
    /// The changes of instances' roles, in order.
    pub flips: Vec<FlipRecord>,
    /// The transfers of KV between instances in the order in which they were sent, if decisions were recorded.
    pub transfers: Vec<TransferRecord>,
    /// The instances over time, if the replay was sampled.
    pub timeline: Option<Rows>,
}

impl Simulation {
    /// Advances by about `budget` events. Returns whether the replay is done.
    ///
    /// # Errors
    ///
    /// If the clock would pass its range, if a rule cannot pick, if requests are left that can never finish, or if more
    /// steps are to be recorded than there is room for.
    pub fn advance(&mut self, budget: u64) -> Result<bool, Error> {
        let stop = self.cluster.events().saturating_add(budget);
        while !self.done && self.cluster.events() < stop {
            self.arrivals.hear(&mut self.cluster, self.clock);
            if self.extent.halfway {
                rare();
                if self.extent.pause == self.clock {
                    break;
                }
                self.finish_pause()?;
                continue;
            }
            let (end, index) = self.cluster.next_end();
            // Another instance may have to learn of the end of a copy at the moment at which the last request finishes.
            if self.cluster.settled() == self.arrivals.expected(&self.cluster)
                && !self.extent.streams
                && end > self.clock
            {
                // Copies that are still in transfer belong to requests that finished.
                if !self.extent.stays {
                    self.halt(self.clock);
                }
                break;
            }
            let others = self.next_other();
            let now = end.min(others);
            if now == NEVER || end == NEVER && !self.can_happen.nothing && self.is_stuck() {
                if self.arrivals.has_news(&self.cluster) {
                    // An instance dropped a request as it formed a step, and a request that is held may go.
                    self.run_moment(self.clock)?;
                    continue;
                }
                if self.extent.pause == NEVER {
                    let expected = self.arrivals.expected(&self.cluster);
                    return Err(self.cluster.no_progress(expected, self.arrivals.held(), self.clock));
                }
            }
            if now >= self.extent.pause {
                rare();
                self.reach_pause(now);
                break;
            }
            if now > self.extent.until {
                self.halt(self.extent.until);
                break;
            }
            self.begin_moment(now);
            if others == now || !self.restart_step(index, now)? {
                self.run_moment(now)?;
            }
        }
        self.cluster.record_full().map_or(Ok(self.done), Err)
    }

    /// When something happens next that is not the end of a step.
    pub(super) fn next_other(&self) -> Ticks {
        if self.can_happen.nothing {
            return self.arrivals.next_arrival();
        }
        rare();
        let comes = self.arrivals.next(&self.cluster).min(self.migrations.next_delivery());
        if !self.can_happen.timers {
            return comes;
        }
        rare();
        let roles = self.monitors.next().min(self.cluster.next_role());
        comes.min(roles).min(self.cluster.known().next_report()).min(self.locked.idle_until())
    }

    /// Whether nothing will happen any more but monitors, and reports that let no request go. No instance is in a step.
    #[inline(never)]
    fn is_stuck(&self) -> bool {
        let comes = self.arrivals.next(&self.cluster).min(self.migrations.next_delivery());
        comes.min(self.next_news()).min(self.locked.idle_until()) == NEVER
    }

    /// When a report is taken or an instance joins a pool, which may let a request go that is held; [`NEVER`] if none will.
    fn next_news(&self) -> Ticks {
        if self.arrivals.held() == 0 {
            return NEVER;
        }
        let known = self.cluster.known();
        let report = if self.can_happen.passing && self.quiet < MOST_QUIET {
            known.next_report()
        } else {
            known.next_news(self.cluster.happenings())
        };
        report.min(self.cluster.next_role())
    }

    /// Samples the instances up to a moment, if that is due, and moves the clock there.
    pub(super) fn begin_moment(&mut self, now: Ticks) {
        if self.sampling.next() < now {
            rare();
            self.sampling.sample(now - 1, &mut self.cluster);
        }
        if self.can_happen.migrations && now == self.clock {
            rare();
            // A transfer that took no time: the steps that start at this moment have started.
            self.cluster.begin_steps(now);
        }
        self.clock = now;
    }

    /// Handles everything that happens at one moment.
    fn run_moment(&mut self, now: Ticks) -> Result<(), Error> {
        self.end_steps(now);
        self.finish_moment(now)
    }

    /// Handles what happens at one moment once the steps that end then have ended.
    pub(super) fn finish_moment(&mut self, now: Ticks) -> Result<(), Error> {
        self.route_phase_changes(now)?;
        self.deliver_transfers(now);
        self.run_monitors(now)?;
        self.route_arrivals(now)?;
        self.start_steps(now)
    }

    /// Ends a step at a moment at which only steps end. If no rule must see the cluster first, starts the next step of
    /// the instance at once, which gives the same result as the six phases. Returns whether it did.
    pub(super) fn restart_step(&mut self, index: usize, now: Ticks) -> Result<bool, Error> {
        self.cluster.end_step(index, now);
        self.router.hear(&mut self.cluster, now);
        self.arrivals.hear(&mut self.cluster, now);
        if self.can_happen.nothing || self.may_restart(index, now) {
            self.cluster.start_step(index, now)?;
            if self.follow_starts(now) {
                rare();
                self.start_steps(now)?;
            }
            return Ok(true);
        }
        self.cluster.free(index);
        Ok(false)
    }

    /// Whether no rule must see the cluster, and no other instance must end its step, before an instance whose step has
    /// ended starts the next.
    fn may_restart(&self, index: usize, now: Ticks) -> bool {
        let CanHappen { migrations, reactions, shares, .. } = self.can_happen;
        let asks = migrations || reactions || shares || self.arrivals.held() > 0;
        let together =
            self.can_happen.timers && (self.locked.are_together() || self.cluster.known().is_relayed(false));
        let alone = || {
            let released = self.migrations.may_release(&self.cluster);
            !released && self.arrivals.held() == 0 && self.cluster.is_alone(index, now)
        };
        !together && (!asks || alone() && self.arrivals.next_arrival() > now)
    }

    /// Phase 1: the steps that end now end, by instance; then instances whose delay ends now join their pool; then
    /// instances report to the routers, if a report is due; then clients cancel requests.
    pub(super) fn end_steps(&mut self, now: Ticks) {
        self.cluster.end_steps(now);
        if self.can_happen.timers {
            rare();
            if self.cluster.known().is_relayed(false) && self.locked.step_ends(&self.cluster, now) {
                self.cluster.tell(false, self.locked.step(), self.locked.are_together(), now);
            }
            self.locked.end_step(&self.cluster, now);
        }
        self.hear_of_ends(now);
        if self.can_happen.timers {
            rare();
            self.reported = self.cluster.known().next_report() <= now;
            if self.reported {
                let news = self.cluster.known().has_news(self.cluster.happenings());
                self.quiet = if news { 0 } else { self.quiet + 1 };
                self.cluster.report(now);
            }
        }
        if self.can_happen.cancels && self.arrivals.next_cancel() <= now {
            rare();
            self.cancel_due(now);
        }
    }

    /// Has the requests leave whose clients cancel them now, those that run once their step has ended.
    #[inline(never)]
    fn cancel_due(&mut self, now: Ticks) {
        let Self { arrivals, cluster, migrations, .. } = self;
        while let Some((request, offered)) =
            arrivals.cancel(cluster, |request| migrations.awaits_acceptance(request), now)
        {
            if let Some((target, origin)) = offered {
                migrations.withdraw(target, request, &origin, cluster, now);
            }
        }
        self.hear_of_ends(now);
    }

    /// Tells the routers and the source of the requests that have ended.
    fn hear_of_ends(&mut self, now: Ticks) {
        self.router.hear(&mut self.cluster, now);
        self.arrivals.hear(&mut self.cluster, now);
        self.cluster.forget_closed();
    }

    /// Phase 2: the rules are asked about requests whose prefill or reasoning ended in these steps.
    fn route_phase_changes(&mut self, now: Ticks) -> Result<(), Error> {
        if self.can_happen.migrations && self.cluster.has_free() {
            rare();
            self.phase_routing.route(
                &mut self.cluster,
                &mut self.router,
                &mut self.migrations,
                &self.arrivals,
                now,
            )?;
        }
        Ok(())
    }

    /// Phase 3: requests and copies whose transfer ends now reach their target.
    fn deliver_transfers(&mut self, now: Ticks) {
        if self.can_happen.migrations {
            rare();
            self.migrations.deliver(&mut self.cluster, now);
            if self.can_happen.cancels {
                self.hear_of_ends(now);
            }
        }
    }

    /// Phase 4: the monitors that are due run. Transfers that they start and that take no time are delivered too.
    fn run_monitors(&mut self, now: Ticks) -> Result<(), Error> {
        if self.can_happen.migrations && self.monitors.next() <= now {
            rare();
            self.monitors.run(&mut self.cluster, &mut self.router, &mut self.migrations, now)?;
            self.deliver_transfers(now);
        }
        Ok(())
    }

    /// Phase 5: requests that routers hold are routed if they may go, then the requests that arrive now, in the order
    /// of the trace.
    fn route_arrivals(&mut self, now: Ticks) -> Result<(), Error> {
        self.arrivals.route(self.reported, &mut self.cluster, &mut self.router, now)?;
        self.migrations.reserve(&mut self.cluster);
        Ok(())
    }

    /// Phase 6: the instances that are free start a step. The KV of the requests that they accept is sent. Then a relay
    /// reads what it was told.
    fn start_steps(&mut self, now: Ticks) -> Result<(), Error> {
        loop {
            if self.can_happen.timers {
                rare();
                self.locked.start_steps(&mut self.cluster, now)?;
            } else {
                self.cluster.start_steps(now)?;
            }
            if self.follow_starts(now) {
                continue;
            }
            self.reported = self.can_happen.timers && self.cluster.relay(now) && self.arrivals.held() > 0;
            if !self.reported {
                return Ok(());
            }
            self.route_arrivals(now)?;
        }
    }

    /// Sends the KV of the requests that were accepted in the steps which start now, then offers the requests whose
    /// prompts end with these steps, if transfers overlap with them. Returns whether an instance may start a step because
    /// of that.
    fn follow_starts(&mut self, now: Ticks) -> bool {
        let Self { migrations, cluster, arrivals, .. } = self;
        if !migrations.hand_over() {
            return false;
        }
        rare();
        let released = migrations.release_ended(cluster, now);
        let freed = migrations.send_accepted(cluster, now);
        let target = |request| arrivals.decode_target(request);
        migrations.offer_last_steps(target, cluster, now) || freed || released && cluster.has_free()
    }

    /// Stops the replay at `now`.
    #[inline(never)]
    pub(super) fn halt(&mut self, now: Ticks) {
        self.clock = now;
        self.sampling.finish(now, &mut self.cluster);
        self.cluster.halt(self.migrations.in_transfer(), now);
        self.cluster.halt_announced(self.migrations.awaiting_acceptance());
        self.arrivals.halt(&mut self.cluster, now);
        self.done = true;
    }

    /// How far the replay is.
    pub fn progress(&self) -> Progress {
        let total = self.cluster.trace().len() as u64;
        Progress { settled: self.cluster.settled(), total, clock: self.clock }
    }

    /// The result.
    pub fn into_outcome(mut self) -> Outcome {
        let (end, events) = (self.clock, self.cluster.events());
        if let Some(places) = self.arrivals.places() {
            self.cluster.order_by(&places);
        }
        let network = self.migrations.network_stats(end);
        let timeline = self.sampling.into_rows();
        let recorded = self.cluster.into_recorded();
        Outcome {
            columns: recorded.columns,
            gaps: recorded.gaps,
            stats: recorded.stats,
            network,
            end,
            events,
            decisions: recorded.decisions,
            tiers: recorded.tiers,
            stores: recorded.stores,
            watched: self.router.into_watched(),
            flips: recorded.flips,
            transfers: self.migrations.into_records(recorded.origins.as_deref()),
            timeline,
        }
    }
}

#[cfg(test)]
mod tests;
