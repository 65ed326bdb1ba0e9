//! The settings that a radix tree of cached prefixes needs.

use super::composition::Breach;
use super::{QueueOrder, SchedulerConfig};

impl SchedulerConfig {
    /// Whether a radix tree has the cached prefixes.
    pub(crate) fn has_prefix_tree(&self) -> bool {
        self.prefix_cache.as_ref().is_some_and(|cache| cache.tree.is_some())
    }

    /// Refuses settings that have no meaning beside a tree, or are not modelled with one.
    pub(super) fn check_prefix_tree(&self) -> Result<(), Breach> {
        let Some(cache) = self.prefix_cache.as_ref().filter(|cache| cache.tree.is_some()) else {
            if self.order == QueueOrder::SharedPrefix {
                return Err((
                    "order",
                    "must not be by shared prefixes unless a tree has them (prefix_cache.tree)",
                ));
            }
            return Ok(());
        };
        if cache.evict.is_some() {
            return Err(("prefix_cache.evict", "must be null beside a tree, which evicts its leaves"));
        }
        if !cache.unknown_first {
            return Err(("prefix_cache.unknown_first", "must be true beside a tree"));
        }
        if self.output_reserve.is_none() {
            let rule = "must be null unless admissions leave room for outputs to come (output_reserve), as they are \
                        not tried again before there is some";
            return Err(("prefix_cache.tree", rule));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PrefixCacheConfig, PrefixTreeConfig, ReserveConfig};
    use crate::engine::fixtures;

    #[test]
    fn a_tree_needs_a_reserve_and_evicts_its_leaves() {
        let config = fixtures::config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let mut scheduler = config.instances[0].scheduler.clone();
        assert_eq!(scheduler.check_prefix_tree(), Ok(()));
        scheduler.order = QueueOrder::SharedPrefix;
        assert!(scheduler.check_prefix_tree().is_err_and(|(field, _)| field == "order"));
        let tree = Some(PrefixTreeConfig { passes: 32, most: 128, least_load: 0 });
        scheduler.prefix_cache = Some(PrefixCacheConfig { unknown_first: true, evict: None, tree });
        let refused =
            |scheduler: &SchedulerConfig| scheduler.check_prefix_tree().err().map(|(field, _)| field);
        assert_eq!(refused(&scheduler), Some("prefix_cache.tree"));
        scheduler.output_reserve = Some(ReserveConfig { first: 1, least: 1, steps: 1, after: 1, clip: 1 });
        assert_eq!(refused(&scheduler), None);
        scheduler.prefix_cache = Some(PrefixCacheConfig { unknown_first: false, evict: None, tree });
        assert_eq!(refused(&scheduler), Some("prefix_cache.unknown_first"));
    }
}
