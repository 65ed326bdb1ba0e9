//! Reads the instances at equally spaced moments.
//!
//! A sample is taken once all events of its moment have been handled. Reading an instance applies the steps of its run that
//! have ended, which changes no result; so a run is not cut short by a sample within it.

use super::cluster::Cluster;
use crate::time::{NEVER, Ticks};
use crate::timeline::{Rows, Sample, Timeline};

/// The timeline of a replay, if there is one.
#[derive(Debug)]
pub(super) struct Sampling {
    timeline: Option<Box<Timeline>>,
    /// When the next sample is due; [`NEVER`] without a timeline.
    next: Ticks,
}

crate::checkpoint::checkpointed!(Sampling {
    values: timeline, next;
});

impl Sampling {
    /// The sampling of so many instances; none if `sample` is `None`.
    pub(super) fn new(sample: Option<Sample>, instances: usize) -> Self {
        let timeline = sample.map(|sample| Box::new(Timeline::new(sample, instances)));
        let next = timeline.as_ref().map_or(NEVER, |timeline| timeline.next());
        Self { timeline, next }
    }

    /// When the next sample is due.
    pub(super) fn next(&self) -> Ticks {
        self.next
    }

    /// Takes the samples that are due by `until`, by which no other event happens.
    #[inline(never)]
    pub(super) fn sample(&mut self, until: Ticks, cluster: &mut Cluster) {
        let Some(timeline) = &mut self.timeline else { return };
        while timeline.next() <= until {
            timeline.make_room();
            let now = timeline.next();
            if now <= until {
                timeline.push(cluster.readings(now));
            }
        }
        self.next = timeline.next();
    }

    /// Takes the samples that are due by `now`, when the replay ends, and the last.
    pub(super) fn finish(&mut self, now: Ticks, cluster: &mut Cluster) {
        self.sample(now, cluster);
        if let Some(timeline) = &mut self.timeline {
            timeline.finish(now, cluster.readings(now));
        }
    }

    /// The timeline's rows.
    pub(super) fn into_rows(self) -> Option<Rows> {
        self.timeline.map(|timeline| timeline.rows())
    }
}
