//! The bounds of all numbers in a configuration.
//!
//! There are two reasons for a bound: arithmetic must not wrap, and memory must not be allocated in proportion to a
//! number before it is used.

use super::{Config, MOST_ACCUMULATORS, Preemption, QueueOrder, Routers, SchedulerConfig, Stage, reserve};
use crate::cost::Cost;
use crate::error::Error;
use crate::policy::Action;
use crate::time::{HORIZON, Ticks};

/// The most tokens in a block. An instance has a counter of four bytes for each offset in a block: 4 MiB at this bound.
/// The largest block of a real engine has 256 tokens. A block for a whole sequence fits as well, since no model reads
/// more than a million tokens.
pub(crate) const MOST_BLOCK_TOKENS: u32 = 1 << 20;

/// The largest role. The cluster has a list of the instances of each role up to the largest.
pub(super) const MOST_ROLE: u32 = u16::MAX as u32;

/// The largest count: one less than the 32-bit number that means "none".
pub(super) const MOST: u64 = u32::MAX as u64 - 1;

/// Checks that a number is from `least` to `most`.
pub(super) fn within(field: impl FnOnce() -> String, least: u64, most: u64, value: u64) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::config(field(), format!("must be {least} to {most}, was {value}")))
}

/// Checks that a duration or a moment is within the range of the clock.
pub(super) fn on_clock(field: impl FnOnce() -> String, ticks: Ticks) -> Result<(), Error> {
    if ticks <= HORIZON {
        return Ok(());
    }
    let rule = format!("must be at most {HORIZON} ticks, the clock's range of 186 days, was {ticks}");
    Err(Error::config(field(), rule))
}

impl Config {
    /// Checks every number with which the engine computes or by which it sizes memory.
    pub(super) fn check_limits(&self) -> Result<(), Error> {
        for (i, instance) in self.instances.iter().enumerate() {
            let at = |field: &'static str| move || format!("instances[{i}].{field}");
            within(at("blocks"), 1, MOST, instance.blocks)?;
            let most = u64::from(MOST_BLOCK_TOKENS);
            within(at("block_tokens"), 1, most, u64::from(instance.block_tokens))?;
            // The product with a request's tokens, 32 bits, is computed in 64 bits.
            within(at("kv_bytes_per_token"), 0, u64::from(u32::MAX), instance.kv_bytes_per_token)?;
            within(at("state_blocks"), 0, most, u64::from(instance.state_blocks))?;
            // The sum with the bytes of a request's tokens is computed in 64 bits.
            within(at("state_bytes"), 0, u64::from(u32::MAX), instance.state_bytes)?;
            if instance.state_blocks > 0 && instance.scheduler.prefix_cache.is_some() {
                let rule = format!(
                    "must be 0 where prefixes are cached, was {}: a cached prefix has no state to continue from",
                    instance.state_blocks
                );
                return Err(Error::config(at("state_blocks")(), rule));
            }
            within(at("model"), 0, MOST, u64::from(instance.model.unwrap_or(0)))?;
            // A transfer that overlaps with a prefill takes time in proportion; the deepest models have some 130.
            within(at("kv_layers"), 1, 4096, u64::from(instance.kv_layers))?;
            check_cost(&at("cost")(), &instance.cost)?;
            instance.scheduler.check_limits(i)?;
            instance.check_chunks(i)?;
            if let Some(speculation) = &instance.speculation {
                speculation.check(&format!("instances[{i}]"))?;
                if let Some(draft) = &speculation.draft {
                    check_cost(&at("speculation.draft")(), draft)?;
                }
            }
            if let Some(tier) = &instance.tier {
                tier.check(&format!("instances[{i}]"), instance)?;
            }
        }
        self.routers.check_limits()?;
        if let Some(until) = self.until {
            on_clock(|| "until".into(), until)?;
        }
        if let Some(window) = self.record_between {
            on_clock(|| "record_between.to".into(), window.to)?;
            within(|| "record_between.from".into(), 0, window.to, window.from)?;
        }
        if let Some(sample) = self.sample {
            within(|| "sample.every".into(), 1, HORIZON, sample.every)?;
            within(|| "sample.most".into(), 2, MOST, sample.most)?;
        }
        if let Some(pace) = self.pace {
            on_clock(|| "pace.interval".into(), pace.interval)?;
            on_clock(|| "pace.first".into(), pace.first)?;
            on_clock(|| "pace.ttft".into(), pace.ttft.unwrap_or(0))?;
        }
        let given = self.roles.iter().enumerate().map(|(i, role)| (format!("roles[{i}]"), *role));
        let led = self.leaving.iter().enumerate().flat_map(|(i, leaving)| {
            [("role", leaving.role), ("from", leaving.from), ("to", leaving.to)]
                .map(|(name, role)| (format!("leaving[{i}].{name}"), role))
        });
        for (field, role) in given.chain(led) {
            within(|| field, 0, u64::from(MOST_ROLE), u64::from(role))?;
        }
        for leaving in &self.leaving {
            on_clock(|| "leaving.delay".into(), leaving.delay.unwrap_or(0))?;
        }
        for monitor in &self.routing.every {
            on_clock(|| "routing.every.period".into(), monitor.period)?;
            for action in &monitor.actions {
                let Action::Migrate { live, .. } = action else { continue };
                let last = live.map_or(0, |live| live.last_blocks);
                within(|| "routing.every.actions.live.last_blocks".into(), 0, MOST, last)?;
            }
        }
        self.check_group_limits()
    }
}

