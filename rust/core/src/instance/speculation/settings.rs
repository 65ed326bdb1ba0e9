//! The settings of drafts: how many there are, and how long steps take with them.

use std::sync::Arc;

use super::drafting::draft_ticks;
use super::rises::{Rises, rise};
use crate::config::SpeculationConfig;
use crate::cost::{Cost, Rise, StepShape};
use crate::hint::rare;
use crate::time::{HORIZON, Ticks};

/// How tokens are drafted, if they are, and how long that takes.
#[derive(Debug)]
pub(crate) struct DraftSettings {
    config: Option<Arc<SpeculationConfig>>,
    /// How long steps of the decode set take, where that was computed beforehand.
    rises: Rises,
}

impl DraftSettings {
    /// Has the costs of batches of up to `most` requests computed beforehand, with and without drafts.
    pub(in crate::instance) fn new(config: Option<&SpeculationConfig>, cost: &mut Cost, most: u64) -> Self {
        let mut config = config.cloned();
        let drafts = config.as_ref().map_or(0, |config| u64::from(config.tokens));
        // With drafts, each is verified by a row of its own; a draft model computes them, and samples a row a request.
        cost.prepare(most, &[(drafts, drafts + 1)]);
        if let Some(draft) = config.as_mut().and_then(|config| config.draft.as_mut()) {
            draft.prepare(most, &[(drafts, 1), (0, 1)]);
        }
        Self { rises: Rises::new(cost, config.as_ref(), most), config: config.map(Arc::new) }
    }

    /// The configuration, if tokens are drafted.
    pub(in crate::instance) fn config(&self) -> Option<&Arc<SpeculationConfig>> {
        self.config.as_ref()
    }

    /// Tokens of the budget that each scheduled request takes beside its own.
    pub(in crate::instance) fn input_slots(&self) -> u64 {
        self.config.as_ref().map_or(0, |config| u64::from(config.input_slots))
    }

    /// Slots that a decode may take in a step, with those for the KV of the next drafts; 0 where none is drafted.
    pub(in crate::instance) fn slots(&self) -> u32 {
        self.config.as_ref().map_or(0, |config| 1 + config.most_slots(false) as u32)
    }

    /// The ticks of a step, with the passes of the draft model after it.
    pub(in crate::instance) fn with_passes(&self, step: Ticks, shape: &StepShape) -> Ticks {
        match &self.config {
            None => step,
            Some(config) => {
                rare();
                step.saturating_add(draft_ticks(config, shape)).min(HORIZON)
            }
        }
    }

    /// The ticks of a step of the decode set alone where tokens are drafted, and how they rise with the context; `None` if
    /// that is not along a straight line.
    pub(in crate::instance) fn step_rise(&self, cost: &Cost, shape: &StepShape) -> Option<Rise> {
        self.rises.of(shape).or_else(|| rise(cost, self.config.as_ref()?, shape))
    }
}
