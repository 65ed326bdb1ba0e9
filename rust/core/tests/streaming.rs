//! Replays of traces that are read as they are replayed: the same result, and memory for the requests in flight only.

use std::ops::Range;

use paceline_core::{Cancels, Config, NEVER, OutputIds, PrefixIds, Simulation, Stream, Ticks, Trace, Waits};
use proptest::prelude::*;

use crate::support;

/// A request: its arrival, tokens of its prompt and output, what its first blocks are, and how long its client waits.
type Request = (Ticks, u32, u32, u64, Option<Ticks>);

fn config(blocks: u64, ahead: bool, hold: bool) -> Config {
    let instance = support::instance(blocks, "arrival")
        .replace(r#""schedule_ahead": false"#, &format!(r#""schedule_ahead": {ahead}"#));
    let few = r#"{"op": "lt", "args": [{"field": "inst.routed_requests"}, {"const": 3}]}"#;
    let when = if hold { few } else { "null" };
    let fewest =
        format!(r#"{{"rule": "pick", "min": [{{"field": "inst.routed_requests"}}], "where": {when}}}"#);
    let rule = if hold {
        format!(r#"{{"rule": "first_of", "rules": [{fewest}, {{"rule": "hold", "blocks": "all"}}]}}"#)
    } else {
        fewest
    };
    let text = format!(
        r#"{{"instances": [{instance}, {instance}], "routing": {{"on_arrival": {rule}}}, "until": null, "leap": true,
            "record_decisions": false}}"#
    );
    Config::from_json(text.as_bytes()).expect("the configuration is valid")
}

/// Lists of ids, with the end of each.
fn lists(ids: impl Iterator<Item = Vec<u64>>) -> (Vec<usize>, Vec<u64>) {
    let (mut ends, mut all) = (Vec::new(), Vec::new());
    for ids in ids {
        all.extend(ids);
        ends.push(all.len());
    }
    (ends, all)
}

/// Some of the requests as a trace, in blocks of 4 tokens. The ids of a prompt and its output follow from its kind and the
/// position, so that a prompt that is longer continues the output of another of its kind.
fn trace(requests: &[Request], rows: Range<usize>) -> Trace {
    let requests = &requests[rows];
    let path = |request: &Request, blocks: Range<u32>| -> Vec<u64> {
        blocks.map(|at| u64::from(at) * 10 + if at < 2 { 0 } else { request.3 }).collect()
    };
    let prompts = requests.iter().map(|request| path(request, 0..request.1 / 4));
    let outputs = requests.iter().map(|request| path(request, request.1 / 4..(request.1 + request.2) / 4));
    let ((ends, ids), (output_ends, output_ids)) = (lists(prompts), lists(outputs));
    let after = requests.iter().map(|request| request.4.unwrap_or(NEVER)).collect();
    Trace {
        arrival: requests.iter().map(|request| request.0).collect(),
        prompt_tokens: requests.iter().map(|request| request.1).collect(),
        output_tokens: requests.iter().map(|request| request.2).collect(),
        prefix: Some(PrefixIds {
            ends: ends.into(),
            ids: ids.into(),
            block_tokens: 4,
            outputs: Some(OutputIds { ends: output_ends.into(), ids: output_ids.into() }),
        }),
        waits: Waits { cancels: Cancels { after: Some(after), tokens: None }, ..Waits::default() },
        ..Trace::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_streamed_trace_gives_what_it_gives_at_once(
        mut requests in prop::collection::vec(
            (0u64..6_000, 1u32..40, 1u32..12, 0u64..4, prop::option::of(0u64..900)), 1..60,
        ),
        (blocks, ahead, hold) in (14u64..30, any::<bool>(), any::<bool>()), chunk in 1usize..9, resumes in any::<bool>(),
    ) {
        requests.sort_by_key(|request| request.0);
        let (config, all) = (config(blocks, ahead, hold), requests.len());
        let mut simulation = Simulation::new(&config, trace(&requests, 0..all)).unwrap();
        while !simulation.advance(10_000).unwrap() {}
        let whole = simulation.into_outcome();
        let cut = support::streamed::Cut { all, chunk, resumes };
        let (parts, last) = support::streamed::replay(&config, |rows| trace(&requests, rows), cut).unwrap();
        prop_assert_eq!(support::streamed::bits(parts), support::streamed::bits(vec![whole.columns]));
        prop_assert_eq!((&last.gaps, &last.stats), (&whole.gaps, &whole.stats));
        prop_assert_eq!((last.end, last.events), (whole.end, whole.events));
    }
}

#[test]
fn rows_out_of_order_are_refused_and_change_nothing() {
    let config = config(20, false, false);
    let requests = [(5, 8, 2, 0, None), (9, 8, 2, 0, None), (8, 8, 2, 0, None), (9, 0, 2, 0, None)];
    let mut stream = Stream::new(config, trace(&requests, 0..0), None).unwrap();
    stream.extend(trace(&requests, 0..2)).unwrap();
    for (row, rule) in
        [(2, "row 2 of the trace: arrivals are in order of time, was 8"), (3, "prompt_tokens is 1 to")]
    {
        let error = stream.extend(trace(&requests, row..row + 1)).unwrap_err().to_string();
        assert!(error.contains(rule), "{error}");
    }
    stream.end_trace();
    while !stream.advance(100).unwrap() {}
    assert_eq!(stream.take_ended(1).status, [0, 0]);
}

#[test]
fn a_state_is_refused_that_is_damaged_or_of_another_configuration() {
    let requests: Vec<Request> = (0..9).map(|at| (at * 50, 9, 20, at % 3, None)).collect();
    let mut stream = Stream::new(config(20, false, false), trace(&requests, 0..0), None).unwrap();
    stream.extend(trace(&requests, 0..9)).unwrap();
    while !stream.advance(100).unwrap() {}
    let state = stream.checkpoint().unwrap();
    let refused = |config: Config, state: &[u8]| {
        Stream::resume(config, trace(&requests, 0..0), state).unwrap_err().to_string()
    };
    for end in [0, 1, state.len() / 2, state.len() - 1] {
        let error = refused(config(20, false, false), &state[..end]);
        assert!(
            error.starts_with("checkpoint: must be the state of a replay of this configuration"),
            "{error}"
        );
    }
    let more = refused(config(20, false, false), &[&state[..], &[0]].concat());
    assert!(more.ends_with("was damaged: there are bytes after its end"), "{more}");
    let text = format!(
        r#"{{"instances": [{}], "routing": {{"on_arrival": {{"rule": "round_robin"}}}}, "until": null, "leap": true,
            "record_decisions": false}}"#,
        support::instance(20, "arrival")
    );
    let alone = refused(Config::from_json(text.as_bytes()).unwrap(), &state);
    assert!(alone.contains("was damaged"), "{alone}");
}

