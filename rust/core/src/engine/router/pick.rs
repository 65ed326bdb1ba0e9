//! Picks the lowest instance by keys.

use serde::{Deserialize, Serialize};

use crate::policy::{Expr, Field, InstField, InstanceRef, Pick, Scope, sort_key_now};

/// The instances as a pick reads them.
pub(in crate::engine) trait Candidates: Scope {
    /// Lists the instances of these pools, or all, in order.
    fn members(&self, within: Option<&[u32]>, into: &mut Vec<usize>);
    /// Whether an instance could serve the request.
    fn serves(&self, index: usize) -> bool;
    /// Whether instances may have lower bounds of a field that are read at once.
    fn has_bound(&self, field: InstField) -> bool;
    /// A lower bound of such a field, if the instance has one now.
    fn lower_bound(&self, index: usize, field: InstField) -> Option<f64>;
    /// A field of an instance.
    fn field(&mut self, index: usize, field: InstField, class: u32) -> f64;
    /// Calls `f` with a field of each of these instances.
    fn each_field(&mut self, indices: &[usize], (field, class): (InstField, u32), f: &mut impl FnMut(f64)) {
        for &index in indices {
            f(self.field(index, field, class));
        }
    }
    /// Whether a condition holds of the candidate.
    fn holds(&mut self, condition: &Expr) -> bool;
}

/// Lists the instances of these pools, or all, that could serve the request, in order. `uniform`: every instance refuses
/// the same requests, so that all of them serve this one.
pub(super) fn list_able<V: Candidates>(
    within: Option<&[u32]>,
    view: &V,
    uniform: bool,
    into: &mut Vec<usize>,
) {
    into.clear();
    view.members(within, into);
    if !uniform {
        into.retain(|&index| view.serves(index));
    }
}

/// The lowest of the `able` instances by the keys of `pick`; if several are equal, the first. `bounds`: room for a bound
/// of each.
pub(super) fn lowest<V: Candidates>(
    pick: &Pick,
    view: &mut V,
    able: &[usize],
    bounds: &mut Vec<LowerBound>,
) -> Option<usize> {
    match pick.min.as_slice() {
        &[Expr::Field(Field::Inst(InstanceRef::Candidate, field, class))] => {
            set_bounds((field, class), view, able, bounds);
            lowest_by_field((field, class), pick, view, able, bounds)
        }
        keys => lowest_by_keys(keys, pick, view, able),
    }
}

/// Whether the condition of `pick` holds of an instance.
pub(super) fn meets_condition<V: Candidates>(pick: &Pick, index: usize, view: &mut V) -> bool {
    view.consider(index);
    pick.r#where.as_ref().is_none_or(|condition| view.holds(condition))
}

/// A bound of a field of an instance, while the lowest is searched for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct LowerBound {
    /// The bound.
    least: f64,
    /// Whether the bound is the field itself.
    exact: bool,
}

impl LowerBound {
    /// Of an instance that must not be picked.
    pub(super) const EXCLUDED: Self = Self { least: f64::INFINITY, exact: true };
}

/// Sets the bound of every instance that is able.
fn set_bounds<V: Candidates>(
    (field, class): (InstField, u32),
    view: &mut V,
    able: &[usize],
    bounds: &mut Vec<LowerBound>,
) {
    bounds.clear();
    if !view.has_bound(field) {
        view.each_field(able, (field, class), &mut |least| bounds.push(LowerBound { least, exact: true }));
        return;
    }
    bounds.extend(able.iter().map(|&index| match view.lower_bound(index, field) {
        Some(least) => LowerBound { least, exact: false },
        None => LowerBound { least: view.field(index, field, class), exact: true },
    }));
}

/// The place of the lowest bound, the first of equal ones; `None` if all are excluded.
fn first_least(bounds: &[LowerBound]) -> Option<usize> {
    let least = bounds.iter().map(|bound| bound.least).fold(f64::INFINITY, f64::min);
    if least == f64::INFINITY { None } else { bounds.iter().position(|bound| bound.least <= least) }
}

