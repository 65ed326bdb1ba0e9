//! The requests of each instance, which the rules for arrivals pick before any is served.

use crate::config::Config;
use crate::engine::arrival_rules::ArrivalRules;
use crate::engine::arrivals::{Entrance, Sending, no_instance};
use crate::engine::cluster::Cluster;
use crate::engine::known::Known;
use crate::engine::router::{Decision, Router};
use crate::engine::setup;
use crate::error::Error;
use crate::instance::Instance;
use crate::metrics::{OptionalColumns, Reason, Recorder};
use crate::time::{HORIZON, NEVER, TICKS_PER_SECOND, Ticks};
use crate::trace::Trace;

/// An instance, and the rows of the requests that are sent to it.
#[derive(Debug)]
pub struct Share {
    pub(super) index: usize,
    pub(super) instance: Instance,
    pub(super) rows: Vec<u32>,
}

impl Share {
    /// How many requests are sent to it.
    pub fn requests(&self) -> usize {
        self.rows.len()
    }
}

/// The requests of a trace by the instance to which they are sent.
#[derive(Debug)]
pub(super) struct Shares {
    /// The requests, as they come to the routers.
    pub(super) trace: Trace,
    /// Those that are rejected, and why.
    pub(super) rejected: Vec<(u32, Reason)>,
    /// How many come to a router before the end of the simulated time.
    pub(super) arrived: usize,
    /// When the last of these does.
    pub(super) last: Ticks,
}

/// The requests of each instance so far.
#[derive(Debug)]
struct Routed {
    rows: Vec<Vec<u32>>,
    rejected: Vec<(u32, Reason)>,
}

impl Shares {
    /// The requests of a trace, and the instances of a configuration with those that are sent to each.
    ///
    /// # Errors
    ///
    /// If the trace breaks a rule, a request arrives too late, or a rule picks no instance.
    pub(super) fn new(config: &Config, mut trace: Trace) -> Result<(Self, Vec<Share>), Error> {
        trace.validate()?;
        let instances = setup::instances(config, &trace, false)?;
        let mut routing = config.routing.clone();
        routing.prepare();
        let mut router = Router::new(&instances, &routing, config.routers, None);
        router.keep_books(&mut routing, instances.len(), &trace)?;
        let mut rules = ArrivalRules::new(routing.on_arrival, None, 0);
        let mut entrance = Entrance::new(&config.entrance, Sending::Trace, &mut trace);
        let known = Known::new(config, &trace, &[]);
        let mut routed = Routed { rows: vec![Vec::new(); instances.len()], rejected: Vec::new() };
        let recorder = Recorder::new(0, OptionalColumns::default());
        let mut cluster =
            Cluster::new(instances, setup::roles(config, config.instances.len()), trace, recorder, known);
        let until = config.until.unwrap_or(NEVER - 1);
        let (mut arrived, mut last) = (0, 0);
        while entrance.next() <= until {
            let now = entrance.next();
            let (trace, recorder) = cluster.recording();
            let Some(row) = entrance.take(now, trace, recorder) else { break };
            if now > HORIZON {
                return Err(Error::LateArrival { row, seconds: now / TICKS_PER_SECOND });
            }
            routed.route(row, (&mut rules, &mut router), &mut cluster, now)?;
            (arrived, last) = (arrived + 1, now);
        }
        let (instances, trace) = cluster.into_instances();
        let pairs = std::iter::zip(instances, routed.rows).enumerate();
        let each = pairs.map(|(index, (instance, rows))| Share { index, instance, rows }).collect();
        Ok((Self { trace, rejected: routed.rejected, arrived, last }, each))
    }
}

impl Routed {
    /// Asks the rules about a request that arrives.
    fn route(
        &mut self,
        row: usize,
        (rules, router): (&mut ArrivalRules, &mut Router),
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<(), Error> {
        let reason = router.rejects(row, cluster);
        if reason != Reason::None {
            self.rejected.push((row as u32, reason));
            return Ok(());
        }
        match rules.decide(row, router, cluster, now)? {
            Decision::Send(index) => self.rows[index].push(row as u32),
            Decision::Reject => self.rejected.push((row as u32, Reason::Policy)),
            Decision::Hold(_) | Decision::None => return Err(no_instance(row, cluster)),
        }
        Ok(())
    }
}
