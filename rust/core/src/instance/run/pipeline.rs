//! The batches on their way through the stages of an instance.
//!
//! A batch passes the stages one after another, and each stage has one batch at a time: it begins once the batch has
//! left the stage before, and the batch ahead has left this one. So batches end in the order in which they were formed.
//! A batch is formed while the pipeline has a place for it, which may be before its first stage is free.
//!
//! This component knows when batches end. What they compute is the [batch's](crate::instance::batch) own.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::Run;
use crate::config::PipelineConfig;
use crate::cost::StepShape;
use crate::instance::StepRecord;
use crate::time::Ticks;

/// The stages, and the batches in them.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Pipeline {
    /// Up to where each stage goes, of the sum of all shares.
    shares: Vec<u64>,
    /// When each stage is free.
    free_at: Vec<Ticks>,
    /// The most batches.
    most: usize,
    /// Whether batches without requests take places.
    empty_batches: bool,
    /// The batches, in the order in which they end.
    places: VecDeque<Place>,
    /// How many of them have requests.
    batches: usize,
    /// The moment up to which the time of the batches is counted.
    counted: Ticks,
}

/// A place in the pipeline.
#[derive(Debug, Serialize, Deserialize)]
enum Place {
    /// A batch.
    Taken(Box<Passing>),
    /// A batch without requests, which ends with the one ahead of it.
    Empty(Ticks),
}

/// A batch that passes the stages.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Passing {
    /// From when it was formed to when it leaves the last stage.
    pub(crate) run: Run,
    /// Its shape.
    pub(crate) shape: StepShape,
    /// Its decisions, where they are kept.
    #[serde(with = "crate::checkpoint::absent")]
    pub(crate) record: Option<Box<StepRecord>>,
}

impl Place {
    /// When it is free again.
    fn end(&self) -> Ticks {
        match self {
            Self::Taken(batch) => batch.run.end(),
            Self::Empty(end) => *end,
        }
    }
}

impl Pipeline {
    /// A pipeline without batches.
    pub(crate) fn new(config: &PipelineConfig) -> Self {
        let sums = config.stages.iter().scan(0, |sum, share| {
            *sum += share;
            Some(*sum)
        });
        Self {
            shares: sums.collect(),
            free_at: vec![0; config.stages.len()],
            most: config.batches as usize,
            empty_batches: config.empty_batches,
            places: VecDeque::new(),
            batches: 0,
            counted: 0,
        }
    }

    /// Whether another batch has a place.
    pub(crate) fn has_room(&self) -> bool {
        self.places.len() < self.most
    }

