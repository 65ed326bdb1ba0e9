use super::*;
use crate::config::{DraftAcceptance, DraftSlots, Handover, Links, SpeculationConfig};
use crate::engine::fixtures::{cluster, config, row, with_config};
use crate::instance::Origin;
use crate::time::{NEVER, TICKS_PER_SECOND};
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

#[test]
fn an_offer_is_given_up_when_its_own_lease_ends() {
    let mut config = config(
        &[10, 10],
        r#"{"on_arrival": {"rule": "round_robin"}, "on_prefilled": {"rule": "round_robin"}}"#,
    );
    config.links = Some(Links::ports(TICKS_PER_SECOND as f64 / 10.0, 0));
    config.handover = Some(Handover { lease: Some(300), ..Handover::default() });
    let mut cluster = with_config(&config, &[row(0, 20, 9), row(0, 20, 9)]);
    cluster.send(0, 0, 0);
    cluster.send(1, 0, 0);
    cluster.start_steps(0).unwrap();
    cluster.end_steps(140);
    let requests = [(0, 140), (1, 200)];
    let origins = requests.map(|(slot, left)| {
        let migrating = cluster.migrate_out(0, slot, left);
        assert_eq!(migrating.request, RequestNumber(slot));
        let origin = Origin { instance: 0, slot, left, since: left, copied: 0 };
        cluster.offer(1, &migrating, origin, left);
        origin
    });
    assert_eq!(cluster.expire_offer(1, RequestNumber(0), 439), None, "its lease ends at 440");
    assert_eq!(cluster.expire_offer(1, RequestNumber(1), 440), None, "the lease of the other one ends");
    assert_eq!(cluster.expire_offer(1, RequestNumber(0), 440), Some(origins[0]));
    assert_eq!(cluster.expire_offer(1, RequestNumber(1), 500), Some(origins[1]));
}

/// When the steps of a request end whose tokens are drafted, one draft a step. `reads`: the instance is read as each ends.
fn ends_of_drafted_steps(reads: bool) -> Vec<Ticks> {
    let mut config = config(&[10], r#"{"on_arrival": {"rule": "round_robin"}}"#);
    config.instances[0].speculation = Some(SpeculationConfig {
        tokens: 1,
        by_batch: Vec::new(),
        proposals: None,
        acceptance: DraftAcceptance::Periodic { yields: vec![2, 1] },
        lookahead: 1,
        slots: DraftSlots::default(),
        input_slots: 0,
        hash_lookahead: 0,
        drops_last_block: false,
        pads: false,
        draft: None,
    });
    let mut cluster = with_config(&config, &[row(0, 20, 50)]);
    cluster.send(0, 0, 0);
    let mut ends = vec![0];
    while cluster.settled() == 0 {
        cluster.start_steps(ends[ends.len() - 1]).unwrap();
        let end = cluster.next_end().0;
        if reads {
            assert_eq!(cluster.at(0).counts(end), [1, 0]);
        }
        cluster.end_steps(end);
        ends.push(end);
    }
    ends
}

#[test]
fn an_instance_that_is_read_before_its_step_ends_at_that_moment_goes_on_as_without() {
    let ends = ends_of_drafted_steps(false);
    assert!(ends.windows(2).any(|ends| ends[1] - ends[0] > 2 * 102), "steps are listed: {ends:?}");
    assert_eq!(ends_of_drafted_steps(true), ends);
}
