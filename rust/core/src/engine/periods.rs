//! The bound on how often monitors run and instances report in a replay.

use crate::config::Config;
use crate::error::Error;
use crate::time::{TICKS_PER_SECOND, Ticks};
use crate::trace::Trace;

/// The most times that a period may fit into the time of a replay. So many take some minutes.
const MOST: u64 = 1_000_000_000;

/// Checks that no monitor, and no report, comes so often that the replay of a trace would not end within hours.
///
/// # Errors
///
/// Names the period.
pub(super) fn check(config: &Config, trace: &Trace) -> Result<(), Error> {
    let last = trace.arrival.last().copied().unwrap_or(0);
    let span = config.until.map_or(last, |until| until.min(last));
    let monitors = config.routing.every.iter().enumerate();
    let monitors = monitors.map(|(i, monitor)| (format!("routing.every[{i}].period"), monitor.period));
    let reports = config.routers.report_every.map(|period| ("routers.report_every".to_owned(), period));
    for (field, period) in monitors.chain(reports) {
        let times = span / period.max(1);
        if times > MOST {
            return Err(Error::config(field, too_often(period, times, span)));
        }
    }
    Ok(())
}

fn too_often(period: Ticks, times: u64, span: Ticks) -> String {
    let seconds = |ticks: Ticks| ticks as f64 / TICKS_PER_SECOND as f64;
    format!(
        "must fit at most {MOST} times into the time of the replay, {} s until the last arrival, was {} s, which \
         fits {times} times; take {} s or more, or a shorter window of the trace",
        seconds(span),
        seconds(period),
        seconds(span.div_ceil(MOST))
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{config, row, trace};

    #[test]
    fn a_period_must_not_fit_too_often_into_the_time_of_the_replay() {
        let mut config = config(&[10], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let trace = trace(&[row(0, 1, 1), row(3 * MOST, 1, 1)]);
        for (period, refused) in [(1, true), (2, true), (3, false)] {
            config.routers.report_every = Some(period);
            let said = check(&config, &trace).err().map(|error| error.to_string());
            let rule = format!("routers.report_every: must fit at most {MOST} times into");
            assert_eq!(said.as_ref().is_some_and(|said| said.contains(&rule)), refused, "{said:?}");
        }
        config.routers.report_every = Some(1);
        config.until = Some(MOST);
        assert!(check(&config, &trace).is_ok(), "the replay stops before");
    }
}