/// How often the instance with the lowest bound is examined before all instances are.
const MOST_LOOKS: usize = 6;

/// The lowest instance by one field; if several are equal, the first. Fields are finite numbers.
///
/// A field that only grows within a run is at least what it was when the run began, which is read at once. So the
/// instance with the lowest bound is examined, until its bound is the field itself and its condition holds. In most
/// cases that is one of the first few; otherwise all instances are examined in turn.
fn lowest_by_field<V: Candidates>(
    (field, class): (InstField, u32),
    pick: &Pick,
    view: &mut V,
    able: &[usize],
    bounds: &mut [LowerBound],
) -> Option<usize> {
    for _ in 0..MOST_LOOKS {
        let at = first_least(bounds)?;
        let index = able[at];
        if !bounds[at].exact {
            bounds[at] = LowerBound { least: view.field(index, field, class), exact: true };
            continue;
        }
        if meets_condition(pick, index, view) {
            return Some(index);
        }
        bounds[at] = LowerBound::EXCLUDED;
    }
    let (mut found, mut least) = (None, f64::INFINITY);
    for (&index, bound) in able.iter().zip(bounds) {
        if bound.least >= least {
            continue;
        }
        let value = if bound.exact { bound.least } else { view.field(index, field, class) };
        if value < least && meets_condition(pick, index, view) {
            (found, least) = (Some(index), value);
        }
    }
    found
}

/// The lowest of the able instances by any keys; if several are equal, or there are no keys, the first.
#[inline(never)]
fn lowest_by_keys<V: Candidates>(keys: &[Expr], pick: &Pick, view: &mut V, able: &[usize]) -> Option<usize> {
    let mut best = Best::default();
    for &index in able {
        view.consider(index);
        if best.is_beaten(keys, view) && pick.r#where.as_ref().is_none_or(|condition| view.holds(condition)) {
            best.replace(index);
        }
    }
    best.found
}

/// The lowest item so far, and its sort keys.
#[derive(Debug)]
pub(in crate::engine) struct Best<T> {
    /// The item.
    found: Option<T>,
    /// Its sort keys.
    least: Vec<i64>,
    /// The sort keys of the item considered last.
    latest: Vec<i64>,
}

impl<T> Default for Best<T> {
    fn default() -> Self {
        Self { found: None, least: Vec::new(), latest: Vec::new() }
    }
}

impl<T> Best<T> {
    /// Whether the item that `view` considers now is lower.
    pub(in crate::engine) fn is_beaten<V: Scope>(&mut self, keys: &[Expr], view: &mut V) -> bool {
        let mut less = self.found.is_none();
        self.latest.clear();
        for (i, key) in keys.iter().enumerate() {
            let value = sort_key_now(key, view);
            if !less {
                if value > self.least[i] {
                    return false;
                }
                less = value < self.least[i];
            }
            self.latest.push(value);
        }
        less
    }

    /// Replaces it with the item that beat it.
    pub(in crate::engine) fn replace(&mut self, found: T) {
        self.found = Some(found);
        std::mem::swap(&mut self.least, &mut self.latest);
    }

