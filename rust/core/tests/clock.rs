//! The clock ends at a last moment: a replay is the same wherever it lies before that, and refused where it lies past it.

use paceline_core::{Config, Error, HORIZON, Outcome, Simulation, TICKS_PER_SECOND, Ticks, Trace};

/// Two requests that need 8 blocks each in the end: of 20 blocks both have room; of 12 the second one is swapped out,
/// and swapped in again once the first one has finished, for a last run whose first step copies.
const REQUESTS: [(Ticks, u32, u32); 2] = [(0, 16, 17), (3, 16, 15)];

/// Ticks of a step, of a token and of a token of context.
type Ticked = (Ticks, Ticks, Ticks);

/// The mechanism of an instance beside its blocks and costs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum With {
    SwapSpace,
    /// Two batches at a time pass two stages.
    Pipeline,
    /// Steps yield two and three tokens in turn.
    Drafts,
}

fn replay(
    (blocks, with): (u64, With),
    (step, token, kv_token): Ticked,
    shift: Ticks,
    leap: bool,
) -> Result<Outcome, Error> {
    const SWAP: &str = r#"{"kind": "swap", "blocks": 20, "out": 3, "back": 5, "overlapped": false}"#;
    const SWAP_IN: &str = r#"{"kind": "swap_in", "unless_preempted": true},"#;
    let (swap_in, preemption) = match with {
        With::SwapSpace => (SWAP_IN, SWAP),
        With::Pipeline | With::Drafts => ("", r#"{"kind": "recompute"}"#),
    };
    let more = match with {
        With::SwapSpace => "",
        With::Pipeline => r#""pipeline": {"stages": [1, 1], "batches": 2, "empty_batches": false},"#,
        With::Drafts => {
            r#""speculation": {"tokens": 2, "by_batch": [], "proposals": null,
                "acceptance": {"kind": "periodic", "yields": [2, 3]}, "lookahead": 0, "input_slots": 0,
                "hash_lookahead": 0, "drops_last_block": false, "pads": false},"#
        }
    };
    let json = format!(
        r#"{{"instances": [{{
            "blocks": {blocks}, "block_tokens": 4, "max_model_len": null, {more}
            "cost": {{"kind": "affine", "step": {step}, "token": {token}, "kv_token": {kv_token}}},
            "scheduler": {{
                "max_num_batched_tokens": 64, "max_num_seqs": 4, "long_prefill_token_threshold": 0,
                "stages": [{{"kind": "running"}}, {swap_in}
                    {{"kind": "admit", "chunked": true, "unless_preempted": true, "unless_swapped": true,
                      "count_decodes": true, "gather": null}}],
                "exclusive_prefill": false, "order": {{"kind": "arrival"}}, "victim": "latest",
                "allocation": "chunk", "watermark_blocks": 0, "watermark_when_idle": false,
                "spare_block": false, "decodes_first": false, "refund": true,
                "stop_at_own_preemption": false, "threshold_when_alone": false,
                "preemption": {preemption},
                "requeue_late": false, "prefix_cache": null, "schedule_ahead": false
            }}
        }}],
        "routing": {{"on_arrival": {{"rule": "round_robin"}}}}, "until": null, "leap": {leap},
        "record_decisions": false}}"#
    );
    let trace = Trace {
        arrival: REQUESTS.iter().map(|request| request.0 + shift).collect(),
        prompt_tokens: REQUESTS.iter().map(|request| request.1).collect(),
        output_tokens: REQUESTS.iter().map(|request| request.2).collect(),
        ..Trace::default()
    };
    let mut simulation = Simulation::new(&Config::from_json(json.as_bytes())?, trace)?;
    while !simulation.advance(1_000)? {}
    Ok(simulation.into_outcome())
}

#[test]
fn a_replay_may_end_at_the_last_moment_of_the_clock_and_not_after() {
    const SLOW: Ticked = (50, 2, 1);
    const FAST: Ticked = (1, 0, 0);
    for (instance, cost) in [
        ((20, With::SwapSpace), SLOW),
        ((12, With::SwapSpace), SLOW),
        ((20, With::SwapSpace), FAST),
        ((12, With::SwapSpace), FAST),
        ((20, With::Pipeline), SLOW),
        ((20, With::Drafts), SLOW),
        ((20, With::Drafts), FAST),
    ] {
        for leap in [false, true] {
            let early = replay(instance, cost, 0, leap).unwrap();
            assert_eq!(early.stats[0].memory.swapped_in_blocks > 0, instance.0 == 12);
            let end = early.columns.finish.iter().copied().max().unwrap();
            let late = replay(instance, cost, HORIZON - end, leap).unwrap();
            let finish: Vec<_> = early.columns.finish.iter().map(|time| time + HORIZON - end).collect();
            assert_eq!(late.columns.finish, finish);
            // The step that would end past the clock begins within the clock's last second.
            let error = replay(instance, cost, HORIZON - end + 1, leap).err();
            let last = HORIZON / TICKS_PER_SECOND;
            assert!(
                matches!(error, Some(Error::ClockOverflow { seconds, instance: 0 }) if seconds == last),
                "{instance:?}, {cost:?}, {leap}: {error:?}"
            );
        }
    }
}
