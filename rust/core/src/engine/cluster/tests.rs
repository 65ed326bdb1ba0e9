use super::*;
use crate::engine::fixtures::{cluster, row};
use crate::time::NEVER;
use crate::trace::RequestNumber;

#[test]
fn a_step_ends_when_its_cost_says_and_frees_its_instance() {
    let mut cluster = cluster(&[10, 10], &[row(0, 20, 1), row(0, 30, 1)]);
    assert!(cluster.are_idle(&[0, 1]));
    cluster.send(0, 1, 0);
    cluster.send(1, 0, 0);
    cluster.start_steps(0).unwrap();
    // A step takes 100 ticks and one more a token.
    assert_eq!(cluster.next_end(), (120, 1));
    assert!(!cluster.is_alone(1, 130), "another step ends at 130");
    assert!(cluster.is_alone(1, 129));
    cluster.end_steps(120);
    assert_eq!((cluster.settled(), cluster.outstanding(1)), (1, 0));
    assert_eq!(cluster.next_end(), (130, 0));
    assert!(cluster.has_ended(RequestNumber(0)) && !cluster.has_ended(RequestNumber(1)));
    cluster.end_steps(130);
    assert!(cluster.settled() == 2 && cluster.are_idle(&[0, 1]));
    assert_eq!(cluster.next_end().0, NEVER);
}

#[test]
fn an_arrival_at_the_end_of_a_step_ends_the_run_there() {
    let mut cluster = cluster(&[10], &[row(0, 20, 50), row(221, 10, 1)]);
    cluster.send(0, 0, 0);
    cluster.start_steps(0).unwrap();
    cluster.end_steps(120);
    cluster.start_steps(120).unwrap();
    // The prefill took 120 ticks. The 49 decodes take 101 each, and follow in one run.
    assert_eq!(cluster.next_end(), (120 + 49 * 101, 0));
    // The first decode ends as the request arrives: the run ends with it, and the next step admits the request.
    cluster.send(1, 0, 221);
    assert_eq!(cluster.next_end().0, NEVER);
    cluster.start_steps(221).unwrap();
    assert_eq!(cluster.next_end(), (221 + 111, 0));
}

#[test]
fn steps_are_stretched_to_the_same_end_and_not_past_the_clock() {
    let mut cluster = cluster(&[10, 10], &[row(0, 20, 1), row(0, 30, 1)]);
    cluster.send(0, 0, 0);
    cluster.send(1, 1, 0);
    cluster.start_steps(0).unwrap();
    cluster.stretch_steps(&[0, 1], 500, 0).unwrap();
    assert_eq!(cluster.next_end(), (500, 0));
    assert!(!cluster.is_alone(0, 500));
    let error = cluster.stretch_steps(&[0, 1], NEVER, 0).unwrap_err();
    assert!(matches!(error, Error::ClockOverflow { instance: 0, .. }), "{error}");
}
