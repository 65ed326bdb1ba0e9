//! Loads that overlap with the step that they are made for, layer by layer.
//!
//! A request is admitted at once, and its chunks are loaded from the start of the step's forward pass on, one layer of all of
//! them after the other. A layer is computed once it has been loaded and the one before it has been computed
//! (`start_loading` of `srt/managers/cache_controller.py` in `SGLang` 0.5.23). All layers are taken to be alike.

use super::HostTier;
use crate::time::Ticks;

/// For how long a forward pass of `compute` ticks is held up by loads that take `span` ticks from its start on.
///
/// With `layers` layers, layer `i` begins once `i / layers` of the span are over at the earliest. The latest end follows from
/// the first layer or from the last.
fn stall(layers: u32, span: Ticks, compute: Ticks) -> Ticks {
    if span == 0 {
        return 0;
    }
    let layers = u64::from(layers.max(1));
    let by_last = span.saturating_add(compute.div_ceil(layers)).saturating_sub(compute);
    span.div_ceil(layers).max(by_last)
}

impl HostTier {
    /// Whether loads overlap with the steps that they are made for.
    pub(in crate::instance) fn overlaps(&self) -> bool {
        self.rules.overlaps()
    }

    /// Sends the loads of the step that was formed, whose forward pass begins at `begins`.
    pub(super) fn send_overlapped(&mut self, begins: Ticks) {
        for at in 0..self.step.row.loads.len() {
            self.step.loaded = self.send(self.step.row.loads[at], begins);
        }
    }

    /// For how long the loads of the step that was formed hold up its forward pass, which takes `compute` ticks by itself.
    pub(in crate::instance) fn stall(&self, compute: Ticks) -> Ticks {
        stall(
            self.rules.config.overlap_layers,
            self.step.loaded.saturating_sub(self.step.row.begins),
            compute,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_load_is_hidden_but_for_a_layer() {
        // 4 layers of 25 ticks; the loads of a layer take 5. The first is computed from 5 on.
        assert_eq!(stall(4, 20, 100), 5);
        // The loads of a layer take 50: the last one is computed from 200 to 225.
        assert_eq!(stall(4, 200, 100), 125);
        assert_eq!((stall(1, 20, 100), stall(4, 0, 100)), (20, 0));
    }

    proptest! {
        #[test]
        fn a_stall_is_that_of_layers_one_after_the_other(
            layers in 1u32..9, span in 0u64..200, compute in 0u64..200,
        ) {
            // In parts of a tick, of which each has as many as there are layers.
            let mut computed = 0;
            for layer in 1..=u64::from(layers) {
                computed = computed.max(layer * span) + compute;
            }
            let ends = computed.div_ceil(u64::from(layers));
            prop_assert_eq!(stall(layers, span, compute), ends - compute);
        }
    }
}
