//! The settings beside which a radix tree of cached prefixes is modelled.

use super::composition::Breach;
use super::{Config, SchedulerConfig};
use crate::error::Error;

impl SchedulerConfig {
    /// Whether a radix tree has the cached prefixes.
    pub(crate) fn has_prefix_tree(&self) -> bool {
        self.prefix_cache.as_ref().is_some_and(|cache| cache.tree.is_some())
    }

    /// Refuses settings that have no meaning beside a tree, or are not modelled with one.
    pub(super) fn check_prefix_tree(&self) -> Result<(), Breach> {
        let Some(cache) = self.prefix_cache.as_ref().filter(|cache| cache.tree.is_some()) else {
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

impl Config {
    /// Refuses what is not modelled beside a tree, of its instance and of the cluster.
    pub(super) fn check_prefix_trees(&self) -> Result<(), Error> {
        let trees = |instance: &super::InstanceConfig| instance.scheduler.has_prefix_tree();
        for (i, instance) in self.instances.iter().enumerate().filter(|(_, instance)| trees(instance)) {
            let given = [
                (instance.tier.is_some(), format!("instances[{i}].tier")),
                (instance.speculation.is_some(), format!("instances[{i}].speculation")),
                (instance.pipeline.is_some(), format!("instances[{i}].pipeline")),
                (self.handover.is_some(), "handover".to_owned()),
            ];
            if let Some((_, field)) = given.into_iter().find(|(given, _)| *given) {
                let rule = format!(
                    "must be null where a radix tree has the cached prefixes of an instance, as instances[{i}], was given"
                );
                return Err(Error::config(field, rule));
            }
            if self.routing.moves_requests() {
                let rule = "must not cache prefixes in a radix tree where requests may migrate";
                return Err(Error::config(format!("instances[{i}]"), rule));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{PipelineConfig, PrefixCacheConfig, PrefixTreeConfig, ReserveConfig};
    use crate::engine::fixtures;

    #[test]
    fn what_is_not_modelled_beside_a_tree_is_refused() {
        let mut config = fixtures::config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        assert_eq!(config.check_prefix_trees(), Ok(()));
        let tree = Some(PrefixTreeConfig { passes: 32, most: 128 });
        let cache = PrefixCacheConfig { unknown_first: true, evict: None, tree };
        config.instances[0].scheduler.prefix_cache = Some(cache);
        let said = |config: &crate::config::Config| {
            let breach = config.instances[0].scheduler.check_prefix_tree().err();
            breach.map(|(field, _)| field)
        };
        assert_eq!(said(&config), Some("prefix_cache.tree"), "without a reserve");
        let reserve = ReserveConfig { first: 1, least: 1, steps: 1, after: 1, clip: 1 };
        config.instances[0].scheduler.output_reserve = Some(reserve);
        assert_eq!((said(&config), config.check_prefix_trees()), (None, Ok(())));
        config.instances[0].pipeline =
            Some(PipelineConfig { stages: vec![1], batches: 2, empty_batches: false });
        let error = config.check_prefix_trees().expect_err("batches in a pipeline are refused").to_string();
        assert!(error.contains("instances[0].pipeline: must be null where a radix tree"), "{error}");
    }
}
