//! Requests whose arrivals depend on the ends of others: a source that sends them as clients do that wait for answers.

use paceline_core::{Config, NEVER, Outcome, PrefixIds, Simulation, Source, Status, Ticks, Trace};
use proptest::prelude::*;

use crate::support;

/// Clients that send the rows of a trace from the last to the first, each its next one some time after its answer.
#[derive(Debug)]
struct Clients {
    /// When the clients that think send their next request.
    thinking: Vec<Ticks>,
    think: Ticks,
    /// The rows that are not sent.
    left: Vec<u32>,
    rows: u64,
}

impl Clients {
    fn new(clients: usize, think: Ticks, rows: usize) -> Self {
        let left = (0..rows as u32).collect();
        Self { thinking: vec![0; clients], think, left, rows: rows as u64 }
    }

    fn first(&self) -> Option<usize> {
        (0..self.thinking.len()).min_by_key(|&client| self.thinking[client])
    }
}

impl Source for Clients {
    fn next(&self) -> Ticks {
        let first = self.first().map_or(NEVER, |client| self.thinking[client]);
        if self.left.is_empty() { NEVER } else { first }
    }

    fn send(&mut self) -> u32 {
        let client = self.first().expect("a client sends it");
        self.thinking.swap_remove(client);
        self.left.pop().expect("a row is left")
    }

    fn end(&mut self, _: u32, status: Status, now: Ticks) {
        assert!(matches!(status, Status::Finished | Status::Rejected), "{status:?}");
        self.thinking.push(now + self.think);
    }

    fn expected(&self) -> u64 {
        self.rows
    }
}

/// A request: tokens of its prompt and output, its priority, and the id of the blocks of its prompt.
type Request = (u32, u32, i64, u64);

#[derive(Debug, Clone)]
struct Case {
    blocks: u64,
    order: &'static str,
    instances: usize,
    clients: usize,
    think: Ticks,
    frontend: Ticks,
    /// Ticks of a prediction, of a batch, prompts in a batch; whether one is made after another.
    prediction: Option<(Ticks, Ticks, u32, bool)>,
    requests: Vec<Request>,
}

fn text(case: &Case, entrance: bool, leap: bool) -> String {
    let instance = support::instance(case.blocks, case.order);
    let prediction = case.prediction.map_or("null".to_owned(), |(each, once, batch, serial)| {
        format!(r#"{{"each": {each}, "once": {once}, "batch": {batch}, "serial": {serial}}}"#)
    });
    let entrance = if entrance {
        format!(r#"{{"frontend": {}, "prediction": {prediction}}}"#, case.frontend)
    } else {
        "{}".to_owned()
    };
    let instances = vec![instance; case.instances].join(",");
    format!(
        r#"{{"instances": [{instances}], "routing": {{"on_arrival": {{"rule": "round_robin"}}}},
            "entrance": {entrance}, "until": null, "leap": {leap}, "record_decisions": true}}"#
    )
}

fn config(case: &Case, entrance: bool, leap: bool) -> Config {
    Config::from_json(text(case, entrance, leap).as_bytes()).expect("the configuration is valid")
}

/// The trace of these requests, which arrive at these moments.
fn trace(requests: &[Request], arrival: Vec<Ticks>) -> Trace {
    let blocks: Vec<_> = requests.iter().map(|request| (request.0 / 4) as usize).collect();
    let ids = std::iter::zip(requests, &blocks).flat_map(|(request, &blocks)| vec![request.3; blocks]);
    Trace {
        arrival: arrival.into(),
        prompt_tokens: requests.iter().map(|request| request.0).collect(),
        output_tokens: requests.iter().map(|request| request.1).collect(),
        priority: Some(requests.iter().map(|request| request.2).collect()),
        prefix: Some(PrefixIds {
            ids: ids.collect(),
            ends: blocks
                .iter()
                .scan(0, |end, blocks| {
                    *end += blocks;
                    Some(*end)
                })
                .collect(),
            block_tokens: 4,
            outputs: None,
        }),
        ..Trace::default()
    }
}

fn run(mut simulation: Simulation) -> Outcome {
    while !simulation.advance(100).expect("it makes progress") {}
    simulation.into_outcome()
}

fn closed(case: &Case, leap: bool) -> Outcome {
    let rows = case.requests.len();
    let source = Clients::new(case.clients, case.think, rows);
    let trace = trace(&case.requests, vec![0; rows]);
    run(Simulation::with_source(&config(case, true, leap), trace, Box::new(source))
        .expect("the trace is valid"))
}

/// The moments and counts of each request, in these rows.
fn told(outcome: &Outcome, rows: &[usize]) -> Vec<(u64, u64, u64, u32, u32, u32, u8)> {
    let columns = &outcome.columns;
    let of = |&row: &usize| {
        (
            columns.scheduled[row],
            columns.first_token[row],
            columns.finish[row],
            columns.cached_tokens.get(row).copied().unwrap_or(0),
            columns.preemptions.get(row).copied().unwrap_or(0),
            columns.instance[row],
            columns.status[row],
        )
    };
    rows.iter().map(of).collect()
}

fn plain(clients: usize, think: Ticks, requests: &[Request]) -> Case {
    Case {
        blocks: 40,
        order: "arrival",
        instances: 1,
        clients,
        think,
        frontend: 0,
        prediction: None,
        requests: requests.to_vec(),
    }
}

