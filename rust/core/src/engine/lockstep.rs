//! Instances that start their steps together.
//!
//! The data-parallel ranks of a mixture of experts schedule on their own, but in every layer they exchange tokens for
//! the experts that they share. So no rank starts a step before all ranks have ended theirs, and a step lasts as long
//! as the slowest rank's own part and the part that depends on the tokens of all ranks. A rank without requests takes
//! part with one token.
//!
//! Follows vLLM 0.19: `core.py` (`DPEngineCoreProc.run_busy_loop`, which runs idle ranks along) and `dp_utils.py`
//! (`coordinate_batch_across_dp`, which pads all ranks to the longest where it runs CUDA graphs). Layers are not
//! simulated one by one: that a different rank may be the slowest in each layer is not modelled.

use super::cluster::Cluster;
use crate::config::Lockstep;
use crate::error::Error;
use crate::instance::Instance;
use crate::time::Ticks;

/// Starts a step on all instances that have one to run, unless an instance is still in a step.
#[inline(never)]
pub(super) fn start_together(lockstep: &Lockstep, cluster: &mut Cluster, now: Ticks) -> Result<(), Error> {
    if !cluster.is_idle() {
        return Ok(());
    }
    cluster.sort_free();
    cluster.start_steps(now)?;
    let instances = cluster.instances();
    let Some(own) = instances.iter().filter_map(Instance::step_ticks).max() else { return Ok(()) };
    let tokens = instances.iter().map(|instance| instance.step_tokens().unwrap_or(1));
    let shared = lockstep.shared.at(computed_tokens(tokens, lockstep.padded));
    cluster.stretch_steps(own.saturating_add(shared), now)
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
}
