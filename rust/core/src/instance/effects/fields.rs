//! Fields of an instance that a policy reads, with the steps applied that they depend on.

use super::Effects;
use crate::instance::view::{Asking, Look, whole};
use crate::policy::{
    Expr, InstField, InstanceRef, Linear, Number, ReqField, Scope, Validity, holds_now, value,
};
use crate::time::Ticks;
use crate::timeline::Reading;

impl Effects<'_> {
    /// A field as of the last finished step, for a request that is asked about.
    #[inline(never)]
    pub(crate) fn field(&mut self, (field, class): (InstField, u32), now: Ticks, asking: &Asking) -> f64 {
        if let Some(first) = self.at_start(field) {
            return whole(first + self.reader().growth(now));
        }
        self.apply_listed(now);
        match field {
            InstField::FreeBlocks => return whole(self.free_blocks(now)),
            InstField::AnsweringOnPace if self.reader().all_stay_on_pace(now) => return 1.0,
            _ => {}
        }
        // A block that a run takes may evict cached content.
        let evicts = field == InstField::PrefixTokens && self.kv.gpu().caches();
        if evicts || self.is_behind(field, now) {
            self.apply_until(now);
        }
        match field {
            InstField::ClassRequests => whole(self.in_class(class)),
            InstField::AnsweringOnPace => f64::from(u8::from(self.is_on_pace(now))),
            _ => self.looking(now).field((field, class), Some(asking)),
        }
    }

    /// The running and the queued requests.
    pub(crate) fn counts(&mut self, now: Ticks) -> [u64; 2] {
        self.apply_listed(now);
        [self.batch.running(), self.queued_here()]
    }

    /// Whether a condition holds that reads the fields of this instance alone.
    pub(crate) fn meets(&mut self, condition: &Expr, now: Ticks) -> bool {
        self.apply_listed(now);
        self.holds(condition, now)
    }

    /// Whether every reader has tokens left.
    fn is_on_pace(&mut self, now: Ticks) -> bool {
        match self.reader().latest_step(now) {
            Some((step, ended)) => self.on.observers.readers.all_on_pace(now, step, ended),
            None => self.on.observers.readers.out_of_tokens(now).is_none(),
        }
    }

    /// Whether a condition holds of the instance as it is applied.
    pub(in crate::instance) fn holds(&mut self, condition: &Expr, now: Ticks) -> bool {
        holds_now(condition, &mut OfInstance { effects: self, now })
    }

    /// The value of an expression over the instance as it is applied, and for how many steps of the decode set it holds if
    /// nothing else happens.
    pub(in crate::instance) fn value(&mut self, of: &Expr, now: Ticks) -> (f64, u64) {
        let mut validity = Validity::EVER;
        let value = value(of, &mut OfInstance { effects: self, now }, &mut validity);
        (value, validity.steps)
    }

    /// The reading that a timeline takes at `now` of an instance that is in the pool `role`.
    pub(crate) fn reading(&mut self, now: Ticks, role: u32) -> Reading {
        // The step that starts at this moment has started.
        self.begin_step(now);
        self.looking(now).reading(role)
    }

    /// The instance as it is at `now`.
    fn looking(&self, now: Ticks) -> Look<'_> {
        Look { on: self.on, now, trace: self.trace }
    }
}

/// An instance as a condition of its own reads it.
struct OfInstance<'a, 'b> {
    effects: &'a mut Effects<'b>,
    now: Ticks,
}

impl Scope for OfInstance<'_, '_> {
    fn request(&mut self, _: ReqField, _: &mut Validity) -> Linear {
        debug_assert!(false, "Invariant: no request is asked about");
        Linear::fixed(0.0)
    }

    fn instance(&mut self, _: InstanceRef, field: InstField, class: u32) -> f64 {
        match field {
            InstField::AnsweringOnPace => f64::from(u8::from(self.effects.is_on_pace(self.now))),
            _ => self.effects.looking(self.now).field((field, class), None),
        }
    }

    fn line(&mut self, which: InstanceRef, field: InstField, class: u32, validity: &mut Validity) -> Linear {
        let line = Linear::fixed(self.instance(which, field, class));
        if let Some(per_step) = self.effects.growth_in_run(field) {
            return Linear { per_step: whole(per_step), ..line };
        }
        validity.within_steps(1);
        line
    }
}

#[cfg(test)]
mod tests {
    use crate::Simulation;
    use crate::config::PrefixCacheConfig;
    use crate::engine::fixtures::config;
    use crate::time::Ticks;
    use crate::trace::{PrefixIds, Trace};

    /// The instance of a request that arrives at `arrival` with the prompt of two blocks that the first one of four has cached
    /// until 132. It goes where most of it is cached, and else to the other one: on the first, a request decodes from 1116 on,
    /// one token each 101 ticks.
    fn instance_of(arrival: Ticks) -> u32 {
        let rule = r#"{"rule": "pick", "min": [
            {"op": "sub", "args": [{"const": 0}, {"field": "inst.prefix_tokens"}]}, {"field": "inst.requests"}]}"#;
        let mut config = config(&[4, 9], &format!(r#"{{"on_arrival": {rule}}}"#));
        for instance in &mut config.instances {
            instance.scheduler.prefix_cache =
                Some(PrefixCacheConfig { unknown_first: false, evict: None, tree: None });
        }
        let prefix = PrefixIds {
            ends: vec![2, 3, 5].into(),
            ids: vec![1, 2, 3, 1, 2].into(),
            block_tokens: 16,
            outputs: None,
        };
        let trace = Trace {
            arrival: vec![0, 1000, arrival].into(),
            prompt_tokens: vec![32, 16, 40].into(),
            output_tokens: vec![1, 48, 1].into(),
            prefix: Some(prefix),
            ..Trace::default()
        };
        let mut simulation = Simulation::new(&config, trace).unwrap();
        while !simulation.advance(1).unwrap() {}
        simulation.into_outcome().columns.instance[2]
    }

    #[test]
    fn a_rule_reads_which_prefixes_a_run_in_progress_has_evicted() {
        // The request takes its third block with its 33rd token, and its fourth with its 49th.
        assert_eq!(instance_of(1116 + 10 * 101), 0, "both blocks are cached");
        assert_eq!(instance_of(1116 + 25 * 101), 0, "the first one still is");
        assert_eq!(instance_of(1116 + 40 * 101), 1, "none is cached");
    }
}
