//! Times of the engine's parts: a replay per request, a step's cost, an
//! addition to a sketch.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use paceline_benches::{config, trace};
use paceline_core::cost::StepShape;
use paceline_core::{Cost, Series, Simulation, Sketch};

fn main() {
    divan::main();
}

const REQUESTS: usize = 20_000;

fn replay(bencher: Bencher, instances: usize, gap: u64, leap: bool) {
    let config = config(instances, leap);
    bencher.counter(ItemsCount::new(REQUESTS)).with_inputs(|| trace(REQUESTS, gap)).bench_values(|trace| {
        let mut simulation = Simulation::new(&config, trace).expect("the trace is valid");
        while !simulation.advance(u64::MAX).expect("the clock holds it") {}
        simulation.into_outcome()
    });
}

/// Eight instances at half their load.
#[divan::bench]
fn replay_below_saturation(bencher: Bencher) {
    replay(bencher, 8, 16_000_000_000, true);
}

/// Eight instances under overload: queues, full memory, preemption.
#[divan::bench]
fn replay_past_saturation(bencher: Bencher) {
    replay(bencher, 8, 1_000_000_000, true);
}

/// Below saturation again, one step at a time.
#[divan::bench(sample_count = 10)]
fn replay_without_leaping(bencher: Bencher) {
    replay(bencher, 8, 16_000_000_000, false);
}

/// Sixty-four instances.
#[divan::bench]
fn replay_on_64_instances(bencher: Bencher) {
    replay(bencher, 64, 2_000_000_000, true);
}

#[divan::bench]
fn cost_of_a_mixed_step(bencher: Bencher) {
    let cost: Cost = config(1, true).instances[0].cost.clone();
    let shape = StepShape {
        decode_requests: 100,
        decode_kv: 120_000,
        prefill_tokens: 1_000,
        prefill_requests: 1,
        prefill_kv: 1_000,
        prefill_pairs: 500_500,
        sampled: 101,
        ..StepShape::default()
    };
    bencher.bench(|| cost.step(black_box(&shape)));
}

#[divan::bench]
fn sketch_takes_a_run(bencher: Bencher) {
    let mut sketch = Sketch::default();
    let series = Series { first: 24_000_000_000, slope: 4_500_000 };
    bencher.bench_local(|| sketch.add_series(black_box(100), black_box(&series), black_box(20)));
}