#[test]
fn the_next_request_is_sent_some_time_after_the_answer_before_it() {
    // A step of 110 ticks with the prompt, and one of 101. The rows are sent from the last to the first.
    let requests = [(10, 2, 0, 1), (10, 2, 0, 2), (10, 1, 0, 3)];
    for leap in [true, false] {
        let outcome = closed(&plain(1, 7, &requests), leap);
        assert_eq!(outcome.columns.arrival, [117 + 218, 117, 0]);
        assert_eq!(outcome.columns.finish, [335 + 211, 117 + 211, 110]);
        assert_eq!(outcome.decisions[0].requests, [2, 1, 1, 0, 0]);
        assert_eq!(outcome.end, 546);
    }
    // Two clients without a pause: the third request arrives as the answer of one output token is there.
    let outcome = closed(&plain(2, 0, &requests), true);
    assert_eq!(outcome.columns.arrival, [120, 0, 0]);
    assert_eq!(outcome.columns.finish, [120 + 111 + 101, 120 + 111, 120]);
}

#[test]
fn a_predictor_takes_at_least_one_prompt() {
    let case = Case { prediction: Some((0, 1, 0, true)), ..plain(1, 0, &[]) };
    let error = Config::from_json(text(&case, true, true).as_bytes()).unwrap_err().to_string();
    assert!(error.contains("entrance.prediction.batch: must be 1 or more prompts, was 0"), "{error}");
}

#[test]
fn a_client_whose_request_is_rejected_sends_the_next_one() {
    let requests = [(10, 1, 0, 1), (9_999, 1, 0, 2), (9_999, 1, 0, 2)];
    let outcome = closed(&plain(1, 0, &requests), true);
    assert_eq!(
        outcome.columns.status,
        [Status::Finished as u8, Status::Rejected as u8, Status::Rejected as u8]
    );
    assert_eq!((outcome.columns.arrival, outcome.columns.finish[0]), (vec![0; 3].into(), 110));
}

#[test]
fn stages_on_the_way_in_are_a_part_of_each_round() {
    let mut case = plain(1, 7, &[(10, 1, 0, 1), (10, 1, 0, 2)]);
    case.frontend = 30;
    case.prediction = Some((2, 1, 4, true));
    let outcome = closed(&case, true);
    assert_eq!(outcome.columns.prediction, [3, 3]);
    assert_eq!(outcome.columns.scheduled, [33 + 110 + 7 + 33, 33]);
    assert_eq!(outcome.columns.arrival, [33 + 110 + 7, 0]);
}

prop_compose! {
    fn cases()(
        blocks in 12u64..30,
        order in prop::sample::select(vec!["arrival", "priority"]),
        instances in 1usize..3,
        clients in 1usize..7,
        think in prop::sample::select(vec![0, 1, 100, 333]),
        frontend in prop::sample::select(vec![0, 5, 101]),
        prediction in prop::option::of((0u64..40, 0u64..40, 1u32..4, any::<bool>())),
        requests in prop::collection::vec((1u32..30, 1u32..12, 0i64..3, 0u64..3), 1..25),
    ) -> Case {
        Case { blocks, order, instances, clients, think, frontend, prediction, requests }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A replay of the arrivals that came out, in the order of arrival at the routers and without stages before them,
    /// gives the same moments.
    #[test]
    fn a_closed_loop_is_the_open_loop_of_its_own_arrivals(case in cases()) {
        let outcome = closed(&case, true);
        let columns = &outcome.columns;
        let at = |row: usize| columns.arrival[row] + case.frontend + columns.prediction.get(row).unwrap_or(&0);
        // Rows that arrive together were sent from the last to the first.
        let mut rows: Vec<_> = (0..case.requests.len()).rev().collect();
        rows.sort_by_key(|&row| at(row));
        let requests: Vec<_> = rows.iter().map(|&row| case.requests[row]).collect();
        let arrivals = rows.iter().map(|&row| at(row)).collect();
        let open = Simulation::new(&config(&case, false, true), trace(&requests, arrivals)).unwrap();
        let all: Vec<_> = (0..rows.len()).collect();
        let open = run(open);
        prop_assert_eq!(told(&outcome, &rows), told(&open, &all));
        let renamed: Vec<_> = open.decisions.iter().map(|steps| {
            steps.requests.iter().map(|&row| rows[row as usize] as u32).collect::<Vec<_>>()
        }).collect();
        let own: Vec<_> = outcome.decisions.iter().map(|steps| steps.requests.clone()).collect();
        prop_assert_eq!(own, renamed);
        // Between two moments at which requests are sent or end, no more are on their way than there are clients.
        for &now in &columns.arrival {
            let on_their_way = (0..rows.len()).filter(|&row| {
                columns.arrival[row] <= now && columns.status[row] == Status::Finished as u8 && columns.finish[row] > now
            });
            prop_assert!(on_their_way.count() <= case.clients);
        }
    }

    #[test]
    fn a_closed_loop_is_the_same_leaping_and_stepping(case in cases()) {
        let (leaping, stepping) = (closed(&case, true), closed(&case, false));
        let rows: Vec<_> = (0..case.requests.len()).collect();
        prop_assert_eq!(told(&leaping, &rows), told(&stepping, &rows));
        prop_assert_eq!(&leaping.columns.arrival, &stepping.columns.arrival);
        prop_assert_eq!(leaping.decisions, stepping.decisions);
    }
}
