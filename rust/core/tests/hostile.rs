//! Malformed configurations are refused and never cause a panic: a short run of what the fuzz targets in `fuzz/` do.
//!
//! Some values of a document from `fuzz/seeds` are replaced or removed, or some of its bytes changed.

use paceline_core::{Config, Simulation, Trace};
use proptest::prelude::*;
use serde_json::{Value, json};

const SEEDS: [&str; 10] = [
    include_str!("../../../fuzz/seeds/configuration/chunked-decodes-first.json"),
    include_str!("../../../fuzz/seeds/configuration/chunked.json"),
    include_str!("../../../fuzz/seeds/configuration/classes-and-migration.json"),
    include_str!("../../../fuzz/seeds/configuration/levels.json"),
    include_str!("../../../fuzz/seeds/configuration/longest-prefix.json"),
    include_str!("../../../fuzz/seeds/configuration/monitors.json"),
    include_str!("../../../fuzz/seeds/configuration/plain.json"),
    include_str!("../../../fuzz/seeds/configuration/refreshed-keys.json"),
    include_str!("../../../fuzz/seeds/configuration/swapping-stages.json"),
    include_str!("../../../fuzz/seeds/configuration/whole-sequence.json"),
];

fn seeds() -> Vec<Value> {
    SEEDS.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// Reads a configuration and, if it is one, sets up a replay of a few requests.
fn set_up(text: &[u8]) -> bool {
    let trace = Trace {
        arrival: vec![0, 7].into(),
        prompt_tokens: vec![40, 9].into(),
        output_tokens: vec![3, 1].into(),
        ..Trace::default()
    };
    Config::from_json(text).is_ok_and(|config| Simulation::new(&config, trace).is_ok())
}

fn count(document: &Value) -> usize {
    1 + match document {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// Replaces the value at a place, counted in the document's order.
fn replace(document: &mut Value, place: &mut usize, with: &Value) {
    if *place == 0 {
        *document = with.clone();
    }
    *place = place.wrapping_sub(1);
    match document {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, place, with)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, place, with)),
        _ => {}
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        Just(json!("")),
        Just(json!("decodes")),
        any::<bool>().prop_map(|value| json!(value)),
        any::<u64>().prop_map(|value| json!(value)),
        prop::sample::select(vec![0, 1, 2, u64::from(u32::MAX), 1 << 32, 1 << 63, u64::MAX])
            .prop_map(|value| json!(value)),
        any::<i64>().prop_map(|value| json!(value)),
        any::<f64>().prop_map(|value| json!(value)),
        Just(json!({ "op": "add", "args": [] })),
        Just(json!({ "op": "if", "args": [{ "const": 1.0 }, { "field": "req.age_s" }] })),
        Just(json!({ "over": "mean", "of": { "field": "here.requests" }, "within": [9] })),
        Just(json!({ "const": 1.0, "field": "req.age_s" })),
        Just(json!({ "rule": "first_of", "rules": [] })),
        Just(json!({ "rule": "call", "index": 99 })),
        Just(
            json!({ "kind": "layered", "layers": 0, "groups": { "limits": [], "tokens_per_group": 0, "most": 0 } })
        ),
        Just(json!([{ "kind": "running" }, { "kind": "running" }])),
    ]
}

#[test]
fn every_seed_is_a_configuration() {
    for seed in seeds() {
        assert!(set_up(seed.to_string().as_bytes()), "{seed}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn replaced_values_never_panic(
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), value()), 1..5),
    ) {
        let mut document = seed.get(&seeds()).clone();
        for (place, with) in changes {
            let place = place.index(count(&document));
            replace(&mut document, &mut { place }, &with);
        }
        set_up(document.to_string().as_bytes());
    }

    #[test]
    fn changed_bytes_never_panic(
        seed in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut text = seed.get(&seeds()).to_string().into_bytes();
        for (place, with) in changes {
            *place.get_mut(&mut text) = with;
        }
        set_up(&text);
        set_up(&text[..keep.index(text.len())]);
    }

    #[test]
    fn no_bytes_ever_panic(text in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(!set_up(&text));
    }
}

/// There is a list for each role up to the largest.
#[test]
fn a_role_that_would_take_all_memory_is_refused() {
    let mut document = seeds().remove(6);
    let instances = document["instances"].as_array().map_or(0, Vec::len);
    document["roles"] = json!(vec![65_535u32; instances]);
    assert!(set_up(document.to_string().as_bytes()));
    document["roles"] = json!(vec![u32::MAX; instances]);
    let error = Config::from_json(document.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.contains("roles[0]") && error.contains("must be 0 to 65535, was 4294967295"), "{error}");
}
