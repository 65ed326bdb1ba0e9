//! Instances that start their steps together.
//!
//! The data-parallel ranks of a mixture of experts schedule on their own, but in every layer they exchange tokens for
//! the experts that they share. So no rank starts a step before all ranks have ended theirs, and a step lasts as long
//! as the slowest rank's own part and the part that depends on the tokens of all ranks. A rank without requests takes
//! part with one token. If the ranks agree only at some steps whether to go on, they step on up to the next of these,
//! though none has a request, and an arrival waits for the end of the step. With a balance, prompts wait until every rank
//! has one that fits, or for a number of steps, so that the prompts of several ranks share a step.
//!
//! The balance follows TensorRT-LLM 1.2: `_balance_adp_requests` of `PyExecutor`, and `_pad_attention_dp_dummy_request`,
//! by which a rank without requests counts as one with a decode. The rest follows vLLM 0.19: `core.py`
//! (`DPEngineCoreProc.run_busy_loop`, which runs idle ranks along) and `dp_utils.py` (`coordinate_batch_across_dp`,
//! which pads all ranks to the longest where it runs CUDA graphs). Layers are not simulated one by one: that a different
//! rank may be the slowest in each layer is not modelled.

use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use crate::config::{Balance, Lockstep, Sync};
use crate::error::Error;
use crate::instance::{Instance, Prospect};
use crate::time::{NEVER, Ticks};

/// Instances that step together, or each on its own.
#[derive(Debug)]
pub(super) struct LockedSteps {
    /// The resources that they share; `None` if each steps on its own.
    lockstep: Option<Lockstep>,
    /// Steps since the instances began to step, each with at least one request at first.
    steps: u64,
    /// Steps so far.
    total: u64,
    /// Whether the instances are in a step.
    in_step: bool,
    /// When the step ends in which no instance has a request; [`NEVER`] if they are in no such step.
    idle_until: Ticks,
    /// How long prompts have waited for those of other instances.
    waits: Waits,
}

/// The steps for which prompts have waited for those of other instances, see [`Balance`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Waits {
    /// Steps in which not every instance had a prompt, since prompts were let pass or every instance had one.
    lacking: u64,
    /// Steps in which every instance had a prompt and ran requests, since prompts were let pass in such a step.
    gathering: u64,
}

impl Waits {
    /// Whether the next step holds prompts back, and the waits with that step.
    fn next(self, rule: Balance, prospects: impl Iterator<Item = Prospect>) -> (bool, Self) {
        let (mut prompts, mut decodes) = (true, true);
        for prospect in prospects {
            prompts &= prospect.prompts;
            decodes &= prospect.decodes;
        }
        if !prompts {
            let lacking = self.lacking + 1;
            let passes = lacking >= rule.timeout_steps || !decodes;
            return (!passes, Self { lacking: if passes { 0 } else { lacking }, ..self });
        }
        let held = decodes && self.gathering < rule.gather_steps;
        let gathering = if decodes { 0 } else { self.gathering };
        (held, Self { lacking: 0, gathering: if held { self.gathering + 1 } else { gathering } })
    }
}

crate::checkpoint::checkpointed!(LockedSteps {
    values: steps, total, in_step, idle_until, waits;
    fixed: lockstep;
});

impl LockedSteps {
    /// Instances that are idle.
    pub(super) fn new(lockstep: Option<Lockstep>) -> Self {
        Self { lockstep, steps: 0, total: 0, in_step: false, idle_until: NEVER, waits: Waits::default() }
    }

    /// Whether they step together.
    pub(super) fn are_together(&self) -> bool {
        self.lockstep.is_some()
    }

    /// The number of the present step, of all that are taken together.
    pub(super) fn step(&self) -> u64 {
        self.total
    }

    /// When the step ends in which no instance has a request; [`NEVER`] if they are in no such step.
    pub(super) fn idle_until(&self) -> Ticks {
        self.idle_until
    }

    /// Whether a step ends at this moment: of any instance if each steps on its own, else the step of all.
    pub(super) fn step_ends(&self, cluster: &Cluster, now: Ticks) -> bool {
        let idles = self.idle_until != NEVER && self.idle_until > now;
        self.lockstep.is_none() || self.in_step && !idles && cluster.is_idle()
    }

