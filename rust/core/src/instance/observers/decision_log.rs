//! The decisions of each step, for decision logs.

use super::step_columns::StepColumns;
use super::step_record::StepRecord;
use crate::config::Window;
use crate::instance::run::Run;
use crate::metrics::RecordRoom;
use crate::time::Ticks;

/// The records of an instance, where decisions are kept.
#[derive(Debug)]
pub(crate) struct DecisionLog {
    steps: Option<StepColumns>,
    /// When a step must start to be kept.
    window: Window,
    /// The first step in progress.
    current: Option<Box<StepRecord>>,
}

crate::checkpoint::checkpointed!(DecisionLog {
    fixed: window;
    absent: steps, current;
});

impl DecisionLog {
    /// A log of the steps that start in `window`; it keeps none if `window` is `None`.
    pub(crate) fn new(window: Option<Window>) -> Self {
        let steps = window.map(|_| StepColumns::default());
        Self { steps, window: window.unwrap_or(Window::ALL), current: None }
    }

    /// Whether decisions are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.steps.is_some()
    }

    /// Whether a run of `steps` steps that starts at `start` may have a step that is kept.
    pub(crate) fn reaches(&self, start: Ticks, steps: u64) -> bool {
        self.is_kept() && start < self.window.to && (steps > 1 || start >= self.window.from)
    }

    /// Keeps the record of a step that starts.
    #[cold]
    pub(crate) fn begin(&mut self, record: StepRecord) {
        self.current = Some(Box::new(record));
    }

    /// Takes the record of the step that starts, where it has one.
    pub(crate) fn take_current(&mut self) -> Option<Box<StepRecord>> {
        self.current.take()
    }

    /// Makes the step in progress the one that starts at `start`, `ended` steps
    /// later in its run, where the one before it started at `before`. `taken`: blocks that the run has taken since.
    pub(crate) fn resume(&mut self, (before, start): (Ticks, Ticks), ended: u64, taken: u64) {
        if let Some(record) = &mut self.current {
            record.decided = record.decided.map(|_| before);
            record.start = start;
            record.free_blocks -= taken;
            record.advance(ended);
        }
    }

    /// Writes the first `steps` steps of a run, while there is `room` for them. `taken`: blocks that the run has taken
    /// once so many steps have ended.
    #[inline(never)]
    pub(crate) fn write(&mut self, run: &Run, steps: u64, room: &mut RecordRoom, taken: impl Fn(u64) -> u64) {
        let (Some(written), Some(first)) = (self.steps.as_mut(), self.current.as_deref()) else { return };
        for i in 0..steps {
            let start = run.after(i);
            if !self.window.contains(start) {
                continue;
            }
            if !room.take(1 + first.scheduled.len() as u64, start) {
                return;
            }
            let free_blocks = if i > 0 { first.free_blocks - taken(i) } else { first.free_blocks };
            // A step of a run is decided when the one before it starts.
            let decided = first.decided.map(|moment| if i > 0 { run.after(i - 1) } else { moment });
            written.push(first, i, (start, run.after(i + 1) - start), decided, free_blocks);
        }
    }

    /// All steps, and forgets them.
    pub(crate) fn take(&mut self) -> StepColumns {
        self.steps.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::step_record::Part;
    use super::*;
    use crate::cost::Extrapolation;
    use crate::series::Series;

    fn records(steps: &StepColumns) -> Vec<StepRecord> {
        (0..steps.len()).map(|at| steps.record(at)).collect()
    }

    #[test]
    fn the_steps_of_a_run_are_written_one_by_one() {
        let mut log = DecisionLog::new(Some(Window::ALL));
        let first = StepRecord {
            start: 100,
            decided: Some(80),
            ticks: 15,
            scheduled: vec![(7, 1, 20, Part::SwappedInDecode)],
            drafted: Vec::new(),
            preempted: vec![3],
            copied: (0, 2),
            group: None,
            free_blocks: 9,
        };
        log.begin(first.clone());
        let series = Series { first: 10, slope: 1 };
        let extrapolation = Extrapolation::default();
        let run = Run { start: 100, copying: 5, series, steps: 3, begun: true, extrapolation, decodes: true };
        log.write(&run, 3, &mut RecordRoom::default(), |ended| ended / 2);
        let written: Vec<StepRecord> = records(&log.take());
        assert_eq!(written[0], first);
        let times = written.iter().map(|step| (step.decided, step.start, step.ticks));
        assert_eq!(
            times.collect::<Vec<_>>(),
            [(Some(80), 100, 15), (Some(100), 115, 11), (Some(115), 126, 12)],
            "a step of a run is decided when the one before it starts"
        );
        assert_eq!(written[2].scheduled, [(7, 1, 22, Part::Decode)]);
        assert_eq!((written[2].preempted.len(), written[2].copied, written[2].free_blocks), (0, (0, 0), 8));
    }

    #[test]
    fn steps_are_written_while_there_is_room() {
        let mut log = DecisionLog::new(Some(Window::ALL));
        let scheduled = vec![(7, 1, 20, Part::Decode), (8, 1, 30, Part::Decode)];
        log.begin(StepRecord { start: 100, scheduled, free_blocks: 9, ..StepRecord::default() });
        let series = Series { first: 10, slope: 0 };
        let extrapolation = Extrapolation::default();
        let run = Run { start: 100, copying: 0, series, steps: 3, begun: true, extrapolation, decodes: true };
        // A step of two requests takes three entries.
        let mut room = RecordRoom::new(8);
        log.write(&run, 3, &mut room, |_| 0);
        assert_eq!((log.take().len(), room.ended()), (2, Some(120)));
    }

    #[test]
    fn steps_outside_of_the_window_are_left_out() {
        let mut log = DecisionLog::new(Some(Window { from: 115, to: 126 }));
        assert!(log.reaches(100, 2) && !log.reaches(100, 1) && log.reaches(115, 1) && !log.reaches(126, 9));
        let series = Series { first: 10, slope: 1 };
        let extrapolation = Extrapolation::default();
        let run = Run { start: 100, copying: 5, series, steps: 3, begun: true, extrapolation, decodes: true };
        log.begin(StepRecord { start: 100, free_blocks: 9, ..StepRecord::default() });
        log.write(&run, 3, &mut RecordRoom::default(), |ended| ended);
        let written = records(&log.take());
        let kept = written.iter().map(|step| (step.start, step.ticks, step.free_blocks));
        assert_eq!(kept.collect::<Vec<_>>(), [(115, 11, 8)]);
        assert!(!DecisionLog::new(None).reaches(0, 1));
    }
}
