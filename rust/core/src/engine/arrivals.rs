//! Routes requests as they arrive.

use super::cluster::Cluster;
use super::decode_targets::DecodeTargets;
use super::router::Router;
use crate::error::Error;
use crate::metrics::Reason;
use crate::policy::Rule;
use crate::time::{NEVER, Ticks};

/// The requests of the trace that have not arrived, and the rule that routes them.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The rule that picks their instances.
    rule: Rule,
    /// The row of the next request.
    next: usize,
}

impl Arrivals {
    /// All requests, routed by `rule`.
    pub(super) fn new(rule: Rule) -> Self {
        Self { rule, next: 0 }
    }

    /// When the next request arrives; [`NEVER`] if all have arrived.
    #[inline]
    pub(super) fn next(&self, cluster: &Cluster) -> Ticks {
        cluster.trace().arrival.get(self.next).copied().unwrap_or(NEVER)
    }

    /// Routes all requests that arrive now, in the order of the trace. A request that no instance could ever serve is
    /// rejected.
    #[inline]
    pub(super) fn route(
        &mut self,
        cluster: &mut Cluster,
        router: &mut Router,
        mut targets: Option<&mut DecodeTargets>,
        now: Ticks,
    ) -> Result<(), Error> {
        while self.next(cluster) == now {
            let row = self.next;
            self.next += 1;
            cluster.count_event();
            let (prompt, output) = (cluster.trace().prompt_tokens[row], cluster.trace().output_tokens[row]);
            let reason = router.rejects(prompt, output, cluster.instances());
            if reason != Reason::None {
                cluster.reject(row, reason);
                continue;
            }
            let Some(index) = router.pick_on_arrival(&self.rule, row, cluster, now)? else {
                let rule = format!("must give an instance for every arrival, gave none for row {row}");
                return Err(Error::config("routing.on_arrival", rule));
            };
            if let Some(targets) = &mut targets {
                targets.pick(row, index, router, cluster, now)?;
            }
            cluster.send(row, index, now);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{cluster, row};

    #[test]
    fn requests_that_arrive_together_are_routed_in_order_and_hopeless_ones_rejected() {
        let rows = [row(5, 20, 2), row(5, 9_999, 2), row(5, 30, 2), row(6, 20, 2)];
        let mut cluster = cluster(&[10, 10], &rows);
        let mut router = Router::new(cluster.instances(), 1, None);
        let mut arrivals = Arrivals::new(Rule::RoundRobin { turn: 0, within: None });
        assert_eq!(arrivals.next(&cluster), 5);
        arrivals.route(&mut cluster, &mut router, None, 5).unwrap();
        assert_eq!(arrivals.next(&cluster), 6);
        assert_eq!((cluster.outstanding(0), cluster.outstanding(1)), (1, 1));
        assert_eq!((cluster.settled(), cluster.events()), (1, 3), "one is rejected, and three arrived");
        arrivals.route(&mut cluster, &mut router, None, 6).unwrap();
        assert_eq!(arrivals.next(&cluster), NEVER);
        assert_eq!((cluster.outstanding(0), cluster.outstanding(1)), (2, 1));
    }

    #[test]
    fn a_rule_that_picks_no_instance_for_an_arrival_is_an_error() {
        let mut cluster = cluster(&[10], &[row(0, 20, 2)]);
        let mut router = Router::new(cluster.instances(), 0, None);
        let error =
            Arrivals::new(Rule::Stay { when: None }).route(&mut cluster, &mut router, None, 0).unwrap_err();
        assert!(error.to_string().contains("routing.on_arrival: must give an instance"), "{error}");
    }
}
