//! Checks of actions that set the sizes of pools.

use super::Config;
use super::limits::{MOST, MOST_ROLE, on_clock, within};
use crate::error::Error;
use crate::policy::{Action, Amount, Monitor, Scale};
use crate::time::Ticks;

/// The most runs of a monitor that a window may span: what was read in each is kept.
const MOST_RUNS: u64 = 100_000;

impl Config {
    /// Checks the pools and the numbers of these actions.
    pub(super) fn check_scaling(&self) -> Result<(), Error> {
        for monitor in &self.routing.every {
            for action in &monitor.actions {
                if let Action::Scale(scale) = action {
                    self.check_scale(scale, monitor)?;
                }
            }
        }
        Ok(())
    }

    /// Checks one of them.
    fn check_scale(&self, scale: &Scale, monitor: &Monitor) -> Result<(), Error> {
        let at = |field: &str| format!("routing.every.actions.{field}");
        for (field, role) in [("pool", scale.pool), ("off", scale.off)] {
            within(|| at(field), 0, u64::from(MOST_ROLE), u64::from(role))?;
            if self.leaving.iter().any(|leaving| leaving.role == role) {
                return Err(Error::config(at(field), "must not be a pool of leaving instances"));
            }
        }
        if scale.pool == scale.off {
            return Err(Error::config(at("off"), format!("must differ from pool, was {} too", scale.off)));
        }
        within(|| at("least"), 0, scale.most.unwrap_or(MOST).min(MOST), scale.least)?;
        for (field, choice) in [("start", &scale.start), ("stop", &scale.stop)] {
            if choice.within.is_some() {
                let rule = "must be null: the choice is among the instances of a pool";
                return Err(Error::config(at(&format!("{field}.within")), rule));
            }
        }
        on_clock(|| at("averaged"), scale.averaged)?;
        for (name, rules) in scale.rules() {
            on_clock(|| at(&format!("{name}.window")), rules.window)?;
            for limit in &rules.limits {
                on_clock(|| at(&format!("{name}.limits.per")), limit.per)?;
                let (Amount::Instances(amount) | Amount::Percent(amount)) = limit.by;
                within(|| at(&format!("{name}.limits.by")), 0, MOST, amount)?;
            }
        }
        check_runs(scale.memory(), monitor)
    }
}

/// Checks how often a monitor runs in a window, as what it reads in each run is kept.
pub(super) fn check_runs(window: Ticks, monitor: &Monitor) -> Result<(), Error> {
    let runs = window / monitor.period.max(1);
    if runs > MOST_RUNS {
        let rule = format!("must run at most {MOST_RUNS} times within its longest window, ran {runs} times");
        return Err(Error::config("routing.every.period", rule));
    }
    Ok(())
}
