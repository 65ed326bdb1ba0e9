//! The values that gauges have read.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::engine::recent::drop_old;
use crate::policy::{Action, Gauge, Routing, Take};
use crate::time::Ticks;

/// The readings of all gauges.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Gauges {
    /// By gauge, and then by instance.
    readings: Vec<Vec<Readings>>,
}

/// The readings of a gauge on an instance.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Readings {
    /// The latest values, in the order of their moments.
    values: VecDeque<(Ticks, f64)>,
    /// Their largest, smallest or mean as of the latest run; 0 without values.
    value: f64,
}

impl Gauges {
    /// The gauges of a policy, before they have read anything.
    pub(super) fn new(routing: &Routing, instances: usize) -> Self {
        let actions = routing.every.iter().flat_map(|monitor| &monitor.actions);
        let count = actions.filter(|action| matches!(action, Action::Gauge(_))).count();
        Self { readings: vec![vec![Readings::default(); instances]; count] }
    }

    /// Notes the values of some instances, in their order. The others lose what was noted of them.
    pub(super) fn read(&mut self, gauge: &Gauge, values: &[(usize, f64)], now: Ticks) {
        let mut values = values.iter().peekable();
        for (index, readings) in self.readings[gauge.index as usize].iter_mut().enumerate() {
            match values.next_if(|(of, _)| *of == index) {
                Some((_, value)) => readings.note(gauge, *value, now),
                None => *readings = Readings::default(),
            }
        }
    }

    /// The value of a gauge on an instance, as of the latest run; 0 without values.
    pub(super) fn value(&self, gauge: u32, instance: usize) -> f64 {
        self.readings[gauge as usize][instance].value
    }
}

impl Readings {
    /// Notes a value. One that is not a number is left out.
    fn note(&mut self, gauge: &Gauge, value: f64, now: Ticks) {
        drop_old(&mut self.values, gauge.window, now);
        if !value.is_nan() {
            self.values.push_back((now, value));
        }
        let all = self.values.iter().map(|(_, value)| *value);
        self.value = match gauge.take {
            Take::Max => all.reduce(f64::max),
            Take::Min => all.reduce(f64::min),
            Take::Mean => all.reduce(|sum, value| sum + value).map(|sum| sum / self.values.len() as f64),
        }
        .unwrap_or(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of instance 0 of two, of which these are read 10 ticks apart.
    fn values(take: &str, window: u64, read: &[Option<f64>]) -> Vec<f64> {
        let text = format!(
            r#"{{"on_arrival": {{"rule": "round_robin"}}, "every": [{{"period": 10, "actions": [
                {{"action": "gauge", "index": 0, "of": {{"const": 0}}, "window": {window}, "take": "{take}"}}]}}]}}"#
        );
        let routing: Routing = serde_json::from_str(&text).unwrap();
        let Action::Gauge(gauge) = &routing.every[0].actions[0] else { unreachable!() };
        let mut gauges = Gauges::new(&routing, 2);
        let run = |(i, value): (usize, &Option<f64>)| {
            let found: Vec<_> = value.iter().map(|value| (0, *value)).chain([(1, 99.0)]).collect();
            gauges.read(gauge, &found, 10 * (i as u64 + 1));
            assert_eq!(gauges.value(0, 1).to_bits(), 99.0_f64.to_bits());
            gauges.value(0, 0)
        };
        read.iter().enumerate().map(run).collect()
    }

    #[test]
    fn a_value_counts_until_it_is_as_old_as_the_window() {
        let read = [4.0, 1.0, 2.0, 0.0].map(Some);
        assert_eq!(values("max", 20, &read), [4.0, 4.0, 2.0, 2.0]);
        assert_eq!(values("min", 20, &read), [4.0, 1.0, 1.0, 0.0]);
        assert_eq!(values("mean", 20, &read), [4.0, 2.5, 1.5, 1.0]);
        assert_eq!(values("max", 0, &read), [4.0, 1.0, 2.0, 0.0]);
    }

    #[test]
    fn an_instance_that_is_not_read_starts_anew() {
        assert_eq!(values("max", 100, &[Some(4.0), None, Some(1.0)]), [4.0, 0.0, 1.0]);
    }

    #[test]
    fn what_is_no_number_is_left_out() {
        let nan = Some(f64::NAN);
        assert_eq!(values("mean", 20, &[Some(4.0), nan, nan, Some(-1.0)]), [4.0, 4.0, 0.0, -1.0]);
    }
}
