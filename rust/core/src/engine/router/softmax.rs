//! Draws an instance at random, the lower its key the likelier.

use super::pick::{Candidates, may_pick, meets_condition};
use super::random::WyRand;
use crate::policy::{Pick, value_now};

/// An instance that `pick` may pick, drawn with the weight `exp(-(key - min) / ((max - min) temperature))` by its first
/// key; with equal weights if all keys are equal. The order of operations is that of NVIDIA Dynamo's router
/// (`lib/kv-router/src/scheduling/selector/default.rs`, commit 2093662), so that the same numbers draw the same
/// instances.
pub(super) fn drawn<V: Candidates>(
    pick: &Pick,
    temperature: f64,
    view: &mut V,
    random: &mut WyRand,
) -> Option<usize> {
    let key = pick.min.first()?;
    let mut keys = Vec::new();
    for index in 0..view.instances() {
        if may_pick(pick, index, view) && meets_condition(pick, index, view) {
            view.consider(index);
            keys.push((index, value_now(key, view)));
        }
    }
    let least = keys.iter().map(|key| key.1).fold(f64::INFINITY, f64::min);
    let most = keys.iter().map(|key| key.1).fold(f64::NEG_INFINITY, f64::max);
    let scale = -1.0 / ((most - least) * temperature);
    let weights: Vec<f64> = match keys.len() {
        0 => return None,
        n if most - least == 0.0 => vec![1.0 / n as f64; n],
        _ => keys.iter().map(|key| libm::exp(key.1 * scale - least * scale)).collect(),
    };
    let total: f64 = weights.iter().sum();
    let drawn = random.unit();
    let mut sum = 0.0;
    for (key, weight) in keys.iter().zip(&weights) {
        sum += weight / total;
        if drawn <= sum {
            return Some(key.0);
        }
    }
    // Rounding may leave the sum below 1.
    keys.last().map(|key| key.0)
}