/// Checks the least time of steps with prompt tokens, that a cost has one at most, and the cost below it.
fn check_cost(at: &str, cost: &Cost) -> Result<(), Error> {
    let Cost::Floor(floor) = cost else { return check_graphs(at, cost) };
    on_clock(|| format!("{at}.prompts"), floor.prompts)?;
    if matches!(floor.cost, Cost::Floor(_)) {
        return Err(Error::config(format!("{at}.cost"), "must not have a floor itself"));
    }
    check_graphs(&format!("{at}.cost"), &floor.cost)
}

/// Checks the sizes of CUDA graphs, and that they pad a cost once, of which there is no floor.
fn check_graphs(at: &str, cost: &Cost) -> Result<(), Error> {
    let Cost::Graphs(graphs) = cost else { return Ok(()) };
    if matches!(graphs.cost, Cost::Graphs(_) | Cost::Floor(_)) {
        return Err(Error::config(format!("{at}.cost"), "must not have graphs itself, or a floor"));
    }
    on_clock(|| format!("{at}.captured.eager"), graphs.captured.eager)?;
    let uniform = graphs.captured.uniform.iter().map(|graphs| &graphs.sizes);
    for sizes in std::iter::once(&graphs.captured.sizes).chain(uniform) {
        let rises = sizes.windows(2).all(|pair| pair[0] < pair[1]);
        if !rises || sizes.iter().any(|&size| !(1..=MOST).contains(&size)) {
            let rule = format!("must be sizes from 1 to {MOST} that rise, was {sizes:?}");
            return Err(Error::config(format!("{at}.captured"), rule));
        }
    }
    let drafts = graphs.captured.uniform.iter().map(|graphs| graphs.drafts).max();
    within(|| format!("{at}.captured.uniform.drafts"), 0, MOST, drafts.unwrap_or(0))
}

/// The most routers: each keeps counts for every instance.
const MOST_ROUTERS: u64 = 4096;

impl Routers {
    /// Checks the numbers of the routers.
    fn check_limits(&self) -> Result<(), Error> {
        within(|| "routers.count".into(), 1, MOST_ROUTERS, u64::from(self.count))?;
        within(|| "routers.report_every".into(), 1, HORIZON, self.report_every.unwrap_or(1))?;
        if let Some(relay) = self.relay {
            if self.report_every.is_none() {
                return Err(Error::config("routers.report_every", "must be given for a relay, was null"));
            }
            within(|| "routers.relay.gap".into(), 0, HORIZON, relay.gap)?;
            within(|| "routers.relay.unit".into(), 1, HORIZON, relay.unit)?;
            within(|| "routers.relay.copies".into(), 0, HORIZON, relay.copies.unwrap_or(0))?;
        }
        within(|| "routers.give_up_after".into(), 1, HORIZON, self.give_up_after.unwrap_or(1))
    }
}

