use serde::{Deserialize, Serialize};

use super::{Checkpointed, Reader, Writer};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Value {
    #[serde(with = "super::array")]
    numbers: [u32; 40],
    #[serde(with = "super::absent")]
    log: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Part {
    count: u64,
    bound: u64,
}

super::checkpointed!(Part {
    values: count;
    fixed: bound;
});

#[derive(Debug, Clone, PartialEq)]
struct Whole {
    value: Value,
    parts: Vec<Part>,
    perhaps: Option<Box<Part>>,
    watch: Option<String>,
}

super::checkpointed!(Whole {
    values: value;
    parts: parts, perhaps;
    absent: watch;
});

/// A component of two parts, with `count` in each and `bound` from the configuration.
fn whole(count: u64, bound: u64) -> Whole {
    let part = Part { count, bound };
    Whole {
        value: Value { numbers: std::array::from_fn(|at| at as u32 * count as u32), log: None },
        parts: vec![part.clone(), part.clone()],
        perhaps: Some(Box::new(part)),
        watch: None,
    }
}

fn bytes(of: &Whole) -> Vec<u8> {
    let mut to = Writer::default();
    of.save(&mut to).unwrap();
    to.into_bytes()
}

fn restored(mut into: Whole, bytes: &[u8]) -> Result<Whole, String> {
    let mut from = Reader::new(bytes);
    into.restore(&mut from).and_then(|()| from.end()).map_err(|error| error.to_string())?;
    Ok(into)
}

#[test]
fn values_and_parts_are_taken_and_the_configuration_stays() {
    assert_eq!(restored(whole(0, 9), &bytes(&whole(7, 3))), Ok(whole(7, 9)));
}

#[test]
fn a_component_that_cannot_be_kept_is_refused_by_name() {
    let save = |of: &Whole| of.save(&mut Writer::default()).unwrap_err().to_string();
    let watched = Whole { watch: Some("inst.free_blocks".to_owned()), ..whole(1, 1) };
    assert_eq!(save(&watched), "checkpoint: a replay that has watch cannot be kept");
    let mut logged = whole(1, 1);
    logged.value.log = Some("step 1".to_owned());
    assert!(save(&logged).starts_with("checkpoint: a value cannot be written"), "{}", save(&logged));
}

#[test]
fn bytes_of_other_components_are_refused() {
    let state = bytes(&whole(7, 3));
    let few = Whole { parts: whole(0, 3).parts[..1].to_vec(), ..whole(0, 3) };
    let lacking = Whole { perhaps: None, ..whole(0, 3) };
    for (into, state) in [
        (few, &state[..]),
        (lacking, &state),
        (whole(0, 3), &state[..9]),
        (whole(0, 3), &[&state[..], &[1]].concat()),
    ] {
        let error = restored(into, state).unwrap_err();
        assert!(error.contains("must be the state of a replay of this configuration"), "{error}");
    }
}
