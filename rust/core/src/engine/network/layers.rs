//! The layers of a transfer that overlaps with the prefill of its request.
//!
//! The KV of a request is in equal parts in the layers of its model; the first layers have a byte more if the bytes do not
//! divide. A step computes the layers one after another, each for the same share of its time, so the KV of layer `l` of
//! `L`, counted from 0, is ready `ceil(T (l + 1) / L)` ticks after the start of a step of `T` ticks. KV that earlier steps
//! computed is sent with its layer. Each layer is a message of its own. The messages follow each other without a gap, so a
//! transfer starts as early as each layer is ready by its turn: if all layers take `d` ticks, `max(T / L, T - (L - 1) d)`
//! after the start of the step, and by itself it ends when a sender that waits for each layer would have sent the last.
//!
//! Follows vLLM's `P2pNcclConnector` (02dc4a14, `p2p_nccl_connector.py`): `build_connector_meta` leaves a request out of
//! all steps but the last of its prompt, in which `save_kv_layer` sends the KV of the whole prompt, layer by layer. That
//! its sends of two requests take turns within a layer, and that the step waits for them (`wait_for_save`), is not
//! modelled. Mooncake and `SGLang` send the KV of each chunk of a prompt as its step ends, which this does not.

use crate::time::Ticks;

/// The layers of one transfer that overlaps with the prefill of its request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::engine) struct Layers {
    /// Bytes of all layers.
    bytes: u64,
    /// The number of layers, at least 1.
    count: u32,
    /// The start of the step that computes them.
    start: Ticks,
    /// Its end.
    end: Ticks,
}

impl Layers {
    /// `bytes` bytes in `count` layers, computed by a step from one moment to another.
    pub(in crate::engine) fn new(bytes: u64, count: u32, (start, end): (Ticks, Ticks)) -> Self {
        debug_assert!(count > 0 && start <= end, "a step has layers, and ends after its start");
        Self { bytes, count, start, end }
    }

    /// Bytes of all layers.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When all layers are ready.
    pub(super) fn ready(&self) -> Ticks {
        self.end
    }

    /// Bytes of a layer: of the last one, and of one that has a byte more.
    pub(super) fn sizes(&self) -> (u64, u64) {
        let less = self.bytes / u64::from(self.count);
        (less, less + 1)
    }

    /// When the KV of a layer is ready.
    fn ready_at(&self, layer: u32) -> Ticks {
        let ticks = u128::from(self.end - self.start) * u128::from(layer + 1);
        // At most the length of the step.
        self.start + ticks.div_ceil(u128::from(self.count)) as Ticks
    }

    /// The time of the messages before a layer, if those of the two sizes take `less` and `more` ticks.
    fn before(&self, layer: u32, (less, more): (Ticks, Ticks)) -> Ticks {
        let longer = u64::from(layer).min(self.bytes % u64::from(self.count));
        let shorter = u64::from(layer) - longer;
        more.saturating_mul(longer).saturating_add(less.saturating_mul(shorter))
    }

    /// The time of all messages.
    pub(super) fn duration(&self, times: (Ticks, Ticks)) -> Ticks {
        self.before(self.count, times)
    }

    /// The earliest start of the first message with which no message has to wait for its layer.
    pub(super) fn earliest(&self, times: (Ticks, Ticks)) -> Ticks {
        let starts =
            (0..self.count).map(|layer| self.ready_at(layer).saturating_sub(self.before(layer, times)));
        starts.max().unwrap_or(self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_layer_is_ready_when_its_share_of_the_step_has_passed() {
        let layers = Layers::new(10, 4, (100, 110));
        assert_eq!([0, 1, 2, 3].map(|layer| layers.ready_at(layer)), [103, 105, 108, 110]);
        assert_eq!(layers.sizes(), (2, 3));
        assert_eq!([0, 1, 2, 3, 4].map(|layer| layers.before(layer, (20, 30))), [0, 30, 60, 80, 100]);
    }

    #[test]
    fn a_fast_network_sends_the_last_layer_at_the_end_of_the_step_and_a_slow_one_the_first_at_once() {
        let layers = Layers::new(40, 4, (100, 180));
        // Layers are ready every 20 ticks. Messages of 5 ticks: the last starts at 180, and three are sent before.
        assert_eq!(layers.earliest((5, 6)), 180 - 15);
        assert_eq!(layers.earliest((20, 21)), 120);
        assert_eq!(layers.earliest((30, 31)), 120);
        assert_eq!(layers.duration((30, 31)), 120);
    }

    proptest! {
        /// A sender that sends each layer as soon as it is ready and the one before is sent.
        #[test]
        fn the_last_layer_is_sent_when_a_sender_that_waits_for_each_has_sent_it(
            bytes in 0u64..500, count in 1u32..40, start in 0u64..50, length in 0u64..300, less in 0u64..20,
            longer in 0u64..3,
        ) {
            let layers = Layers::new(bytes, count, (start, start + length));
            let times = (less, less + longer);
            let sizes = (0..u64::from(count)).map(|layer| {
                let more = layer < bytes % u64::from(count);
                (bytes / u64::from(count) + u64::from(more), if more { times.1 } else { times.0 })
            });
            let (mut sent, mut total) = (start, 0);
            for (layer, (size, time)) in sizes.enumerate() {
                let ready = start + (length * (layer as u64 + 1)).div_ceil(u64::from(count));
                sent = sent.max(ready) + time;
                total += size;
            }
            prop_assert_eq!(total, bytes);
            prop_assert_eq!(layers.earliest(times) + layers.duration(times), sent);
        }
    }
}