    /// Notes that a step has ended, if one has. At the steps at which the instances agree on that, they stop if none of
    /// them has a request.
    pub(super) fn end_step(&mut self, cluster: &Cluster, now: Ticks) {
        if self.in_step {
            self.end_common_step(cluster, now);
        }
    }

    /// See [`Self::end_step`].
    #[inline(never)]
    fn end_common_step(&mut self, cluster: &Cluster, now: Ticks) {
        if !self.step_ends(cluster, now) {
            return;
        }
        (self.in_step, self.idle_until) = (false, NEVER);
        (self.steps, self.total) = (self.steps + 1, self.total + 1);
        let agrees = |sync: Sync| self.steps.is_multiple_of(sync.every) || sync.first && self.steps == 1;
        let sync = self.lockstep.as_ref().and_then(|lockstep| lockstep.sync);
        if sync.is_none_or(agrees) && !cluster.has_requests() {
            self.steps = 0;
        }
    }

    /// Starts a step on all instances that have one to run, unless they step together and one is still in a step.
    pub(super) fn start_steps(&mut self, cluster: &mut Cluster, now: Ticks) -> Result<(), Error> {
        if self.lockstep.is_some() {
            return self.start_together(cluster, now);
        }
        cluster.tell(true, 0, false, now);
        cluster.start_steps(now)
    }

    /// See [`Self::start_steps`].
    #[inline(never)]
    fn start_together(&mut self, cluster: &mut Cluster, now: Ticks) -> Result<(), Error> {
        let Some(lockstep) = &self.lockstep else { return Ok(()) };
        if self.idle_until != NEVER || !cluster.is_idle() {
            return Ok(());
        }
        cluster.sort_free();
        cluster.tell(true, self.total, true, now);
        let waits = match lockstep.balance {
            None => self.waits,
            Some(rule) => {
                let (held, waits) = self.waits.next(rule, cluster.prospects(now));
                cluster.hold_prompts(held);
                waits
            }
        };
        cluster.start_steps(now)?;
        let instances = cluster.instances();
        let tokens = instances.iter().map(|instance| instance.step_tokens().unwrap_or(1));
        let shared = lockstep.shared.at(computed_tokens(tokens, lockstep.padded));
        if let Some(own) = instances.iter().filter_map(Instance::step_ticks).max() {
            (self.in_step, self.waits) = (true, waits);
            return cluster.stretch_steps(own.saturating_add(shared), now);
        }
        if lockstep.sync.is_some() && self.steps > 0 {
            let own =
                instances.iter().map(|instance| instance.settings().predicted_prefill(1)).max().unwrap_or(0);
            self.in_step = true;
            self.idle_until = now.saturating_add(own).saturating_add(shared);
        }
        Ok(())
    }
}

