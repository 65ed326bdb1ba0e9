//! The instances on which requests are to decode, where these are picked as requests arrive.

use super::cluster::Cluster;
use super::router::Router;
use crate::error::Error;
use crate::policy::Rule;
use crate::time::Ticks;

/// Means that no instance was picked.
const NONE: u32 = u32::MAX;

/// See the module.
#[derive(Debug)]
pub(super) struct DecodeTargets {
    /// The rule that picks them.
    rule: Rule,
    /// By row of the trace: the instance.
    picked: Vec<u32>,
}

impl DecodeTargets {
    /// No target for any of `requests` requests yet.
    pub(super) fn new(rule: Rule, requests: usize) -> Self {
        Self { rule, picked: vec![NONE; requests] }
    }

    /// Picks the instance for a request that arrives and whose prompt `prefill` is to compute.
    pub(super) fn pick(
        &mut self,
        row: usize,
        prefill: usize,
        router: &mut Router,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<(), Error> {
        let picked = router.pick_with_prefill(&self.rule, (row, prefill), cluster, now)?;
        self.picked[row] = picked.map_or(NONE, |index| index as u32);
        Ok(())
    }

    /// The instance that was picked for a request, if one was.
    pub(super) fn of(&self, request: u32) -> Option<usize> {
        let picked = self.picked[request as usize];
        (picked != NONE).then_some(picked as usize)
    }
}
