//! The stages of an instance, each with a batch of its own.

use serde::Deserialize;

use super::Config;
use crate::error::Error;

/// The most stages of a pipeline.
const MOST_STAGES: usize = 1 << 10;

/// The largest share of a stage.
const MOST_SHARE: u64 = 1 << 40;

/// The stages of an instance through which several batches pass at a time.
///
/// Without it, a step passes all stages before the next one is formed.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PipelineConfig {
    /// The share of each stage in the ticks of a step, in any unit.
    pub stages: Vec<u64>,
    /// The most batches that are in the pipeline at a time.
    pub batches: u32,
    /// Whether a batch without requests takes a place, if the pipeline has another batch and no request could be scheduled.
    pub empty_batches: bool,
}

impl PipelineConfig {
    fn check(&self, instance: usize) -> Result<(), Error> {
        let broken = |field: &str, rule: String| {
            Err(Error::config(format!("instances[{instance}].pipeline.{field}"), rule))
        };
        if self.stages.is_empty() || self.stages.len() > MOST_STAGES {
            return broken("stages", format!("must be 1 to {MOST_STAGES}, was {}", self.stages.len()));
        }
        if let Some(share) = self.stages.iter().find(|share| !(1..=MOST_SHARE).contains(share)) {
            return broken("stages", format!("must each be 1 to {MOST_SHARE}, was {share}"));
        }
        if self.batches == 0 || self.batches as usize > MOST_STAGES {
            return broken("batches", format!("must be 1 to {MOST_STAGES}, was {}", self.batches));
        }
        Ok(())
    }
}

impl Config {
    /// Checks the stages of instances with several batches in them.
    pub(super) fn check_pipelines(&self) -> Result<(), Error> {
        for (i, instance) in self.instances.iter().enumerate() {
            instance.pipeline.as_ref().map_or(Ok(()), |pipeline| pipeline.check(i))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Pace;
    use crate::engine::fixtures;

    const PACE: Pace = Pace { interval: 1, first: 1, ttft: None };

    /// The refusal of an instance with two stages, changed by `change`.
    fn refusal(change: impl Fn(&mut PipelineConfig, &mut Config)) -> Option<String> {
        let mut config = fixtures::config(&[100], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let mut pipeline = PipelineConfig { stages: vec![3, 1], batches: 2, empty_batches: true };
        change(&mut pipeline, &mut config);
        config.instances[0].pipeline = Some(pipeline);
        config.check_pipelines().and_then(|()| config.check_exclusions()).err().map(|error| error.to_string())
    }

    #[test]
    fn what_has_no_meaning_beside_several_batches_is_refused() {
        assert_eq!(refusal(|_, _| {}), None);
        let refused = [
            (refusal(|pipeline, _| pipeline.stages.clear()), "pipeline.stages"),
            (refusal(|pipeline, _| pipeline.stages[1] = 0), "pipeline.stages: must each be 1"),
            (refusal(|pipeline, _| pipeline.batches = 0), "pipeline.batches"),
            (refusal(|_, config| config.instances[0].scheduler.schedule_ahead = true), "schedule_ahead"),
            (refusal(|_, config| config.instances[0].scheduler.receive_interval = 2), "receive_interval"),
            (refusal(|_, config| config.instances[0].scheduler.decodes_first = true), "decodes_first"),
            (refusal(|_, config| config.pace = Some(PACE)), "readers have a pace"),
        ];
        for (said, words) in refused {
            let said = said.unwrap_or_default();
            assert!(said.contains("instances[0].pipeline") && said.contains(words), "{words}: {said}");
        }
    }
}