    /// The lowest item of all.
    pub(in crate::engine) fn into_found(self) -> Option<T> {
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::super::draws::Draws;
    use super::super::equals::{self, Memory};
    use super::*;
    use crate::policy::{Linear, Number, ReqField, Validity, holds_now};
    use proptest::prelude::*;

    /// An instance that is only its fields.
    #[derive(Debug, Clone)]
    struct Fake {
        /// The field of the pick, and what it is known to be at least.
        tokens: f64,
        bound: Option<f64>,
        /// The field of the pick's condition.
        fits: bool,
        serves: bool,
        role: u32,
    }

    #[derive(Debug)]
    struct Fakes {
        instances: Vec<Fake>,
        candidate: usize,
    }

    impl Scope for Fakes {
        fn request(&mut self, _: ReqField, _: &mut Validity) -> Linear {
            Linear::fixed(0.0)
        }
        fn instance(&mut self, _: InstanceRef, field: InstField, class: u32) -> f64 {
            self.field(self.candidate, field, class)
        }
        fn instances(&self) -> usize {
            self.instances.len()
        }
        fn has_role(&self, index: usize, roles: &[u32]) -> bool {
            roles.contains(&self.instances[index].role)
        }
        fn consider(&mut self, index: usize) -> usize {
            std::mem::replace(&mut self.candidate, index)
        }
    }

    impl Candidates for Fakes {
        fn members(&self, within: Option<&[u32]>, into: &mut Vec<usize>) {
            let all = 0..self.instances.len();
            into.extend(all.filter(|&index| within.is_none_or(|roles| self.has_role(index, roles))));
        }
        fn serves(&self, index: usize) -> bool {
            self.instances[index].serves
        }
        fn has_bound(&self, _: InstField) -> bool {
            true
        }
        fn lower_bound(&self, index: usize, _: InstField) -> Option<f64> {
            self.instances[index].bound
        }
        fn field(&mut self, index: usize, field: InstField, _: u32) -> f64 {
            let fake = &self.instances[index];
            match field {
                InstField::Fits => f64::from(u8::from(fake.fits)),
                _ => fake.tokens,
            }
        }
        fn holds(&mut self, condition: &Expr) -> bool {
            holds_now(condition, self)
        }
    }

    fn fake() -> impl Strategy<Value = Fake> {
        let bound = prop::option::of(0u8..4);
        (0u8..8, bound, any::<bool>(), prop::bool::weighted(0.8), 0u32..2).prop_map(
            |(tokens, below, fits, serves, role)| {
                let tokens = f64::from(tokens);
                let bound = below.map(|below| tokens - f64::from(below));
                Fake { tokens, bound, fits, serves, role }
            },
        )
    }

    fn field(field: InstField) -> Expr {
        Expr::Field(Field::Inst(InstanceRef::Candidate, field, 0))
    }

    proptest! {
        #[test]
        fn a_pick_equals_a_scan_of_all_instances(
            instances in prop::collection::vec(fake(), 1..24), conditional in any::<bool>(),
            within in prop::option::of(0u32..2), keys in 0usize..3,
        ) {
            let pick = Pick {
                // The same key once or twice: by its bounds, or as any other keys.
                min: vec![field(InstField::OutstandingTokens); keys],
                r#where: conditional.then(|| field(InstField::Fits)),
                accept: None,
                within: within.map(|role| vec![role]),
                ..Pick::default()
            };
            let may = |fake: &Fake| {
                fake.serves && (!conditional || fake.fits) && within.is_none_or(|role| fake.role == role)
            };
            let allowed = instances.iter().enumerate().filter(|(_, fake)| may(fake));
            let key = |fake: &Fake| if keys == 0 { 0 } else { fake.tokens as u64 };
            let expected = allowed.min_by_key(|(i, fake)| (key(fake), *i)).map(|(i, _)| i);
            let uniform = instances.iter().all(|fake| fake.serves);
            let mut view = Fakes { instances, candidate: 0 };
            let mut able = Vec::new();
            list_able(pick.within.as_deref(), &view, uniform, &mut able);
            prop_assert_eq!(lowest(&pick, &mut view, &able, &mut Vec::new()), expected);
            // As the first of those that are equal, and with all instances drawn.
            let (mut turn, mut draws) = (0, Draws::new(1, 0));
            let mut memory = Memory { turn: &mut turn, draws: &mut draws, row: 0 };
            prop_assert_eq!(equals::lowest(&pick, &mut view, &able, &mut memory), expected);
            let drawn = Pick { among: Some(100), ..pick.clone() };
            let picked = equals::lowest(&drawn, &mut view, &able, &mut memory);
            let key_of = |picked: Option<usize>| picked.map(|i| key(&view.instances[i]));
            prop_assert_eq!(key_of(picked), key_of(expected));
        }
    }
}