    /// Whether no batch with requests is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.batches == 0
    }

    /// When the next batch leaves, if there is one.
    pub(crate) fn next_end(&self) -> Option<Ticks> {
        self.places.front().map(Place::end)
    }

    /// The batch with requests that leaves next.
    pub(crate) fn first(&self) -> Option<&Passing> {
        self.places.iter().find_map(|place| match place {
            Place::Taken(batch) => Some(&**batch),
            Place::Empty(_) => None,
        })
    }

    /// Has a batch that was formed at `from` and takes `ticks` pass the stages. Returns when it leaves the last.
    pub(crate) fn pass(&mut self, from: Ticks, ticks: Ticks) -> Ticks {
        let all = self.shares.last().copied().unwrap_or(1);
        // The product of a share and of ticks within the clock's range has fewer than 128 bits.
        let part = |upto: u64| (u128::from(ticks) * u128::from(upto) / u128::from(all)) as Ticks;
        let (mut at, mut before) = (from, 0);
        for (free_at, &upto) in self.free_at.iter_mut().zip(&self.shares) {
            let upto = part(upto);
            at = at.max(*free_at).saturating_add(upto - before);
            (*free_at, before) = (at, upto);
        }
        at
    }

    /// Adds a batch that ends last.
    pub(crate) fn add(&mut self, batch: Passing) {
        debug_assert!(self.has_room(), "Invariant: a batch is formed where it has a place");
        debug_assert!(
            self.places.back().is_none_or(|ahead| ahead.end() <= batch.run.end()),
            "Invariant: batches end in the order in which they were formed"
        );
        self.places.push_back(Place::Taken(Box::new(batch)));
        self.batches += 1;
    }

    /// Has a batch without requests take a place, where such batches do and others are in the pipeline. Returns whether
    /// it did.
    pub(crate) fn add_empty(&mut self) -> bool {
        let ahead = self.places.back().filter(|_| self.empty_batches && self.batches > 0);
        let Some(end) = ahead.map(Place::end) else { return false };
        self.places.push_back(Place::Empty(end));
        true
    }

    /// Removes the batches without requests that leave next and by `now`. Returns whether there were any.
    pub(crate) fn drop_empty(&mut self, now: Ticks) -> bool {
        let ended = |place: &&Place| matches!(place, Place::Empty(end) if *end <= now);
        let empty = self.places.iter().take_while(ended).count();
        self.places.drain(..empty);
        empty > 0
    }

    /// Removes the batch that leaves by `now`, if one does.
    pub(crate) fn take(&mut self, now: Ticks) -> Option<Passing> {
        self.drop_empty(now);
        if self.next_end().is_none_or(|end| end > now) {
            return None;
        }
        match self.places.pop_front()? {
            Place::Taken(batch) => {
                self.batches -= 1;
                Some(*batch)
            }
            Place::Empty(_) => None,
        }
    }

    /// Ticks since the time of the batches was last counted, up to `now`; 0 if there is none.
    pub(crate) fn uncounted(&self, now: Ticks) -> Ticks {
        if self.is_empty() { 0 } else { now - self.counted }
    }

    /// Counts the time of the batches up to `now`. Returns how much that is.
    pub(crate) fn count(&mut self, now: Ticks) -> Ticks {
        let ticks = self.uncounted(now);
        self.counted = now;
        ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Extrapolation;
    use crate::series::Series;
    use proptest::prelude::*;

    fn pipeline(stages: &[u64], batches: u32) -> Pipeline {
        Pipeline::new(&PipelineConfig { stages: stages.to_vec(), batches, empty_batches: true })
    }

    fn batch(start: Ticks, end: Ticks) -> Passing {
        let series = Series { first: end - start, slope: 0 };
        let extrapolation = Extrapolation::default();
        let run = Run { start, copying: 0, series, steps: 1, begun: true, extrapolation, decodes: false };
        Passing { run, shape: StepShape::default(), record: None }
    }

    #[test]
    fn equal_batches_follow_each_other_by_one_stage() {
        // Two stages of 10 each: the second batch enters the first stage as the first batch leaves it.
        let mut stages = pipeline(&[1, 1], 2);
        assert_eq!([stages.pass(0, 20), stages.pass(0, 20), stages.pass(20, 20)], [20, 30, 40]);
        // A long batch of 60 holds the second stage up to 100; a short one behind it waits for that.
        assert_eq!([stages.pass(30, 60), stages.pass(40, 2)], [90, 91]);
    }

    #[test]
    fn stages_have_their_shares_of_a_step() {
        let mut stages = pipeline(&[1, 3], 2);
        // 40 ticks are 10 and 30: the second batch waits for the second stage, which is the longer one.
        assert_eq!([stages.pass(0, 40), stages.pass(0, 40), stages.pass(0, 40)], [40, 70, 100]);
    }

    #[test]
    fn empty_batches_take_places_behind_others_only() {
        let mut stages = pipeline(&[1, 1], 3);
        assert!(!stages.add_empty(), "no batch is ahead");
        stages.add(batch(0, 20));
        assert!(stages.add_empty() && stages.add_empty() && !stages.has_room());
        assert_eq!((stages.next_end(), stages.drop_empty(20)), (Some(20), false));
        assert_eq!(stages.take(20).map(|batch| batch.run.end()), Some(20));
        stages.add(batch(20, 40));
        assert!(!stages.has_room() && stages.drop_empty(20) && stages.has_room());
        assert_eq!((stages.next_end(), stages.uncounted(25)), (Some(40), 25));
        assert_eq!((stages.count(25), stages.uncounted(30)), (25, 5));
        assert!(stages.add_empty() && stages.take(40).is_some());
        assert!(!stages.add_empty(), "only an empty batch is ahead");
    }

    proptest! {
        #[test]
        fn one_batch_at_a_time_takes_as_long_as_its_step(
            shares in prop::collection::vec(1u64..9, 1..6), ticks in prop::collection::vec(0u64..1000, 1..9),
        ) {
            let mut stages = pipeline(&shares, 1);
            let mut now = 0;
            for ticks in ticks {
                prop_assert_eq!(stages.pass(now, ticks), now + ticks);
                now += ticks;
            }
        }
    }
}