#[test]
fn what_needs_the_whole_trace_is_refused_by_name() {
    let text = format!(
        r#"{{"instances": [{}], "routing": {{"on_arrival": {{"rule": "round_robin"}}}}, "until": null, "leap": true,
            "record_decisions": true}}"#,
        support::instance(20, "arrival")
    );
    let config = Config::from_json(text.as_bytes()).unwrap();
    let error = Stream::new(config, Trace::default(), None).unwrap_err().to_string();
    assert!(error.contains("record_decisions: must be null where the trace is streamed"), "{error}");
}

#[test]
fn memory_is_kept_for_the_requests_in_flight_only() {
    // One request each 200 ticks, that takes two steps of 100 and a few: each ends before the next but one comes.
    let requests: Vec<Request> = (0..4_000).map(|at| (at * 250, 9, 1, at % 7, None)).collect();
    let mut stream = Stream::new(config(20, false, false), trace(&requests, 0..0), None).unwrap();
    let mut most = 0;
    for start in (0..4_000).step_by(10) {
        stream.extend(trace(&requests, start..start + 10)).unwrap();
        while !stream.advance(100).unwrap() {}
        let taken = stream.take_ended(1).status.len();
        most = most.max(stream.rows_kept());
        assert!(taken <= 20, "{taken} requests ended at once");
    }
    assert!(most <= 20, "{most} rows are kept");
}
