//! A relay between instances and routers: instances tell it their fields when their counts change, and it publishes the
//! fields of all instances to the routers.
//!
//! An instance tells its fields after a step, and before one too if the relay says so, if the number of its running or of
//! its queued requests is not as it told last. At the end of each moment the relay reads what it was told, in order. After
//! each message and each publication its deadline is set anew: a gap after the latest publication if anything was told
//! since, and a longer one if not. The time since then is counted in whole units. At its deadline it publishes.
//!
//! A relay that keeps copies publishes fields of one step where it can: when the first message of a later step is read, it
//! copies what it was told before. At its deadline it publishes the copy, if there is one.

use serde::{Deserialize, Serialize};

use crate::config::Relay as Config;
use crate::time::Ticks;

/// A message of an instance.
#[derive(Debug, Serialize, Deserialize)]
struct Message {
    instance: usize,
    /// The step before or after which it is told: their number rises.
    step: u64,
    values: Vec<f64>,
}

/// The fields that instances have told the relay, and those that it has published.
#[derive(Debug)]
pub(super) struct Relay {
    config: Config,
    /// The longest gap between two publications.
    every: Ticks,
    /// By instance: running and queued requests as it told last.
    told: Vec<[u64; 2]>,
    /// Messages that are not read yet.
    messages: Vec<Message>,
    /// The fields of all instances, as they told last.
    values: Vec<f64>,
    /// The fields of all instances before the latest step.
    copy: Option<Vec<f64>>,
    /// Whether anything was read since the fields of the latest step were published.
    changed: bool,
    /// The latest step of a message.
    step: Option<u64>,
    /// When it published last, in whole units.
    published: Ticks,
    /// When it publishes next.
    due: Ticks,
}

crate::checkpoint::checkpointed!(Relay {
    values: told, messages, values, copy, changed, step, published, due;
    fixed: config, every;
});

impl Relay {
    /// A relay that is due at the start, and has to be told the fields of idle instances before.
    pub(super) fn new(config: Config, every: Ticks, instances: usize) -> Self {
        Self {
            config,
            every,
            told: vec![[0; 2]; instances],
            messages: Vec::new(),
            values: Vec::new(),
            copy: None,
            changed: false,
            step: None,
            published: 0,
            due: 0,
        }
    }

    /// Whether instances tell their fields before steps too.
    pub(super) fn hears_before(&self) -> bool {
        self.config.before
    }

    /// When it publishes next.
    pub(super) fn due(&self) -> Ticks {
        self.due
    }

    /// Whether it has been told anything that it has not published.
    pub(super) fn has_news(&self) -> bool {
        self.changed || self.copy.is_some() || !self.messages.is_empty()
    }

    /// Adds the fields of the next instance at the start.
    pub(super) fn begin_with(&mut self, values: impl Iterator<Item = f64>) {
        self.values.extend(values);
    }

    /// Whether nothing was published yet.
    pub(super) fn is_new(&self) -> bool {
        self.values.is_empty()
    }

    /// Whether an instance tells its fields, with so many running and queued requests.
    pub(super) fn differs(&self, instance: usize, counts: [u64; 2]) -> bool {
        self.told[instance] != counts
    }

    /// Has an instance tell its fields before or after a step.
    pub(super) fn tell(&mut self, instance: usize, step: u64, counts: [u64; 2], values: Vec<f64>) {
        self.told[instance] = counts;
        self.messages.push(Message { instance, step, values });
    }

    /// Reads all messages at the end of a moment. Returns whether the deadline has passed.
    pub(super) fn read(&mut self, now: Ticks) -> bool {
        for message in std::mem::take(&mut self.messages) {
            if self.config.copies.is_some() && self.step.is_none_or(|step| step < message.step) {
                if self.changed {
                    self.copy = Some(self.values.clone());
                }
                self.step = Some(message.step);
            }
            let from = message.instance * message.values.len();
            self.values[from..from + message.values.len()].copy_from_slice(&message.values);
            self.changed = true;
            self.set_deadline(now);
        }
        self.due <= now
    }

    /// Publishes the fields of all instances.
    pub(super) fn publish(&mut self, now: Ticks, published: &mut Vec<f64>) {
        if let Some(copy) = self.copy.take() {
            *published = copy;
        } else {
            published.clone_from(&self.values);
            self.changed = false;
        }
        self.published = self.in_units(now);
        self.set_deadline(now);
    }

    /// A moment, rounded down to whole units.
    fn in_units(&self, now: Ticks) -> Ticks {
        now - now % self.config.unit
    }

    fn set_deadline(&mut self, now: Ticks) {
        let gap = if self.changed { self.config.gap } else { self.every };
        let left = gap.saturating_sub(self.in_units(now) - self.published);
        let least = self.config.copies.filter(|_| self.copy.is_none()).unwrap_or(0);
        self.due = now.saturating_add(left.max(least));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(copies: Option<Ticks>) -> Relay {
        let config = Config { gap: 100, unit: 10, before: true, copies };
        let mut relay = Relay::new(config, 1000, 2);
        assert!(relay.is_new());
        relay.begin_with([0.0].into_iter());
        relay.begin_with([0.0].into_iter());
        let mut published = Vec::new();
        relay.publish(0, &mut published);
        assert_eq!((relay.due(), published), (1000, vec![0.0, 0.0]));
        relay
    }

    #[test]
    fn what_is_told_is_published_a_gap_after_the_latest_publication() {
        let (mut relay, mut published) = (relay(None), Vec::new());
        assert!(relay.differs(1, [0, 1]) && !relay.differs(1, [0, 0]));
        relay.tell(1, 0, [0, 1], vec![7.0]);
        assert!(relay.has_news() && !relay.differs(1, [0, 1]));
        assert!(!relay.read(27));
        // Two units have passed since 0: 80 ticks are left.
        assert_eq!(relay.due(), 27 + 80);
        relay.publish(107, &mut published);
        assert_eq!((published.as_slice(), relay.has_news()), ([0.0, 7.0].as_slice(), false));
        assert_eq!(relay.due(), 107 + 1000);
        // More than the gap has passed: the deadline is at once, and all messages are read before.
        relay.tell(0, 1, [1, 0], vec![3.0]);
        relay.tell(1, 1, [1, 0], vec![4.0]);
        assert!(relay.read(250));
        relay.publish(250, &mut published);
        assert_eq!(published, [3.0, 4.0]);
    }

    #[test]
    fn a_copy_of_the_step_before_is_published_first() {
        let (mut relay, mut published) = (relay(Some(50)), Vec::new());
        relay.tell(0, 1, [1, 0], vec![1.0]);
        assert!(!relay.read(95), "it waits 50 ticks while there is no copy");
        assert_eq!(relay.due(), 145);
        relay.tell(1, 1, [1, 0], vec![2.0]);
        relay.tell(0, 2, [2, 0], vec![9.0]);
        assert!(!relay.read(96), "one unit of the gap is left");
        assert_eq!(relay.due(), 106);
        relay.publish(106, &mut published);
        assert_eq!(published, [1.0, 2.0]);
        assert!(relay.has_news());
        relay.publish(206, &mut published);
        assert_eq!(published, [9.0, 2.0]);
    }
}
