//! Any bytes as a configuration: an error, or a replay of a few requests for a
//! bounded number of events.

#![no_main]

use libfuzzer_sys::fuzz_target;
use paceline_core::{Config, Simulation, Trace};

fn trace() -> Trace {
    Trace {
        arrival: vec![0, 0, 5_000_000_000].into(),
        prompt_tokens: vec![40, 9, 64].into(),
        output_tokens: vec![3, 1, 5].into(),
        reasoning_tokens: Some(vec![1, 0, 5].into()),
        priority: Some(vec![2, 1, 0].into()),
        score: Some(vec![0.5, -1.0, 3.0].into()),
        tenant: Some(vec![0, 1, u32::MAX].into()),
        session: Some(vec![0, u32::MAX, 0].into()),
        prefix: None,
    }
}

fuzz_target!(|text: &[u8]| {
    let Ok(config) = Config::from_json(text) else { return };
    // Building instances takes time, and a fuzzer soon asks for a thousand.
    if config.instances.len() > 16 {
        return;
    }
    let Ok(mut simulation) = Simulation::new(&config, trace()) else { return };
    for _ in 0..100 {
        match simulation.advance(100) {
            Ok(false) => {}
            Ok(true) | Err(_) => break,
        }
    }
});
