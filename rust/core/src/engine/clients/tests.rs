use super::*;
use crate::engine::fixtures::{row, trace};
use crate::trace::{Parents, Waits};
use proptest::prelude::*;

/// A trace of turns: (arrival, session or none, think time or none).
fn turns(rows: &[(Ticks, Option<u32>, Option<Ticks>)]) -> Trace {
    let requests: Vec<_> = rows.iter().map(|&(at, _, _)| row(at, 8, 2)).collect();
    Trace {
        session: Some(rows.iter().map(|turn| turn.1.unwrap_or(u32::MAX)).collect()),
        waits: Waits {
            think: Some(rows.iter().map(|turn| turn.2.unwrap_or(NEVER)).collect()),
            ..Waits::default()
        },
        ..trace(&requests)
    }
}

fn clients(rules: Option<Rules>, trace: &Trace) -> Clients {
    Clients::of(rules, trace).expect("the trace is valid").expect("clients react")
}

/// Sends all requests, each of which takes `service` ticks. Returns when each was sent.
fn sent(mut clients: Clients, rows: usize, service: impl Fn(u32) -> Ticks) -> Vec<Option<Ticks>> {
    let (mut at, mut running) = (vec![None; rows], BinaryHeap::new());
    loop {
        let end = running.peek().map_or(NEVER, |&Reverse((end, _))| end);
        let next = clients.next();
        if next.min(end) == NEVER {
            return at;
        }
        if end <= next {
            running.pop().into_iter().for_each(|Reverse((now, row))| clients.end(row, Status::Finished, now));
        } else {
            let row = clients.send();
            assert!(at[row as usize].replace(next).is_none(), "a row is sent once");
            running.push(Reverse((next + service(row), row)));
        }
    }
}

#[test]
fn a_turn_comes_a_while_after_the_answer_before_it() {
    // The second turn thinks for 5 after the answer at 10; the third would arrive before that, and has its own arrival.
    let trace = turns(&[(0, Some(0), None), (1, Some(0), Some(5)), (2, Some(0), None), (3, None, None)]);
    let at = sent(clients(None, &trace), 4, |_| 10);
    assert_eq!(at, [Some(0), Some(15), Some(2), Some(3)]);
}

#[test]
fn a_turn_is_not_sent_before_its_earliest_moment() {
    let mut trace = turns(&[(0, Some(0), None), (1, Some(0), Some(5))]);
    trace.waits.not_before = Some(vec![0, 40].into());
    assert_eq!(sent(clients(None, &trace), 2, |_| 10), [Some(0), Some(40)]);
}

/// A trace of requests that arrive at 0: the parents of each, and its delay after the last of them.
fn children(rows: &[(&[u32], Ticks)]) -> Trace {
    let requests: Vec<_> = rows.iter().map(|_| row(0, 8, 2)).collect();
    let parents = Parents {
        ends: rows
            .iter()
            .scan(0, |end, row| {
                *end += row.0.len();
                Some(*end)
            })
            .collect(),
        rows: rows.iter().flat_map(|row| row.0).copied().collect(),
        delay: rows.iter().map(|row| row.1).collect(),
    };
    Trace { waits: Waits { parents: Some(parents), ..Waits::default() }, ..trace(&requests) }
}

#[test]
fn a_join_waits_for_the_last_of_its_parents() {
    // 0 forks into 1 and 2, which take 10 and 30; 3 joins them.
    let mut trace = children(&[(&[], 0), (&[0], 1), (&[0], 2), (&[1, 2], 4)]);
    let service = |row| [5, 10, 30, 1][row as usize];
    assert_eq!(sent(clients(None, &trace), 4, service), [Some(0), Some(6), Some(7), Some(41)]);
    // As a turn of the session of 0 it thinks for 50, which is longer.
    trace.session = Some(vec![0, u32::MAX, u32::MAX, 0].into());
    trace.waits.think = Some(vec![NEVER, NEVER, NEVER, 50].into());
    assert_eq!(sent(clients(None, &trace), 4, service), [Some(0), Some(6), Some(7), Some(55)]);
}

#[test]
fn an_agent_and_its_helpers_take_one_slot() {
    let trace = children(&[(&[], 0), (&[0], 1), (&[0], 2), (&[1, 2], 4), (&[], 0)]);
    let rules = Rules { most: Some(1), gap: 0, by_session: true, patience: None };
    let at = sent(clients(Some(rules), &trace), 5, |_| 10);
    assert_eq!(at, [Some(0), Some(11), Some(12), Some(26), Some(36)]);
}

#[test]
fn a_session_with_two_first_requests_takes_one_slot() {
    // 2 joins 0 and 1, which both arrive at 0; 3 is a session of its own. Row 1 needs no slot, as 0 has one.
    let trace = children(&[(&[], 0), (&[], 0), (&[0, 1], 5), (&[], 0)]);
    let rules = Rules { most: Some(1), gap: 3, by_session: true, patience: None };
    assert_eq!(sent(clients(Some(rules), &trace), 4, |_| 10), [Some(0), Some(0), Some(15), Some(28)]);
    // Behind a session in flight, both go as its slot is free.
    let trace = children(&[(&[], 0), (&[], 0), (&[], 0), (&[1, 2], 0)]);
    assert_eq!(sent(clients(Some(rules), &trace), 4, |_| 10), [Some(0), Some(13), Some(13), Some(23)]);
}

