use super::*;
use crate::trace::{RequestNumber, Trace};

fn ranking(json: &str) -> Ranking {
    Ranking::new(serde_json::from_str(json).expect("it is a ranking"), false, true)
}

fn best(ranking: &Ranking) -> Option<Slot> {
    ranking.best_rank().map(|rank| rank.request().0)
}

fn trace(rows: usize) -> Trace {
    Trace {
        arrival: (0..rows as u64).collect(),
        prompt_tokens: vec![10; rows].into(),
        output_tokens: vec![100; rows].into(),
        ..Trace::default()
    }
}

fn evaluate(ranking: &mut Ranking, slot: Slot, generated: u32, now: Ticks, trace: &Trace) -> bool {
    let mut view = RequestView::arriving(RequestNumber(slot), now, trace);
    (view.generated, view.decoding) = (generated, generated > 0);
    ranking.describe(slot, 0, &mut view);
    let evaluation = Evaluation { keys: true, steps: u64::from(generated), continues: false };
    ranking.evaluate(slot, &mut view, evaluation, trace)
}

const BY_TOKENS: &str = r#"{"classes": [{"keys": [{"field": "req.generated_tokens"}]}]}"#;

#[test]
fn the_best_waiting_and_the_worst_running_follow_the_keys() {
    let (mut ranking, trace) = (ranking(BY_TOKENS), trace(4));
    for slot in 0..4 {
        ranking.enter(slot, 0, 0, 0);
        evaluate(&mut ranking, slot, 10 - slot, 0, &trace);
    }
    assert_eq!((ranking.waiting(), best(&ranking)), (4, Some(3)));
    for slot in [0, 1, 3] {
        ranking.admit(slot, 5, 1);
    }
    ranking.begin_round(true);
    assert_eq!((ranking.waiting(), best(&ranking), ranking.worst_running()), (1, Some(2), Some(0)));
    let rank = ranking.rank(2);
    assert_eq!(ranking.worse_than(rank), [0, 1]);
}

#[test]
fn a_request_admitted_in_this_step_is_not_displaced_in_it() {
    let (mut ranking, trace) = (ranking(BY_TOKENS), trace(2));
    for slot in 0..2 {
        ranking.enter(slot, 0, 0, 0);
        evaluate(&mut ranking, slot, 9 - slot, 0, &trace);
    }
    ranking.begin_round(true);
    ranking.admit(0, 5, 1);
    let rank = ranking.rank(1);
    assert!(ranking.moved_in_round(0) && ranking.worse_than(rank).is_empty());
    ranking.begin_round(true);
    assert_eq!(ranking.worse_than(rank).first(), Some(&0));
}

#[test]
fn a_class_is_left_when_its_condition_ends_but_not_while_it_holds_its_members() {
    let json = r#"{"classes": [
        {"when": {"op": "lt", "args": [{"field": "req.generated_tokens"}, {"const": 5}]}, "hold": HOLD, "keys": []},
        {"keys": []}]}"#;
    for (hold, in_first) in [("0", 0), ("20", 1)] {
        let (mut ranking, trace) = (ranking(&json.replace("HOLD", hold)), trace(1));
        ranking.enter(0, 0, 0, 0);
        assert!(evaluate(&mut ranking, 0, 1, 0, &trace));
        assert_eq!(ranking.in_class(0), 1);
        evaluate(&mut ranking, 0, 6, 0, &trace);
        assert_eq!((ranking.in_class(0), ranking.in_class(1)), (in_first, 1 - in_first));
        ranking.move_to(0, List::Gone, 0, 0);
        assert_eq!((ranking.in_class(0), ranking.in_class(1)), (0, 0));
    }
}

#[test]
fn a_request_whose_quanta_are_counted_ranks_as_if_it_had_a_slot_from_the_start() {
    let keys = r#"[{"field": "req.quanta"}, {"field": "req.joined_s"}]"#;
    let json = format!(
        r#"{{"quantum": 5, "classes": [
            {{"when": {{"op": "lt", "args": [{{"field": "req.phase"}}, {{"const": 2}}]}}, "keys": {keys}}},
            {{"keys": {keys}}}]}}"#
    );
    let trace = Trace { reasoning_tokens: Some(vec![6; 2].into()), ..trace(2) };
    let (mut with, mut without) = (ranking(&json), ranking(&json));
    assert!(without.keeps_arrivals());
    with.enter(0, 3, 0, 0);
    evaluate(&mut with, 0, 0, 3, &trace);
    without.add_arrival(&mut RequestView::arriving(RequestNumber(0), 3, &trace), &trace);
    assert_eq!((without.waiting(), without.best_rank()), (1, with.best_rank()));
    with.admit(0, 8, 2);
    without.admit_arrival(0, 8, 2);
    without.place(0);
    // It reasons, uses up a quantum, answers in its first quantum, and in its second.
    let states = [0, 1, 5, 6, 7, 11].map(|generated| {
        evaluate(&mut with, 0, generated, 9, &trace);
        evaluate(&mut without, 0, generated, 9, &trace);
        let state = |ranking: &Ranking| (ranking.rank(0), ranking.in_class(1), ranking.in_first_quantum());
        assert_eq!(state(&without), state(&with), "{generated} tokens");
        (without.in_class(1), without.in_first_quantum())
    });
    let first = (1, Some(1));
    assert_eq!(states, [(0, Some(0)), (0, Some(0)), (0, Some(0)), first, first, (1, Some(0))]);
}

#[test]
fn attained_time_counts_while_a_request_is_admitted() {
    let (mut ranking, trace) = (ranking(BY_TOKENS), trace(1));
    ranking.enter(0, 0, 0, 7);
    evaluate(&mut ranking, 0, 0, 0, &trace);
    ranking.admit(0, 100, 0);
    assert_eq!(ranking.attained(0, 130), 37);
    ranking.move_to(0, List::Queued, 130, 0);
    assert_eq!(ranking.attained(0, 900), 37);
}

/// After 5 s a request ranks before all that came after it, and before by score.
const GUARD: &str = r#"{"classes": [
    {"when": {"op": "gt", "args": [{"field": "req.waiting_s"}, {"const": 5}]}, "hold": 1073741823,
     "keys": [{"field": "req.arrival_s"}]},
    {"keys": [{"field": "req.score"}]}]}"#;

#[test]
fn a_request_without_a_slot_changes_its_class_once_it_has_waited() {
    const SECOND: Ticks = crate::time::TICKS_PER_SECOND;
    let trace = Trace { score: Some(vec![2.0, 1.0].into()), ..trace(2) };
    let mut ranking = ranking(GUARD);
    for number in 0..2 {
        ranking.add_arrival(
            &mut RequestView::arriving(RequestNumber(number), u64::from(number) * SECOND, &trace),
            &trace,
        );
    }
    assert_eq!(ranking.best_queued(), Some(BestQueued::Arrival(RequestNumber(1))), "its score is lower");
    assert!(ranking.due_arrival(4 * SECOND).is_none());
    let now = 5 * SECOND + 1;
    let (id, arrival) = ranking.due_arrival(now).expect("one has waited for more than 5 s");
    let mut view = RequestView { now, ..RequestView::arriving(arrival.request, arrival.came, &trace) };
    ranking.evaluate_arrival(id, &mut view, &trace);
    assert_eq!(ranking.best_queued(), Some(BestQueued::Arrival(RequestNumber(0))));
    assert_eq!((ranking.in_class(0), ranking.in_class(1)), (1, 1));
    assert!(ranking.due_arrival(now).is_none());
}