impl SchedulerConfig {
    /// Checks the numbers of an instance's scheduler.
    fn check_limits(&self, instance: usize) -> Result<(), Error> {
        let at = |field: &'static str| move || format!("instances[{instance}].scheduler.{field}");
        within(at("max_num_batched_tokens"), 1, MOST, self.max_num_batched_tokens)?;
        within(at("max_num_seqs"), 1, MOST, self.max_num_seqs)?;
        within(at("receive_interval"), 1, MOST, self.receive_interval)?;
        within(at("long_prefill_token_threshold"), 0, MOST, self.long_prefill_token_threshold)?;
        let least = self.varying.tokens.as_ref().map_or(1, |budget| budget.least);
        within(at("varying.tokens.least"), 1, self.max_num_batched_tokens, least)?;
        within(at("joining.prefills"), 0, MOST, self.joining.prefills)?;
        within(at("joining.long_prefills"), 0, MOST, self.joining.long_prefills)?;
        within(at("joining.adapters"), 0, MOST, self.joining.adapters)?;
        on_clock(at("joining.adapter_load"), self.joining.adapter_load)?;
        within(at("watermark_blocks"), 0, MOST, self.watermark_blocks)?;
        if let Some(reserve) = &self.output_reserve {
            within(at("output_reserve.first"), 0, reserve::SHARE_WHOLE, reserve.first)?;
            within(at("output_reserve.least"), 0, reserve.first, reserve.least)?;
            within(at("output_reserve.steps"), 1, reserve::MOST, reserve.steps)?;
            within(at("output_reserve.after"), 0, reserve::MOST, reserve.after)?;
            within(at("output_reserve.clip"), 1, reserve::MOST, u64::from(reserve.clip))?;
        }
        if let Some(batch) = self.prompt_batch {
            within(at("prompt_batch.tokens"), 1, MOST, batch.tokens)?;
            within(at("prompt_batch.steps"), 1, MOST, batch.steps)?;
        }
        for stage in &self.stages {
            if let Stage::Admit { gather: Some(gather), .. } = stage {
                within(at("stages.gather.size"), 0, MOST, gather.size)?;
                on_clock(at("stages.gather.wait"), gather.wait)?;
            }
        }
        if let QueueOrder::Ranked(ranking) = &self.order {
            on_clock(at("order.refresh.ticks"), ranking.refresh.ticks)?;
            on_clock(at("order.levels.first"), ranking.levels.as_ref().map_or(0, |levels| levels.first))?;
            let most = MOST_ACCUMULATORS as u64;
            within(at("order.accumulators"), 0, most, ranking.accumulators.len() as u64)?;
            for accumulator in &ranking.accumulators {
                on_clock(at("order.accumulators.half_life"), accumulator.half_life)?;
                if let Some(rule) = accumulator.broken_rule() {
                    return Err(Error::config(at("order.accumulators")(), rule));
                }
            }
        }
        if let Preemption::Swap { blocks, out, back, .. } = self.preemption {
            within(at("preemption.blocks"), 0, MOST, blocks)?;
            on_clock(at("preemption.out"), out)?;
            on_clock(at("preemption.back"), back)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Affine, Captured, Floor, Graphs};

    #[test]
    fn a_floor_is_on_the_clock_and_outside_of_graphs() {
        let kernels = || Cost::Affine(Affine { step: 1, token: 1, kv_token: 0 });
        let floor = |prompts, cost| Cost::Floor(Box::new(Floor { prompts, cost }));
        let graphs = |cost| {
            let captured = Captured { sizes: vec![4], uniform: Vec::new(), eager: 0 };
            Cost::Graphs(Box::new(Graphs { captured, cost }))
        };
        let refused = |cost: Cost| check_cost("cost", &cost).err().map(|error| error.to_string());
        assert_eq!(refused(floor(HORIZON, graphs(kernels()))), None);
        let late = refused(floor(HORIZON + 1, kernels())).expect("a refusal");
        assert!(late.contains("cost.prompts"), "{late}");
        for nested in [floor(1, floor(1, kernels())), graphs(floor(1, kernels()))] {
            let found = refused(nested).expect("a refusal");
            assert!(found.contains("cost.cost") && found.contains("floor"), "{found}");
        }
    }
}