#[test]
fn a_join_that_lacks_an_answer_never_comes() {
    let trace = children(&[(&[], 0), (&[], 0), (&[0, 1], 0), (&[2], 0)]);
    let mut clients = clients(None, &trace);
    assert_eq!((clients.send(), clients.send()), (0, 1));
    clients.end(0, Status::Rejected, 3);
    assert_eq!(clients.expected(), 2);
    clients.end(1, Status::Finished, 9);
    assert_eq!(clients.next(), NEVER);
}

#[test]
fn at_most_so_many_requests_are_in_flight() {
    let trace = trace(&[row(0, 8, 2), row(0, 8, 2), row(0, 8, 2), row(0, 8, 2), row(90, 8, 2)]);
    let rules = Rules { most: Some(2), gap: 3, by_session: false, patience: None };
    // Of four at once two start; each other comes 3 after an end, at 10 and at 20.
    let at = sent(clients(Some(rules), &trace), 5, |row| if row == 1 { 20 } else { 10 });
    assert_eq!(at, [Some(0), Some(0), Some(13), Some(23), Some(90)]);
}

#[test]
fn sessions_keep_their_slot_from_the_first_request_to_the_last() {
    let trace =
        turns(&[(0, Some(0), None), (0, Some(1), None), (1, Some(0), Some(5)), (1, Some(1), Some(0))]);
    let rules = Rules { most: Some(1), gap: 2, by_session: true, patience: None };
    assert_eq!(sent(clients(Some(rules), &trace), 4, |_| 10), [Some(0), Some(27), Some(15), Some(37)]);
}

#[test]
fn sessions_that_do_not_wait_for_answers_are_not_counted() {
    let trace = turns(&[(0, Some(0), None), (1, Some(0), None)]);
    let rules = Rules { most: Some(1), gap: 0, by_session: true, patience: None };
    let error = Clients::of(Some(rules), &trace).unwrap_err();
    assert!(error.to_string().contains("think time"), "{error}");
}

#[test]
fn turns_after_one_without_an_answer_never_come() {
    let trace =
        turns(&[(0, Some(0), None), (1, Some(0), Some(5)), (2, Some(0), Some(5)), (3, Some(1), None)]);
    for rules in [None, Some(Rules { most: Some(1), gap: 0, by_session: true, patience: None })] {
        let mut clients = clients(rules, &trace);
        assert_eq!((clients.next(), clients.send(), clients.expected()), (0, 0, 4));
        clients.end(0, Status::Rejected, 7);
        assert_eq!((clients.expected(), clients.next()), (2, if rules.is_some() { 7 } else { 3 }));
        assert_eq!(clients.send(), 3);
        clients.end(3, Status::Finished, 9);
        assert_eq!(clients.next(), NEVER);
    }
}

proptest! {
    #[test]
    fn order_and_limits_hold_whatever_is_drawn(
        drawn in prop::collection::vec((0u64..30, prop::option::of(0u32..4), prop::option::of(0u64..9)), 1..14),
        most in 1u64..4, gap in 0u64..4, by_session in any::<bool>(), service in 1u64..12,
    ) {
        let mut rows = drawn;
        rows.sort_by_key(|turn| turn.0);
        // Sessions are numbered below the number of rows.
        let sessions = rows.len() as u32;
        for turn in &mut rows {
            turn.1 = turn.1.map(|session| session % sessions);
            turn.2 = if by_session { turn.2.or(Some(0)) } else { turn.2 };
        }
        let trace = turns(&rows);
        let rules = Rules { most: Some(most), gap, by_session, patience: None };
        let at = sent(clients(Some(rules), &trace), rows.len(), |_| service);
        let at: Vec<Ticks> = at.into_iter().map(|at| at.expect("all are sent")).collect();
        for (row, &(arrival, session, think)) in rows.iter().enumerate() {
            let before = (0..row).rev().find(|&one| session.is_some() && rows[one].1 == session);
            match (before, think) {
                (Some(before), Some(think)) => prop_assert!(at[row] >= at[before] + service + think),
                _ => prop_assert!(at[row] >= arrival),
            }
        }
        // At each start the requests, or sessions, in flight are at most so many.
        let unit = |row: usize| rows[row].1.filter(|_| by_session).map_or(100 + row as u32, |session| session);
        let span = |one: u32| {
            let of = |&row: &usize| unit(row) == one;
            let starts = (0..rows.len()).filter(of).map(|row| at[row]).min().unwrap_or(0);
            (starts, (0..rows.len()).filter(of).map(|row| at[row] + service).max().unwrap_or(0))
        };
        let mut units: Vec<u32> = (0..rows.len()).map(unit).collect();
        units.sort_unstable();
        units.dedup();
        let spans: Vec<_> = units.into_iter().map(span).collect();
        for &(start, _) in &spans {
            let open = spans.iter().filter(|(from, to)| *from <= start && start < *to).count();
            prop_assert!(open as u64 <= most, "{open} of {most} at {start}");
        }
    }
}