/// The tokens that all instances compute together: the sum of `tokens`, or, if no instance has more than `padded`, as
/// many on each instance as on the one with the most.
fn computed_tokens(tokens: impl Iterator<Item = u64>, padded: u64) -> u64 {
    let (mut n, mut total, mut most) = (0, 0_u64, 0);
    for tokens in tokens {
        (n, total, most) = (n + 1, total.saturating_add(tokens), most.max(tokens));
    }
    if most <= padded { most * n } else { total }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_batches_are_padded_to_the_largest() {
        let tokens = || [3, 1, 8].into_iter();
        assert_eq!(computed_tokens(tokens(), 8), 24);
        assert_eq!(computed_tokens(tokens(), 7), 12);
        assert_eq!(computed_tokens(tokens(), 0), 12);
    }

    const IDLE: Prospect = Prospect { prompts: false, decodes: true };
    const NEW: Prospect = Prospect { prompts: true, decodes: false };
    const BOTH: Prospect = Prospect { prompts: true, decodes: true };

    /// Whether each of these steps of two instances holds prompts back.
    fn held(timeout_steps: u64, gather_steps: u64, steps: &[[Prospect; 2]]) -> Vec<bool> {
        let mut waits = Waits::default();
        let rule = Balance { timeout_steps, gather_steps };
        steps
            .iter()
            .map(|step| {
                let (held, after) = waits.next(rule, step.iter().copied());
                waits = after;
                held
            })
            .collect()
    }

    #[test]
    fn prompts_wait_for_those_of_the_other_instance() {
        assert_eq!(held(9, 0, &[[BOTH, IDLE], [BOTH, IDLE], [BOTH, BOTH]]), [true, true, false]);
        assert_eq!(held(3, 0, &[[BOTH, IDLE]; 6]), [true, true, false, true, true, false]);
        // Steps count though no instance has a prompt, and those in which each has one end the count.
        assert_eq!(held(3, 0, &[[IDLE, IDLE], [IDLE, IDLE], [BOTH, IDLE]]), [true, true, false]);
        let steps = [[BOTH, IDLE], [BOTH, IDLE], [BOTH, BOTH], [BOTH, IDLE], [BOTH, IDLE]];
        assert_eq!(held(3, 0, &steps), [true, true, false, true, true]);
    }

    #[test]
    fn an_instance_with_prompts_alone_ends_the_wait_of_all() {
        assert_eq!(held(9, 0, &[[BOTH, IDLE], [NEW, IDLE], [BOTH, IDLE]]), [true, false, true]);
        assert_eq!(held(2, 0, &[[BOTH, IDLE], [NEW, IDLE], [BOTH, IDLE]]), [true, false, true]);
    }

    #[test]
    fn prompts_wait_on_while_every_instance_has_one() {
        assert_eq!(held(9, 2, &[[BOTH, BOTH]; 4]), [true, true, false, true]);
        // A step that an instance with prompts alone lets pass leaves the count as it is.
        assert_eq!(
            held(9, 2, &[[BOTH, BOTH], [NEW, BOTH], [BOTH, BOTH], [BOTH, BOTH]]),
            [true, false, true, false]
        );
    }

    #[test]
    fn a_prompt_that_no_other_instance_joins_runs_in_the_last_step_that_is_counted() {
        use crate::config::Stage;
        use crate::engine::event_loop::Simulation;
        use crate::engine::fixtures::{config, row, trace};

        let mut config = config(&[10, 10], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        for instance in &mut config.instances {
            let Some(Stage::Admit { chunked, .. }) = instance.scheduler.stages.last_mut() else { panic!() };
            *chunked = false;
        }
        let shared = serde_json::from_str(r#"{"at": [1], "ticks": [10]}"#).unwrap();
        let balance = Some(Balance { timeout_steps: 3, gather_steps: 0 });
        config.lockstep = Some(Lockstep { shared, padded: 0, sync: None, balance });
        // Both instances decode from 130 on, in steps of 111 ticks. Those at 130, 241 and 352 lack a prompt; the third of
        // them runs that of 150, of 10 tokens beside a decode.
        let mut simulation =
            Simulation::new(&config, trace(&[row(0, 20, 9), row(0, 20, 9), row(150, 10, 1)])).unwrap();
        while !simulation.advance(10).unwrap() {}
        let columns = simulation.into_outcome().columns;
        assert_eq!(columns.scheduled, [0, 0, 352]);
        assert_eq!(columns.finish[2], 352 + 121);
    }

    #[test]
    fn an_arrival_in_a_step_without_requests_waits_for_its_end() {
        use crate::engine::event_loop::Simulation;
        use crate::engine::fixtures::{config, row, trace};

        // Two instances agree at every third step whether to go on. A step takes 100 ticks, one a token, and 10 for the
        // part that they share.
        let mut config = config(&[10, 10], r#"{"on_arrival": {"rule": "fewest_requests"}}"#);
        let shared = serde_json::from_str(r#"{"at": [1], "ticks": [10]}"#).unwrap();
        let sync = Some(Sync { every: 3, first: false });
        config.lockstep = Some(Lockstep { shared, padded: 0, sync, balance: None });
        // The first request takes one step, until 130. The second arrives in the step without requests that follows,
        // which ends at 130 + 111, and nothing else happens until then.
        let mut simulation = Simulation::new(&config, trace(&[row(0, 20, 1), row(200, 30, 1)])).unwrap();
        while !simulation.advance(10).unwrap() {}
        let columns = simulation.into_outcome().columns;
        assert_eq!(columns.scheduled, [0, 241]);
        assert_eq!(columns.finish, [130, 241 + 140]);
    }
}
