//! Draws an instance at random, the lower its key the likelier.

use super::pick::{Candidates, meets_condition};
use super::random::WyRand;
use crate::policy::{Pick, sort_key_of, value_now};

/// One of the able instances, drawn with the weight `exp(-(key - min) / ((max - min) temperature))` by its first
/// key; with equal weights if all keys are equal. If the temperature is 0, one of those with the lowest key, each as
/// likely. The order of operations is that of NVIDIA Dynamo's router (`lib/kv-router/src/scheduling/selector/default.rs`,
/// commit 2093662), so that the same numbers draw the same instances.
pub(super) fn drawn<V: Candidates>(
    pick: &Pick,
    temperature: f64,
    view: &mut V,
    able: &[usize],
    random: &mut WyRand,
) -> Option<usize> {
    let key = pick.min.first()?;
    let mut keys = Vec::new();
    for &index in able {
        if meets_condition(pick, index, view) {
            keys.push((index, value_now(key, view)));
        }
    }
    if temperature == 0.0 { lowest(&keys, random) } else { weighted(&keys, temperature, random) }
}

/// One of the instances with the lowest key: of those scanned so far, the `n`th replaces the others with chance `1/n`.
fn lowest(keys: &[(usize, f64)], random: &mut WyRand) -> Option<usize> {
    let (mut found, mut least, mut equal) = (None, i64::MAX, 0);
    for &(index, key) in keys {
        let key = sort_key_of(key);
        if found.is_none() || key < least {
            (found, least, equal) = (Some(index), key, 1);
        } else if key == least {
            equal += 1;
            if random.below(equal) == 0 {
                found = Some(index);
            }
        }
    }
    found
}

/// An instance by the weights of the keys.
fn weighted(keys: &[(usize, f64)], temperature: f64, random: &mut WyRand) -> Option<usize> {
    let least = keys.iter().map(|key| key.1).fold(f64::INFINITY, f64::min);
    let most = keys.iter().map(|key| key.1).fold(f64::NEG_INFINITY, f64::max);
    let scale = -1.0 / ((most - least) * temperature);
    let weights: Vec<f64> = match keys.len() {
        0 => return None,
        n if most <= least => vec![1.0 / n as f64; n],
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
    // Rounding may leave the sum below the number that was drawn.
    keys.last().map(|key| key.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of the instances is drawn in 10,000 draws.
    fn counts(keys: &[f64], draw: impl Fn(&[(usize, f64)], &mut WyRand) -> Option<usize>) -> Vec<u32> {
        let keys: Vec<_> = keys.iter().copied().enumerate().collect();
        let mut random = WyRand::new(11);
        let mut counts = vec![0; keys.len()];
        for _ in 0..10_000 {
            counts[draw(&keys, &mut random).unwrap()] += 1;
        }
        counts
    }

    #[test]
    fn equal_keys_are_drawn_equally_often_and_others_never() {
        let counts = counts(&[2.0, 1.0, 1.0, 3.0, 1.0], lowest);
        assert_eq!((counts[0], counts[3]), (0, 0));
        // The standard deviation is 47.
        assert!([1, 2, 4].iter().all(|&at: &usize| counts[at].abs_diff(3_333) < 200), "{counts:?}");
    }

    #[test]
    fn weights_fall_with_the_key_as_the_temperature_says() {
        // Weights 1, exp(-1) and exp(-2) at temperature 1/2; their sum is 1.5032.
        let counts = counts(&[10.0, 20.0, 30.0], |keys, random| weighted(keys, 0.5, random));
        for (count, expected) in counts.iter().zip([6_652, 2_447, 900_u32]) {
            assert!(count.abs_diff(expected) < 200, "{counts:?}");
        }
    }

    #[test]
    fn equal_weights_are_drawn_if_all_keys_are_equal_and_none_without_instances() {
        let counts = counts(&[4.0; 4], |keys, random| weighted(keys, 0.1, random));
        assert!(counts.iter().all(|count| count.abs_diff(2_500) < 200), "{counts:?}");
        assert_eq!(weighted(&[], 1.0, &mut WyRand::new(0)), None);
        assert_eq!(lowest(&[], &mut WyRand::new(0)), None);
    }
}
