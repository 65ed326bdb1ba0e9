//! Loads that overlap with the step that they are made for, layer by layer.
//!
//! A request is admitted at once, and its chunks or nodes are loaded beside the step's forward pass, one layer of all of them
//! after the other. A layer is computed once it has been loaded and the one before it has been computed
//! (`start_loading` of `srt/managers/cache_controller.py` in `SGLang` 0.5.23). All layers are taken to be alike.

use super::Transfers;
use crate::kv::Interval;
use crate::time::Ticks;

/// For how long a forward pass that begins at `forward` and takes `compute` ticks is held up by a load.
///
/// With `layers` layers, layer `i` begins once `i / layers` of the load are over at the earliest. The latest end follows from
/// the first layer or from the last.
fn stall(layers: u32, Interval { begins, ends }: Interval, forward: Ticks, compute: Ticks) -> Ticks {
    let layers = u64::from(layers.max(1));
    let first = begins.saturating_add((ends - begins).div_ceil(layers));
    let last = ends.saturating_add(compute.div_ceil(layers)).saturating_sub(compute);
    first.max(last).saturating_sub(forward)
}

impl<P> Transfers<P> {
    /// Whether loads overlap with the steps that they are made for.
    pub(in crate::instance::tiers) fn overlaps(&self) -> bool {
        self.layers > 0
    }

    /// For how long the loads of the step that was formed hold up its forward pass, which takes `compute` ticks by itself.
    pub(in crate::instance::tiers) fn stall(&self, compute: Ticks) -> Ticks {
        self.step.load.map_or(0, |load| stall(self.layers, load, self.step.row.begins, compute))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_load_is_hidden_but_for_a_layer() {
        let stalled =
            |layers, span: Ticks, compute| stall(layers, Interval { begins: 7, ends: 7 + span }, 7, compute);
        // 4 layers of 25 ticks; the loads of a layer take 5. The first is computed from 5 on.
        assert_eq!(stalled(4, 20, 100), 5);
        // The loads of a layer take 50: the last one is computed from 200 to 225.
        assert_eq!(stalled(4, 200, 100), 125);
        assert_eq!((stalled(1, 20, 100), stalled(4, 0, 100)), (20, 0));
    }

    proptest! {
        #[test]
        fn a_stall_is_that_of_layers_one_after_the_other(
            layers in 1u32..9, begins in 0u64..50, span in 0u64..200, forward in 0u64..80, compute in 0u64..200,
        ) {
            // In parts of a tick, of which each has as many as there are layers.
            let count = u64::from(layers);
            let mut computed = count * forward;
            for layer in 1..=count {
                computed = computed.max(count * begins + layer * span) + compute;
            }
            let load = Interval { begins, ends: begins + span };
            prop_assert_eq!(stall(layers, load, forward, compute), computed.div_ceil(count) - forward - compute);
        }
    }
}
