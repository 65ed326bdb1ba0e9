//! Runs that are started, truncated and listed.

use super::{Run, RunState};
use crate::cost::{Extrapolation, StepShape};
use crate::instance::queues::Receipts;
use crate::series::Series;
use crate::time::Ticks;

fn run(start: Ticks, steps: u64) -> Run {
    let series = Series { first: 10, slope: 0 };
    let extrapolation = Extrapolation::default();
    Run { start, copying: 0, series, steps, begun: true, extrapolation, decodes: true }
}

#[test]
fn a_run_is_truncated_at_the_end_of_its_step() {
    let mut state = RunState::default();
    state.start(run(100, 5), StepShape::default());
    assert_eq!(state.truncate(150), None, "its last step ends then");
    assert_eq!(state.truncate(121), Some(130));
    assert_eq!(state.truncate(130), None);
    assert_eq!(state.truncate(120), Some(120), "a step that ends then is the last");
    assert_eq!(state.end().steps, 2);
    assert!(state.is_idle() && state.truncate(125).is_none());
}

#[test]
fn an_arrival_as_a_step_starts_is_seen_by_the_step_decided_then() {
    let truncated = |now, ahead| {
        let mut state = RunState::default();
        state.start(run(100, 9), StepShape::default());
        state.truncate_at_receipt(&Receipts::new(1), ahead, now)
    };
    // The second step is decided as the first starts, at 100, and the third as the second does, at 110.
    assert_eq!([100, 101, 110, 111].map(|now| truncated(now, true)), [110, 120, 120, 130].map(Some));
    assert_eq!([100, 101, 110, 111].map(|now| truncated(now, false)), [110, 110, 110, 120].map(Some));
}

#[test]
fn a_run_is_truncated_where_an_arrival_is_received() {
    let truncated = |interval, ahead| {
        let mut state = RunState::default();
        state.start(run(100, 9), StepShape::default());
        state.truncate_at_receipt(&Receipts::new(interval), ahead, 131)
    };
    // The fourth step runs then; by a decision ahead, the fifth is decided.
    assert_eq!([truncated(1, false), truncated(1, true)], [Some(140), Some(150)]);
    assert_eq!([truncated(4, false), truncated(4, true)], [Some(140), Some(180)]);
    assert_eq!(truncated(10, false), None, "the run ends before");
}

#[test]
fn truncating_cancels_the_listed_steps() {
    let mut state = RunState::default();
    state.start(run(100, 1), StepShape::default());
    assert_eq!((state.look_ahead(), state.look_ahead()), (1, 2));
    assert_eq!(state.list([12, 14].into_iter()), 136);
    assert!(!state.is_past_head(109) && state.is_past_head(110));
    assert_eq!([109, 110, 122, 136].map(|now| state.single_steps_ended(now)), [0, 1, 2, 3]);
    assert_eq!(state.truncate(105), Some(110));
    assert!(!state.is_past_head(110) && state.take_list().is_none());
    assert_eq!(state.look_ahead(), 1, "these were not all taken");
}

#[test]
fn a_list_whose_first_steps_are_applied_goes_on() {
    let mut state = RunState::default();
    state.start(run(100, 1), StepShape::default());
    state.list([12, 14].into_iter());
    for (start, end, past) in [(110, 122, true), (122, 136, false)] {
        let mut list = state.take_list().expect("steps are listed");
        state.end();
        list.take(1);
        state.keep_list(list, StepShape { decode_kv: start, ..StepShape::default() });
        let run = state.current().copied().expect("a step is in progress");
        assert_eq!((run.start, run.end(), state.shape().decode_kv), (start, end, start));
        assert_eq!(state.is_past_head(136), past, "nothing follows the last one");
    }
}

#[test]
fn what_is_left_of_a_run_has_the_shape_of_its_first_step() {
    let mut state = RunState::default();
    let shape = StepShape { decode_requests: 3, decode_kv: 30, decode_max_kv: 12, ..StepShape::default() };
    state.start(run(100, 5), shape);
    let run = state.end();
    state.resume(run, 2);
    assert_eq!((state.shape().decode_kv, state.shape().decode_max_kv), (36, 14));
}

#[test]
fn a_run_that_starts_at_a_moment_has_not_begun_then() {
    let mut state = RunState::default();
    assert!(!state.begin_before(101) && !state.is_in_step(101), "nothing is in progress");
    state.start(Run { begun: false, ..run(100, 5) }, StepShape::default());
    assert!(!state.begin_before(100) && !state.is_in_step(100));
    assert!(state.is_in_step(101));
    assert!(state.begin_before(101) && !state.begin_before(101), "it begins once");
    assert!(state.is_in_step(100), "its first step has its blocks");
    state.end();
    state.start(Run { decodes: false, ..run(100, 1) }, StepShape::default());
    assert!(!state.is_in_step(101), "the decode set takes no step");
}

#[test]
fn a_run_decided_ahead_that_has_not_begun_is_dropped_at_its_start() {
    for (now, end) in [(100, 100), (105, 120)] {
        let mut state = RunState::default();
        state.start(Run { begun: false, ..run(100, 5) }, StepShape::default());
        assert_eq!(state.truncate_at_receipt(&Receipts::new(1), true, now), Some(end));
    }
}

#[test]
fn steps_of_a_run_of_several_end_before_it_does() {
    let mut state = RunState::default();
    state.start(run(100, 5), StepShape::default());
    assert_eq!([109, 110, 139, 140].map(|now| state.ended(now)), [0, 1, 3, 4]);
    let reached = |step| [109, 110, 139, 140].map(|now| state.has_passed(step, 10, now));
    assert_eq!(reached(9), [false, true, true, true], "no step has ended at 109");
    assert_eq!(reached(11), [false, true, true, true], "the set takes its 11th to 15th step");
    assert_eq!(reached(14), [false, false, false, true]);
    assert!(!state.passes(15, 10), "the run ends with it");
    state.end();
    assert!(!state.passes(11, 10));
    state.start(run(100, 1), StepShape::default());
    assert_eq!(state.ended(110), 0, "a single step is applied at its end");
    assert!(!state.passes(0, 10) && !state.passes(11, 10), "it is the last step");
}

#[test]
fn the_step_in_progress_has_tokens_and_ticks() {
    let mut state = RunState::default();
    assert_eq!((state.step_tokens(), state.step_ticks()), (None, None));
    let shape = StepShape { decode_requests: 3, prefill_tokens: 7, ..StepShape::default() };
    state.start(Run { copying: 4, ..run(100, 1) }, shape);
    assert_eq!((state.step_tokens(), state.step_ticks()), (Some(10), Some(14)));
}

#[test]
fn a_shape_without_decodes_grows_by_none() {
    let mut state = RunState::default();
    state.start(run(100, 5), StepShape::default());
    let run = state.end();
    state.resume(run, 2);
    assert_eq!((state.shape().decode_kv, state.shape().decode_max_kv), (0, 0));
}

#[test]
fn a_standstill_ends_once() {
    let mut state = RunState::default();
    state.stand_still(40);
    assert!(state.stands_still());
    assert_eq!((state.take_standstill(), state.take_standstill()), (Some(40), None));
    assert!(!state.stands_still());
}

#[test]
fn a_step_has_prompts_while_it_computes_tokens_of_them() {
    let mut state = RunState::default();
    for prefill_tokens in [3, 0] {
        assert!(!state.step_has_prompts(), "no step is in progress");
        state.start(run(100, 1), StepShape { prefill_tokens, ..StepShape::default() });
        assert_eq!(state.step_has_prompts(), prefill_tokens > 0);
        state.end();
    }
}
