//! The rules that are asked as a request arrives: where it is sent, and where it is to decode.

use crate::collections::Column;
use crate::engine::cluster::Cluster;
use crate::engine::router::{Decision, Router};
use crate::error::Error;
use crate::hint::rare;
use crate::policy::Rule;
use crate::time::Ticks;

/// Means that no instance was picked.
const NONE: u32 = u32::MAX;

/// The rules for arrivals of a replay.
#[derive(Debug)]
pub(super) struct ArrivalRules {
    /// Picks the instance to which a request is sent.
    on_arrival: Rule,
    /// Picks the instance to which it migrates once its prefill has ended, if that is picked as it arrives.
    decode: Option<Rule>,
    /// Whether requests are offered to the instance that `decode` picked as they arrive.
    announces: bool,
    /// By row of the trace: the instance that `decode` picked.
    targets: Column<u32>,
}

crate::checkpoint::checkpointed!(ArrivalRules {
    values: targets;
    fixed: on_arrival, decode, announces;
});

impl ArrivalRules {
    /// The rules of a replay of so many requests.
    pub(super) fn new(on_arrival: Rule, decode: Option<Rule>, requests: usize) -> Self {
        let targets = if decode.is_some() { vec![NONE; requests].into() } else { Column::default() };
        Self { on_arrival, decode, announces: false, targets }
    }

    /// Has requests offered as they arrive to the instance on which they are to decode, if `announces`.
    pub(super) fn announcing(self, announces: bool) -> Self {
        Self { announces, ..self }
    }

    /// Sends a request to the instance that was picked; or first offers it to the one on which it is to decode.
    pub(super) fn send(&self, row: usize, index: usize, cluster: &mut Cluster, now: Ticks) {
        if self.announces
            && let Some(target) = self.target(row as u32)
            && target != index
        {
            rare();
            cluster.announce(row, index, target, now);
        } else {
            cluster.send(row, index, now);
        }
    }

    /// Adds requests that have not arrived until there are `n`.
    pub(super) fn grow_to(&mut self, n: usize) {
        if self.decode.is_some() {
            self.targets.resize(n, NONE);
        }
    }

    /// Forgets the requests before `row`, which have ended.
    pub(super) fn forget(&mut self, row: usize) {
        self.targets.forget(row);
    }

    /// Asks the rules about a request that arrives, or that a router holds.
    pub(super) fn decide(
        &mut self,
        row: usize,
        router: &mut Router,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Decision, Error> {
        let Some(rule) = &self.decode else {
            return router.decide_on_arrival(&self.on_arrival, row, cluster, now);
        };
        rare();
        let decision = router.decide_on_arrival(&self.on_arrival, row, cluster, now)?;
        if let Decision::Send(prefill) = decision {
            let picked = router.pick_with_prefill(rule, (row, prefill), cluster, now)?;
            self.targets[row] = picked.map_or(NONE, |index| index as u32);
            if let Some(index) = picked {
                cluster.count_decode(row, index);
                router.book_decode(row as u32, index, cluster);
            }
        }
        Ok(decision)
    }

    /// The instance on which a request is to decode, if that was picked as it arrived.
    pub(super) fn target(&self, request: u32) -> Option<usize> {
        let picked = self.targets.get(request as usize).copied().filter(|&picked| picked != NONE)?;
        Some(picked as usize)
    }
}
