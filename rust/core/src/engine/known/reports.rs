//! Reports of instances to the routers, at every multiple of a period.
//!
//! A report has the fields that rules read, as of the moment at which it is taken: after the steps that end then, and
//! before rules are asked. Until the next one, routers see these values.

use crate::policy::InstField;
use crate::time::Ticks;

/// The fields of all instances as of their latest report.
#[derive(Debug)]
pub(super) struct Reports {
    /// Ticks from one report to the next.
    every: Ticks,
    /// When the next report is taken.
    next: Ticks,
    /// The fields that are reported, and the classes that they count.
    fields: Vec<(InstField, u32)>,
    /// The values of the latest report: by instance, and then by field.
    values: Vec<f64>,
    /// Happenings of the replay as it was taken.
    happenings: u64,
}

crate::checkpoint::checkpointed!(Reports {
    values: next, values, happenings;
    fixed: every, fields;
});

impl Reports {
    /// Reports of these fields; the first is taken at the start.
    pub(super) fn new(every: Ticks, fields: Vec<(InstField, u32)>, instances: usize) -> Self {
        let values = vec![0.0; fields.len() * instances];
        Self { every, next: 0, fields, values, happenings: 0 }
    }

    /// When the next report is taken.
    pub(super) fn next(&self) -> Ticks {
        self.next
    }

    /// Whether nothing has happened since the latest report, after so many `happenings`.
    pub(super) fn is_fresh(&self, happenings: u64) -> bool {
        self.happenings == happenings
    }

    /// Takes a report; `value` gives a field of an instance.
    pub(super) fn take(&mut self, happenings: u64, mut value: impl FnMut(usize, (InstField, u32)) -> f64) {
        self.happenings = happenings;
        self.next = self.next.saturating_add(self.every);
        if self.fields.is_empty() {
            return;
        }
        for (instance, values) in self.values.chunks_mut(self.fields.len()).enumerate() {
            for (reported, &field) in values.iter_mut().zip(&self.fields) {
                *reported = value(instance, field);
            }
        }
    }

    /// The fields that are reported, and the classes that they count.
    pub(super) fn fields(&self) -> &[(InstField, u32)] {
        &self.fields
    }

    /// The values of the latest report, which are to be replaced.
    pub(super) fn replace(&mut self, happenings: u64) -> &mut Vec<f64> {
        self.happenings = happenings;
        &mut self.values
    }

    /// A field of an instance as of the latest report.
    pub(super) fn field(&self, instance: usize, field: (InstField, u32)) -> f64 {
        let at = self.fields.iter().position(|&reported| reported == field);
        debug_assert!(at.is_some(), "Invariant: every field that a rule reads is reported");
        at.map_or(0.0, |at| self.values[instance * self.fields.len() + at])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_latest_report() {
        let fields = vec![(InstField::Running, 0), (InstField::ClassRequests, 2)];
        let mut reports = Reports::new(100, fields, 2);
        for (moment, base) in [(0, 0.0), (100, 40.0), (200, 80.0)] {
            assert_eq!(reports.next(), moment);
            reports.take(moment, |instance, (field, class)| {
                base + instance as f64 * 10.0
                    + f64::from(class)
                    + f64::from(u8::from(field == InstField::Running))
            });
            assert_eq!(reports.field(0, (InstField::Running, 0)) as u64, moment / 100 * 40 + 1);
            assert_eq!(reports.field(1, (InstField::ClassRequests, 2)) as u64, moment / 100 * 40 + 12);
            assert!(reports.is_fresh(moment) && !reports.is_fresh(moment + 1));
        }
    }
}
