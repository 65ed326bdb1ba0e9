//! Replays that are driven from outside: the same result as a replay of the same requests, in whatever slices they run.

use paceline_core::{Config, EventKind, Outcome, PrefixIds, STATE_FIELDS, Simulation, Ticks, Trace};
use proptest::prelude::*;

use crate::support;

/// A request: its arrival, tokens of its prompt and output, its priority, and the id of the blocks of its prompt.
type Request = (Ticks, u32, u32, i64, u64);

fn config(blocks: u64, instances: usize, order: &str, leap: bool) -> Config {
    let instance = support::instance(blocks, order);
    let instances = vec![instance; instances].join(",");
    let text = format!(
        r#"{{"instances": [{instances}], "routing": {{"on_arrival": {{"rule": "fewest_requests"}}}},
            "until": null, "leap": {leap}, "record_decisions": true}}"#
    );
    Config::from_json(text.as_bytes()).expect("the configuration is valid")
}

fn trace(requests: &[Request]) -> Trace {
    let blocks: Vec<_> = requests.iter().map(|request| (request.1 / 4) as usize).collect();
    let ids = requests.iter().zip(&blocks).flat_map(|(request, &blocks)| vec![request.4; blocks]);
    let ends = blocks.iter().scan(0, |end, blocks| {
        *end += blocks;
        Some(*end)
    });
    Trace {
        arrival: requests.iter().map(|request| request.0).collect(),
        prompt_tokens: requests.iter().map(|request| request.1).collect(),
        output_tokens: requests.iter().map(|request| request.2).collect(),
        priority: Some(requests.iter().map(|request| request.3).collect()),
        prefix: Some(PrefixIds { ids: ids.collect(), ends: ends.collect(), block_tokens: 4, outputs: None }),
        ..Trace::default()
    }
}

fn finish(mut simulation: Simulation) -> Outcome {
    while !simulation.advance(100).expect("it makes progress") {}
    simulation.into_outcome()
}

fn told(outcome: &Outcome) -> impl PartialEq + std::fmt::Debug + use<> {
    let columns = &outcome.columns;
    (
        (
            columns.scheduled.clone(),
            columns.first_token.clone(),
            columns.finish.clone(),
            columns.max_itl.clone(),
        ),
        (
            columns.cached_tokens.clone(),
            columns.preemptions.clone(),
            columns.instance.clone(),
            columns.status.clone(),
        ),
        (outcome.decisions.clone(), outcome.gaps.clone(), outcome.end),
    )
}

#[test]
fn a_request_that_is_submitted_at_the_moment_of_an_answer_is_routed_then() {
    let mut simulation = Simulation::open(&config(20, 1, "arrival", true), trace(&[]), None).unwrap();
    simulation.submit(trace(&[(0, 10, 2, 0, 1)])).unwrap();
    // A step of 110 ticks with the prompt, and one of 101; the third prompt finds 8 of its 10 tokens in the cache.
    let mut answers = Vec::new();
    while let Some(at) = simulation.step().unwrap() {
        for event in simulation.take_events() {
            assert!(event.at <= at);
            if event.kind == EventKind::Finished {
                answers.push(event.at);
                if answers.len() < 3 {
                    simulation.submit(trace(&[(event.at, 10, 1, 0, 2)])).unwrap();
                }
            }
        }
    }
    assert_eq!(answers, [211, 321, 423]);
    let early = simulation.submit(trace(&[(423, 10, 1, 0, 2)])).unwrap_err().to_string();
    assert!(early.contains("must arrive at 424 ticks or later, where the replay stands, was 423"), "{early}");
    simulation.close();
    let outcome = finish(simulation);
    assert_eq!(outcome.columns.arrival, [0, 211, 321]);
}

#[test]
fn the_state_is_that_of_the_moment() {
    let mut simulation = Simulation::open(&config(20, 2, "arrival", true), trace(&[]), None).unwrap();
    simulation.submit(trace(&[(5, 8, 30, 0, 1), (5, 8, 2, 0, 2)])).unwrap();
    let field = |name: &str| STATE_FIELDS.iter().position(|known| known.0 == name).unwrap();
    assert!(simulation.run_until(400, 1_000).unwrap());
    let state = simulation.state();
    // A step of 108 ticks to 113, with the first token; then two of 101 and the third in progress.
    assert_eq!([0, 1].map(|at: usize| state[at][field("running")] as u64), [1, 0]);
    assert_eq!(state[0][field("running_tokens")] as u64, 8 + 3);
    assert_eq!(simulation.stands_at(), 400);
}

#[test]
fn requests_that_break_a_rule_are_refused_and_change_nothing() {
    let mut simulation = Simulation::open(&config(20, 1, "arrival", true), trace(&[]), None).unwrap();
    assert!(simulation.run_until(50, 10).unwrap());
    for (row, rule) in
        [((49, 8, 2, 0, 1), "must arrive at 50 ticks"), ((50, 0, 2, 0, 1), "prompt_tokens is 1 to")]
    {
        let error = simulation.submit(trace(&[row])).unwrap_err().to_string();
        assert!(error.contains(rule), "{error}");
    }
    simulation.close();
    assert_eq!(finish(simulation).columns.status.len(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The requests of a trace, submitted at any moments up to their arrivals and in any batches, between runs to any
    /// moments, give the result of the trace.
    #[test]
    fn it_is_the_replay_of_what_was_submitted(
        blocks in 12u64..30, instances in 1usize..3, order in prop::sample::select(vec!["arrival", "priority"]),
        requests in prop::collection::vec((0u64..3_000, 1u32..30, 1u32..12, 0i64..3, 0u64..3), 1..25),
        pauses in prop::collection::vec((0u64..4_000, any::<bool>()), 0..12), leap in any::<bool>(),
    ) {
        let mut sorted = requests.clone();
        sorted.sort_by_key(|request| request.0);
        let config = config(blocks, instances, order, leap);
        let replayed = finish(Simulation::new(&config, trace(&sorted)).unwrap());

        let mut pauses = pauses;
        pauses.sort_unstable();
        let mut left = requests;
        let mut simulation = Simulation::open(&config, trace(&[]), None).unwrap();
        for (pause, at_once) in pauses {
            // What arrives before the pause must be known; the rest may be, and keeps the order of equal arrivals.
            let (mut now, later): (Vec<_>, Vec<_>) = left.into_iter().partition(|one| at_once || one.0 < pause);
            now.sort_by_key(|request| request.0);
            simulation.submit(trace(&now)).unwrap();
            left = later;
            while !simulation.run_until(pause, 7).unwrap() {}
            simulation.state();
            simulation.take_events();
        }
        left.sort_by_key(|request| request.0);
        simulation.submit(trace(&left)).unwrap();
        simulation.close();
        prop_assert_eq!(told(&finish(simulation)), told(&replayed));
    }
}
