//! Replays of instances one by one: the bytes of the replay as one.

use paceline_core::{Apart, Config, Outcome, PrefixIds, Simulation, Ticks, Trace, coupling};
use proptest::prelude::*;

use crate::support;

/// A request: its arrival, tokens of its prompt and output, and its session.
type Request = (Ticks, u32, u32, u32);

/// Rules that read no state of instances.
const RULES: [&str; 4] = [
    r#"{"rule": "round_robin"}"#,
    r#"{"rule": "pick", "min": [], "ties": "random"}"#,
    r#"{"rule": "first_of", "rules": [{"rule": "affinity", "key": "session"}, {"rule": "round_robin"}]}"#,
    r#"{"rule": "first_of", "rules": [
        {"rule": "reject", "when": {"op": "lt", "args": [{"field": "req.prompt_tokens"}, {"const": 4}]}},
        {"rule": "pick", "min": [{"field": "inst.total_blocks"}], "ties": "next", "among": 2}
    ]}"#,
];

fn config(
    rule: &str,
    blocks: &[u64],
    ahead: bool,
    (until, frontend, routers): (Option<Ticks>, Ticks, u32),
) -> Config {
    let instances: Vec<_> = blocks
        .iter()
        .map(|&blocks| {
            let ahead = format!(r#""schedule_ahead": {ahead}"#);
            support::instance(blocks, "arrival").replace(r#""schedule_ahead": false"#, &ahead)
        })
        .collect();
    let (instances, until) =
        (instances.join(","), until.map_or("null".to_owned(), |until| until.to_string()));
    let text = format!(
        r#"{{"instances": [{instances}], "routing": {{"on_arrival": {rule}}}, "until": {until}, "leap": true,
            "record_decisions": false, "entrance": {{"frontend": {frontend}}},
            "routers": {{"count": {routers}, "report_every": null, "give_up_after": null, "seed": 3}}}}"#
    );
    Config::from_json(text.as_bytes()).expect("the configuration is valid")
}

/// The requests as a trace, in blocks of 4 tokens; prompts of a session are the beginnings of one text.
fn trace(requests: &[Request]) -> Trace {
    let ids = |request: &Request| -> Vec<u64> {
        (0..u64::from(request.1 / 4)).map(|at| u64::from(request.3) * 100 + at).collect()
    };
    let ends = requests.iter().scan(0, |end, request| {
        *end += request.1 as usize / 4;
        Some(*end)
    });
    Trace {
        arrival: requests.iter().map(|request| request.0).collect(),
        prompt_tokens: requests.iter().map(|request| request.1).collect(),
        output_tokens: requests.iter().map(|request| request.2).collect(),
        session: Some(requests.iter().map(|request| request.3).collect()),
        prefix: Some(PrefixIds {
            ends: ends.collect(),
            ids: requests.iter().flat_map(ids).collect(),
            block_tokens: 4,
            outputs: None,
        }),
        ..Trace::default()
    }
}

/// The outcome of instances that are replayed in an order of `order`'s, some events at a time.
fn one_by_one(config: &Config, trace: Trace, order: u64) -> Outcome {
    let (apart, mut shares) = Apart::new(config, trace).unwrap();
    let turn = order as usize % shares.len();
    shares.rotate_left(turn);
    let singles = shares.into_iter().map(|share| {
        let mut single = apart.open(share).unwrap();
        while !single.advance(1 + order % 7).unwrap() {}
        single
    });
    let singles = singles.collect();
    apart.join(singles).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn instances_one_by_one_give_what_they_give_together(
        mut requests in prop::collection::vec((0u64..3_000, 1u32..60, 1u32..12, 0u32..1), 1..60),
        sessions in prop::collection::vec(0u32..5, 60),
        (rule, blocks) in (0usize..4, prop::collection::vec(14u64..30, 2..5)),
        (ahead, order) in (any::<bool>(), any::<u64>()),
        others in (prop::option::of(0u64..4_000), prop::sample::select(vec![0u64, 0, 250]), 1u32..3),
    ) {
        requests.sort_by_key(|request| request.0);
        let n = requests.len() as u32;
        for (request, session) in requests.iter_mut().zip(sessions) {
            request.3 = session.min(n - 1);
        }
        let config = config(RULES[rule], &blocks, ahead, others);
        prop_assert_eq!(coupling(&config, &trace(&requests)), None);
        let mut simulation = Simulation::new(&config, trace(&requests)).unwrap();
        while !simulation.advance(10_000).unwrap() {}
        let (whole, apart) = (simulation.into_outcome(), one_by_one(&config, trace(&requests), order));
        prop_assert_eq!(support::streamed::bits(vec![apart.columns]), support::streamed::bits(vec![whole.columns]));
        prop_assert_eq!((&apart.gaps, &apart.stats, &apart.network), (&whole.gaps, &whole.stats, &whole.network));
        prop_assert_eq!((apart.end, apart.events), (whole.end, whole.events));
    }
}
