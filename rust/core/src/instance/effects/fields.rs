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
