//! Checks of the gauges of monitors.

use super::limits::on_clock;
use super::scaling::check_runs;
use super::{Admission, Config};
use crate::error::Error;
use crate::policy::{Action, InstField};

impl Config {
    /// Checks the numbers and windows of gauges, and that monitors alone read them.
    pub(super) fn check_gauges(&self) -> Result<(), Error> {
        let mut numbers = Vec::new();
        for monitor in &self.routing.every {
            for action in &monitor.actions {
                let Action::Gauge(gauge) = action else { continue };
                on_clock(|| "routing.every.actions.window".to_owned(), gauge.window)?;
                check_runs(gauge.window, monitor)?;
                numbers.push(gauge.index);
            }
        }
        numbers.sort_unstable();
        if !numbers.iter().copied().eq(0..numbers.len() as u32) {
            let rule = format!("must number the gauges from 0, each once, was {numbers:?}");
            return Err(Error::config("routing.every.actions.index", rule));
        }
        let mut wrong = None;
        self.routing.visit_gauges(&mut |number, monitored| {
            if !monitored || number as usize >= numbers.len() {
                wrong = Some(number);
            }
        });
        let displaces = self.instances.iter().any(|instance| match &instance.scheduler.admission {
            Admission::Displace { when: Some(when), .. } => when.looks_at(&|field| field == InstField::Gauge),
            _ => false,
        });
        if let Some(number) = wrong.or(displaces.then_some(0)) {
            let rule =
                format!("must be read by monitors, and be one of {} gauges, was {number}", numbers.len());
            return Err(Error::config("inst.gauge", rule));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::fixtures::config;

    /// Checks a monitor with gauges of these numbers, which read `of`, beside a rule that picks by `key`.
    fn checked(numbers: &[u32], of: &str, key: &str) -> Result<(), String> {
        let gauge = |n: &u32| format!(r#"{{"action": "gauge", "index": {n}, "of": {of}, "take": "max"}}"#);
        let actions = numbers.iter().map(gauge).collect::<Vec<_>>().join(",");
        let mut config = config(&[10], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        config.routing = serde_json::from_str(&format!(
            r#"{{"on_arrival": {{"rule": "pick", "min": [{key}]}}, "every": [{{"period": 10, "actions": [{actions}]}}]}}"#
        ))
        .unwrap();
        config.check_gauges().map_err(|error| error.to_string())
    }

    #[test]
    fn gauges_are_numbered_from_0() {
        let zero = r#"{"const": 0}"#;
        assert_eq!(checked(&[1, 0], zero, zero), Ok(()));
        for wrong in [&[1][..], &[0, 0], &[0, 2]] {
            assert!(checked(wrong, zero, zero).unwrap_err().contains("must number the gauges from 0"));
        }
    }

    #[test]
    fn rules_do_not_read_gauges_and_monitors_read_those_that_there_are() {
        let (zero, read) = (r#"{"const": 0}"#, r#"{"field": "inst.gauge", "class": 1}"#);
        assert_eq!(checked(&[0, 1], read, zero), Ok(()));
        assert!(checked(&[0, 1], zero, read).unwrap_err().contains("must be read by monitors"));
        assert!(checked(&[0], read, zero).unwrap_err().contains("be one of 1 gauges, was 1"));
    }
}
