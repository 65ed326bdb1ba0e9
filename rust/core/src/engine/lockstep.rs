//! Instances that start their steps together, in groups.
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
use crate::config::{Balance, Config, Lockstep, Sync};
use crate::error::Error;
use crate::instance::{Instance, Prospect};
use crate::time::{NEVER, Ticks};

/// The groups of instances that step together, and the instances that step on their own.
#[derive(Debug)]
pub(super) struct LockedSteps {
    groups: Vec<Group>,
    /// The instances that are in no group, by index.
    alone: Vec<usize>,
}

/// Instances that step together.
#[derive(Debug)]
struct Group {
    /// The members in the order of their index, and the resources that they share.
    rules: Lockstep,
    /// Steps since the members began to step, each with at least one request at first.
    steps: u64,
    /// Steps so far.
    total: u64,
    /// Whether the members are in a step.
    in_step: bool,
    /// When the step ends in which no member has a request; [`NEVER`] if they are in no such step.
    idle_until: Ticks,
    /// How long prompts have waited for those of other members.
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
    parts: groups;
    fixed: alone;
});

crate::checkpoint::checkpointed!(Group {
    values: steps, total, in_step, idle_until, waits;
    fixed: rules;
});

impl LockedSteps {
    /// The groups of a configuration, idle.
    pub(super) fn new(config: &Config) -> Self {
        let alone = (0..config.instances.len()).filter(|&index| config.group_of(index).is_none());
        Self { groups: config.groups().iter().map(Group::new).collect(), alone: alone.collect() }
    }

    /// Whether any step together.
    pub(super) fn are_together(&self) -> bool {
        !self.groups.is_empty()
    }

    /// The number of the present step, of all that the first group takes: that of all instances where reports are relayed.
    pub(super) fn step(&self) -> u64 {
        self.groups.first().map_or(0, |group| group.total)
    }

    /// When the first step ends in which no member of a group has a request; [`NEVER`] if none is in such a step.
    pub(super) fn idle_until(&self) -> Ticks {
        self.groups.iter().map(|group| group.idle_until).min().unwrap_or(NEVER)
    }

    /// Whether a step ends at this moment: of any instance if each steps on its own, else that of the first group.
    pub(super) fn step_ends(&self, cluster: &Cluster, now: Ticks) -> bool {
        self.groups.first().is_none_or(|group| group.step_ends(cluster, now))
    }

    /// Notes the steps of groups that have ended. At the steps at which the members agree on that, they stop if none of
    /// them has a request.
    pub(super) fn end_step(&mut self, cluster: &Cluster, now: Ticks) {
        for group in &mut self.groups {
            group.end_step(cluster, now);
        }
    }

    /// Starts a step on all instances that have one to run, but for those of groups of which one is still in a step.
    pub(super) fn start_steps(&mut self, cluster: &mut Cluster, now: Ticks) -> Result<(), Error> {
        if self.groups.is_empty() {
            cluster.tell(true, 0, false, now);
            return cluster.start_steps(now);
        }
        for group in &mut self.groups {
            group.start_step(cluster, now)?;
        }
        if self.alone.is_empty() { Ok(()) } else { cluster.start_steps_of(&self.alone, now) }
    }
}

impl Group {
    /// A group whose members are idle.
    fn new(rules: &Lockstep) -> Self {
        let mut rules = rules.clone();
        rules.members.sort_unstable();
        Self { rules, steps: 0, total: 0, in_step: false, idle_until: NEVER, waits: Waits::default() }
    }

    /// Whether the step of all members ends at this moment.
    fn step_ends(&self, cluster: &Cluster, now: Ticks) -> bool {
        let idles = self.idle_until != NEVER && self.idle_until > now;
        self.in_step && !idles && cluster.are_idle(&self.rules.members)
    }

    /// See [`LockedSteps::end_step`].
    #[inline(never)]
    fn end_step(&mut self, cluster: &Cluster, now: Ticks) {
        if !self.step_ends(cluster, now) {
            return;
        }
        (self.in_step, self.idle_until) = (false, NEVER);
        (self.steps, self.total) = (self.steps + 1, self.total + 1);
        let agrees = |sync: Sync| self.steps.is_multiple_of(sync.every) || sync.first && self.steps == 1;
        if self.rules.sync.is_none_or(agrees) && !cluster.have_requests(&self.rules.members) {
            self.steps = 0;
        }
    }

    /// Starts a step on all members that have one to run, unless one is still in a step.
    #[inline(never)]
    fn start_step(&mut self, cluster: &mut Cluster, now: Ticks) -> Result<(), Error> {
        let Lockstep { members, shared, padded, prompts, sync, balance } = &self.rules;
        if self.idle_until != NEVER || !cluster.are_idle(members) {
            return Ok(());
        }
        cluster.sort_free();
        cluster.tell(true, self.total, true, now);
        let waits = match balance {
            None => self.waits,
            Some(rule) => {
                let (held, waits) = self.waits.next(*rule, cluster.prospects(members, now));
                cluster.hold_prompts(members, held);
                waits
            }
        };
        cluster.start_steps_of(members, now)?;
        let instances = || members.iter().map(|&index| cluster.instance(index));
        let tokens = instances().map(|instance| instance.step_tokens().unwrap_or(1));
        let shared = shared.at(computed_tokens(tokens, *padded));
        if let Some(own) = instances().filter_map(Instance::step_ticks).max() {
            let least = if instances().any(Instance::step_has_prompts) { *prompts } else { 0 };
            (self.in_step, self.waits) = (true, waits);
            return cluster.stretch_steps(members, own.saturating_add(shared).max(least), now);
        }
        if sync.is_some() && self.steps > 0 {
            let own = instances().map(|instance| instance.settings().predicted_prefill(1)).max().unwrap_or(0);
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
        use crate::engine::fixtures::{config, group, row, trace};

        let mut config = config(&[10, 10], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        for instance in &mut config.instances {
            let Some(Stage::Admit { chunked, .. }) = instance.scheduler.stages.last_mut() else { panic!() };
            *chunked = false;
        }
        let balance = Some(Balance { timeout_steps: 3, gather_steps: 0 });
        config.lockstep = Some(vec![Lockstep { balance, ..group(&[0, 1]) }]);
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
        use crate::engine::fixtures::{config, group, row, trace};

        // Two instances agree at every third step whether to go on. A step takes 100 ticks, one a token, and 10 for the
        // part that they share.
        let mut config = config(&[10, 10], r#"{"on_arrival": {"rule": "fewest_requests"}}"#);
        let sync = Some(Sync { every: 3, first: false });
        config.lockstep = Some(vec![Lockstep { sync, ..group(&[0, 1]) }]);
        // The first request takes one step, until 130. The second arrives in the step without requests that follows,
        // which ends at 130 + 111, and nothing else happens until then.
        let mut simulation = Simulation::new(&config, trace(&[row(0, 20, 1), row(200, 30, 1)])).unwrap();
        while !simulation.advance(10).unwrap() {}
        let columns = simulation.into_outcome().columns;
        assert_eq!(columns.scheduled, [0, 241]);
        assert_eq!(columns.finish, [130, 241 + 140]);
    }
}
