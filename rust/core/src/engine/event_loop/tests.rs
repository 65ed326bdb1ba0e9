use super::*;
use crate::config::{Handover, Links, Offering, Overlap, ReserveConfig, Stage};
use crate::engine::fixtures::{config, row, trace};
use crate::time::TICKS_PER_SECOND;

/// The phases, as the calls in `run_moment` and in the rest of a moment name them.
fn phases() -> Vec<String> {
    let source = include_str!("mod.rs");
    let (_, body) = source.split_once("fn run_moment").unwrap();
    let (first, rest) = body.split_once("self.finish_moment").unwrap();
    let (_, rest) = rest.split_once("fn finish_moment").unwrap();
    let (rest, _) = rest.split_once("\n    }\n").unwrap();
    let calls = first.lines().chain(rest.lines()).filter_map(|line| line.trim().strip_prefix("self."));
    calls.map(|call| call.split('(').next().unwrap().replace('_', " ")).collect()
}

#[test]
fn the_docs_name_the_phases_in_order_and_in_the_same_words() {
    let phases = phases();
    assert_eq!(phases.len(), 6);
    let names: Vec<_> = (1..).zip(&phases).map(|(i, name)| format!("{i}. **{name}**")).collect();
    for page in [include_str!("mod.rs"), include_str!("../../../../../docs/determinism.md")] {
        let mut rest = page;
        for name in &names {
            rest = rest.split_once(name.as_str()).unwrap_or_else(|| panic!("no {name:?} in order")).1;
        }
    }
    let page = include_str!("../../../../../ARCHITECTURE.md").replace('\n', " ");
    assert!(page.contains(&phases.join(", ")), "ARCHITECTURE.md: {}", phases.join(", "));
}

#[test]
fn a_step_sees_the_requests_that_arrive_as_it_starts() {
    // The first step ends at 120, as the second request arrives: the next step runs both.
    let rows = [row(0, 20, 2), row(120, 30, 1)];
    let config = config(&[10], r#"{"on_arrival": {"rule": "round_robin"}}"#);
    let mut simulation = Simulation::new(&config, trace(&rows)).unwrap();
    while !simulation.advance(1).unwrap() {}
    let total = simulation.progress().total;
    assert_eq!((simulation.progress().settled, total), (2, 2));
    let outcome = simulation.into_outcome();
    assert_eq!(outcome.columns.scheduled, [0, 120]);
    assert_eq!(outcome.columns.finish, [120 + 131, 120 + 131]);
    assert_eq!(outcome.end, 251);
}

#[test]
fn a_rule_sees_a_migration_decided_at_the_same_moment() {
    // Both prefills end at 120. The requests swap instances, and both are there before their next step.
    let rows = [row(0, 20, 5), row(0, 20, 5)];
    let other = r#"{"rule": "pick", "min": [{"op": "eq", "args": [{"field": "inst.index"}, {"field": "here.index"}]}]}"#;
    let routing = format!(r#"{{"on_arrival": {{"rule": "round_robin"}}, "on_prefilled": {other}}}"#);
    let mut simulation = Simulation::new(&config(&[10, 10], &routing), trace(&rows)).unwrap();
    while !simulation.advance(1).unwrap() {}
    let columns = simulation.into_outcome().columns;
    assert_eq!((columns.migrations, columns.last_instance), (vec![1, 1].into(), vec![1, 0].into()));
    assert_eq!(columns.transfer, [0, 0]);
    // Four decodes of one token each.
    assert_eq!(columns.finish, [120 + 4 * 101, 120 + 4 * 101]);
}

/// The events that a replay simulates.
fn events(rows: &[(Ticks, u32, u32)]) -> u64 {
    let config = config(&[70], r#"{"on_arrival": {"rule": "round_robin"}}"#);
    let mut simulation = Simulation::new(&config, trace(rows)).unwrap();
    while !simulation.advance(1).unwrap() {}
    simulation.into_outcome().events
}

#[test]
fn a_replay_has_as_many_events_for_few_tokens_as_for_many() {
    // The request behind finds too few of the 70 blocks free until the first has finished.
    for behind in [&[][..], &[row(150, 600, 1)]] {
        let [few, many] = [100, 500].map(|output| events(&[&[row(0, 600, output)], behind].concat()));
        assert_eq!(few, many);
    }
    // It arrives, ends its prompt, and finishes: its decodes are one run.
    assert_eq!(events(&[row(0, 88, 500)]), 3);
}

#[test]
fn a_preempted_request_waits_until_the_other_has_finished() {
    // Three blocks of 16 tokens. Both prompts run until 132. Then the first request takes the third block for its
    // 17th token, and the second, which is preempted, needs two. The first finishes after 23 steps of 101 ticks.
    // The second computes 17 tokens, which yields its second token, and decodes 22 times.
    let out = 132 + 23 * 101;
    // Before its answer begins, a request is preempted but not while answering; between the two it is blocked.
    for (reasoning, preempted, answering) in [
        (None, out - 132, out - 132),
        (Some(0), out - 132, out - 132),
        (Some(1), 0, 0),
        (Some(2), out - 132, 0),
    ] {
        for leap in [true, false] {
            let mut config = config(&[3], r#"{"on_arrival": {"rule": "round_robin"}}"#);
            config.leap = leap;
            let mut trace = trace(&[row(0, 16, 24), row(0, 16, 24)]);
            trace.reasoning_tokens = reasoning.map(|tokens| vec![tokens; 2].into());
            let mut simulation = Simulation::new(&config, trace).unwrap();
            while !simulation.advance(10).unwrap() {}
            let outcome = simulation.into_outcome();
            let (columns, stats) = (&outcome.columns, &outcome.stats[0]);
            assert_eq!(columns.scheduled, [0, 0]);
            assert_eq!(columns.preemptions, [0, 1]);
            let part = |column: &[Ticks]| if column.is_empty() { [0; 2] } else { [column[0], column[1]] };
            assert_eq!(part(columns.preempted.as_slice()), [0, preempted]);
            assert_eq!(part(columns.preempted_answering.as_slice()), [0, answering]);
            assert_eq!(columns.finish, [out, out + 117 + 22 * 101]);
            assert_eq!(
                (stats.work.steps, stats.requests.preemptions, stats.requests.finished),
                (1 + 23 + 1 + 22, 1, 2)
            );
            assert_eq!((stats.work.prefill_tokens, stats.work.decode_tokens), (32 + 17, 23 + 22));
            assert_eq!((stats.occupancy.peak_running, stats.memory.peak_blocks), (2, 3));
            assert_eq!(stats.work.busy_ticks, outcome.end);
            assert_eq!(stats.occupancy.running_ticks, u128::from(outcome.end + 132));
            // Tokens in the cache at the end of each step: the prompts; 17 to 39; 17; 18 to 39.
            let sums = (17..=39).sum::<u128>() + (18..=39).sum::<u128>();
            assert_eq!(stats.occupancy.kv_token_ticks, 32 * 132 + 17 * 117 + 101 * sums);
        }
    }
}

/// Prefill on instance 0 and decode on the others, whose transfers take ten ticks a byte. Leaping and stepping.
fn handed_over(blocks: &[u64], rows: &[(Ticks, u32, u32)], handover: Handover) -> [Outcome; 2] {
    [true, false].map(|leap| {
        let to_decode = r#"{"rule": "pick", "min": [{"field": "inst.requests"}], "within": [1]}"#;
        let to_prefill = r#"{"rule": "pick", "min": [{"field": "inst.requests"}], "within": [0]}"#;
        let routing = format!(r#"{{"on_arrival": {to_prefill}, "on_prefilled": {to_decode}}}"#);
        let mut config = config(blocks, &routing);
        config.roles = (0..blocks.len()).map(|index| u32::from(index > 0)).collect();
        config.links = Some(Links::ports(TICKS_PER_SECOND as f64 / 10.0, 0));
        (config.handover, config.leap) = (Some(handover), leap);
        let mut simulation = Simulation::new(&config, trace(rows)).unwrap();
        while !simulation.advance(5).unwrap() {}
        simulation.into_outcome()
    })
}

#[test]
fn a_prompt_holds_its_blocks_at_the_source_until_its_kv_is_read() {
    // Both prompts need three blocks of 16 tokens, which is all that the prefill instance has. The first ends at
    // 140 and is in transfer until 540, and only then does the second start.
    for outcome in handed_over(&[3, 9], &[row(0, 40, 3), row(0, 40, 3)], Handover::default()) {
        let columns = &outcome.columns;
        assert_eq!(columns.scheduled, [0, 540]);
        assert_eq!(columns.first_token, [140, 680]);
        assert_eq!((columns.transfer[0], columns.handover_wait[0], columns.received_wait[0]), (400, 0, 0));
        // Two decodes of 101 ticks each, from when the KV is there. The second request is offered at 680 and
        // accepted at 742, when the step of the first ends.
        assert_eq!(columns.handover_wait[1], 742 - 680);
        assert_eq!(columns.finish, [540 + 202, 742 + 400 + 202]);
        assert_eq!((outcome.stats[0].memory.peak_blocks, outcome.stats[1].memory.peak_blocks), (3, 3));
    }
}

#[test]
fn states_take_blocks_on_the_target_and_bytes_of_its_transfer() {
    // As below, with 20 bytes of states in two blocks: a layer of 15 bytes takes 150, and all is sent from 35 to 635.
    for leap in [true, false] {
        let other =
            r#"{"rule": "pick", "min": [{"op": "eq", "args": [{"field": "inst.index"}, {"const": 0}]}]}"#;
        let rules = format!(
            r#"{{"on_arrival": {{"rule": "pick", "min": [{{"field": "inst.index"}}]}}, "decode_on_arrival": {other}}}"#
        );
        let mut config = config(&[9, 9], &rules);
        config.leap = leap;
        config.links = Some(Links::ports(TICKS_PER_SECOND as f64 / 10.0, 0));
        config.handover = Some(Handover { overlap: Overlap::Layers, ..Handover::default() });
        config.instances[0].kv_layers = 4;
        for instance in &mut config.instances {
            (instance.state_blocks, instance.state_bytes) = (2, 20);
        }
        let mut simulation = Simulation::new(&config, trace(&[row(0, 40, 3)])).unwrap();
        while !simulation.advance(5).unwrap() {}
        let outcome = simulation.into_outcome();
        assert_eq!((outcome.columns.transfer[0], outcome.columns.finish[0]), (635 - 140, 635 + 202));
        assert_eq!((outcome.stats[0].memory.peak_blocks, outcome.stats[1].memory.peak_blocks), (5, 5));
    }
}

#[test]
fn transfers_that_overlap_are_the_same_leaping_and_stepping() {
    // The step of a prompt of 40 tokens takes 140 ticks, and a layer of 10 bytes 100: the first is ready at 35. All
    // is sent from 35 to 435, and the target holds three blocks from the start of the step on.
    let overlapped = [true, false].map(|leap| {
        let other = r#"{"rule": "pick", "min": [{"op": "eq", "args": [{"field": "inst.index"}, {"const": 0}]}]}"#;
        let rules = format!(
            r#"{{"on_arrival": {{"rule": "pick", "min": [{{"field": "inst.index"}}]}}, "decode_on_arrival": {other}}}"#
        );
        let mut config = config(&[9, 9], &rules);
        config.leap = leap;
        config.links = Some(Links::ports(TICKS_PER_SECOND as f64 / 10.0, 0));
        config.handover = Some(Handover { overlap: Overlap::Layers, ..Handover::default() });
        config.instances[0].kv_layers = 4;
        let mut simulation = Simulation::new(&config, trace(&[row(0, 40, 3)])).unwrap();
        while !simulation.advance(5).unwrap() {}
        simulation.into_outcome()
    });
    for outcome in overlapped {
        let columns = &outcome.columns;
        assert_eq!((columns.transfer[0], columns.handover_wait[0]), (435 - 140, 0));
        assert_eq!(columns.finish, [435 + 202]);
        assert_eq!((outcome.stats[0].memory.peak_blocks, outcome.stats[1].memory.peak_blocks), (3, 3));
    }
}

/// Replays requests that are offered to instance 1 as they arrive, and whose prompts instance 0 computes: leaping and stepping.
fn offered_on_arrival(blocks: &[u64], rows: &[(Ticks, u32, u32)]) -> [Outcome; 2] {
    [true, false].map(|leap| {
        let other = r#"{"rule": "pick", "min": [{"op": "eq", "args": [{"field": "inst.index"}, {"const": 0}]}]}"#;
        let rules = format!(
            r#"{{"on_arrival": {{"rule": "pick", "min": [{{"field": "inst.index"}}]}}, "decode_on_arrival": {other}}}"#
        );
        let mut config = config(blocks, &rules);
        config.leap = leap;
        config.links = Some(Links::ports(TICKS_PER_SECOND as f64 / 10.0, 0));
        config.handover = Some(Handover { offer: Offering::Arrival, ..Handover::default() });
        let mut simulation = Simulation::new(&config, trace(rows)).unwrap();
        while !simulation.advance(5).unwrap() {}
        simulation.into_outcome()
    })
}

#[test]
fn a_prompt_waits_until_its_target_has_blocks_where_requests_are_offered_as_they_arrive() {
    // The decode instance has blocks for one request: the first holds them from 0 until it finishes at 742. The prompt
    // of the second is queued then, and its KV sent as its step ends.
    for outcome in offered_on_arrival(&[9, 4], &[row(0, 40, 3), row(0, 40, 3)]) {
        let columns = &outcome.columns;
        assert_eq!(columns.acceptance_wait, [0, 742]);
        assert_eq!(columns.first_token, [140, 742 + 140]);
        assert_eq!(columns.handover_wait, [0, 0]);
        assert_eq!(columns.transfer, [400, 400]);
        assert_eq!(columns.finish, [742, 742 + 140 + 400 + 202]);
        assert_eq!((outcome.stats[0].memory.peak_blocks, outcome.stats[1].memory.peak_blocks), (3, 3));
    }
}

#[test]
fn blocks_that_are_reserved_for_a_request_are_free_once_it_ends_where_its_prompt_is_computed() {
    for outcome in offered_on_arrival(&[9, 4], &[row(0, 40, 1), row(0, 40, 3)]) {
        let columns = &outcome.columns;
        assert_eq!(columns.acceptance_wait, [0, 140]);
        assert_eq!(columns.finish, [140, 280 + 400 + 202]);
        assert_eq!((outcome.network.transfers, outcome.stats[1].memory.peak_blocks), (1, 3));
    }
}

#[test]
fn a_request_is_transferred_once_its_target_has_blocks_for_it() {
    // The decode instance has blocks for one request. The first holds them from 140 until it finishes at 742, the
    // second is prefilled at 280: it is accepted at 742.
    for outcome in handed_over(&[9, 4], &[row(0, 40, 3), row(140, 40, 3)], Handover::default()) {
        let columns = &outcome.columns;
        assert_eq!(columns.first_token, [140, 280]);
        assert_eq!(columns.handover_wait, [0, 742 - 280]);
        assert_eq!(columns.transfer, [400, 742 - 280 + 400]);
        assert_eq!(columns.finish, [742, 742 + 400 + 202]);
        assert_eq!(columns.first_decode, [101, 101]);
        assert_eq!(outcome.stats[1].memory.peak_blocks, 3);
    }
}

#[test]
fn a_received_request_waits_for_a_seat_and_its_wait_is_counted() {
    // Both are prefilled by 181. The link carries one after the other: the first request is received at 581, the
    // second, which is one byte longer, at 991, in the middle of a step of the first.
    for outcome in handed_over(&[9, 20], &[row(0, 40, 9), row(0, 41, 2)], Handover::default()) {
        let columns = &outcome.columns;
        assert_eq!(columns.first_token, [181, 181]);
        assert_eq!(columns.handover_wait, [0, 400]);
        assert_eq!(columns.transfer, [400, 400 + 410]);
        // The first decodes from 581: a step ends at 581 + 5 * 101 = 1086, in which 991 falls.
        assert_eq!(columns.received_wait, [0, 1086 - 991]);
        assert_eq!(columns.first_decode, [101, 102]);
        assert_eq!(columns.finish, [581 + 5 * 101 + 102 + 2 * 101, 1086 + 102]);
    }
}

#[test]
fn kv_that_is_not_accepted_in_time_is_computed_anew() {
    let lease = Handover { lease: Some(300), ..Handover::default() };
    for outcome in handed_over(&[9, 4], &[row(0, 40, 3), row(140, 40, 3)], lease) {
        let columns = &outcome.columns;
        // The second request is prefilled at 280 and given up at 580. It computes 41 tokens from 742 on.
        assert_eq!((columns.handover_wait[1], columns.transfer[1]), (300, 300));
        assert_eq!(columns.finish, [742, 742 + 141 + 101]);
        assert_eq!(columns.preempted[1], 742 - 580);
        assert_eq!(outcome.stats[1].requests.expired_offers, 1);
    }
}

#[test]
fn requests_that_follow_each_other_closely_are_spread_over_the_targets() {
    // Prefills end at 120 and 241. The first is in transfer until 320, so that no decode instance runs it.
    for field in [
        "requests",
        "kv_tokens",
        "outstanding_tokens",
        "incoming_requests",
        "incoming_tokens",
        "incoming_blocks",
        "kv_usage",
        "waiting",
    ] {
        let to_decode = format!(r#"{{"rule": "pick", "min": [{{"field": "inst.{field}"}}], "within": [1]}}"#);
        let to_prefill = r#"{"rule": "pick", "min": [{"field": "inst.requests"}], "within": [0]}"#;
        let routing = format!(r#"{{"on_arrival": {to_prefill}, "on_prefilled": {to_decode}}}"#);
        let mut config = config(&[9, 9, 9], &routing);
        config.roles = vec![0, 1, 1];
        config.links = Some(Links::ports(TICKS_PER_SECOND as f64 / 10.0, 0));
        config.handover = Some(Handover::default());
        let mut simulation = Simulation::new(&config, trace(&[row(0, 20, 5), row(1, 21, 5)])).unwrap();
        while !simulation.advance(5).unwrap() {}
        assert_eq!(simulation.into_outcome().columns.last_instance, [1, 2], "{field}");
    }
}

#[test]
fn the_decode_instance_is_picked_as_a_request_arrives() {
    // Each request decodes two instances on from where its prompt is computed, in whichever order their prefills end.
    let in_role = |role: u32| {
        format!(r#"{{"rule": "pick", "min": [{{"field": "inst.requests"}}], "within": [{role}]}}"#)
    };
    let two_on = r#"{"rule": "pick", "min": [], "where": {"op": "eq", "args": [
        {"field": "inst.index"}, {"op": "add", "args": [{"field": "here.index"}, {"const": 2}]}]}}"#;
    let routing = format!(r#"{{"on_arrival": {}, "decode_on_arrival": {two_on}}}"#, in_role(0));
    let mut config = config(&[9, 9, 9, 9], &routing);
    config.roles = vec![0, 0, 1, 1];
    config.handover = Some(Handover::default());
    let mut simulation = Simulation::new(&config, trace(&[row(0, 60, 5), row(1, 20, 5)])).unwrap();
    while !simulation.advance(5).unwrap() {}
    let columns = simulation.into_outcome().columns;
    assert_eq!((columns.instance, columns.last_instance), (vec![0, 1].into(), vec![2, 3].into()));
}

#[test]
fn an_instance_to_which_kv_is_on_its_way_keeps_its_share_of_outputs() {
    // The first request takes 116 ticks of prompt on instance 0, 160 of transfer, and 99 decodes on instance 1, which lower
    // the share there to 0. The KV of 100 tokens of the third is accepted within a step of 9,975, and is on its way for 1,000.
    let end = 116 + 160 + 99 * 101;
    let later = end + 100;
    // By turns to instance 0, which hands over to instance 1, and to instance 1.
    let (first, third) = (row(0, 16, 100), row(9775, 100, 5));
    let rows = [first, row(0, 16, 1), third, row(later, 16, 300), row(later, 16, 1), row(later + 1, 16, 300)];
    for leap in [true, false] {
        let to_decode = r#"{"rule": "pick", "min": [{"field": "inst.index"}], "within": [1]}"#;
        let rules = format!(r#"{{"on_arrival": {{"rule": "round_robin"}}, "on_prefilled": {to_decode}}}"#);
        let mut config = config(&[9, 35], &rules);
        let scheduler = &mut config.instances[1].scheduler;
        let decodes = Stage::Decodes { charged: true, seated: true, over_prefills: false, sits_out: false };
        scheduler.stages = vec![Stage::Prefills, scheduler.stages[1].clone(), decodes];
        scheduler.output_reserve =
            Some(ReserveConfig { first: 1_000_000, least: 0, steps: 50, after: 20, clip: 4096 });
        (config.roles, config.leap) = (vec![0, 1], leap);
        config.links = Some(Links::ports(TICKS_PER_SECOND as f64 / 10.0, 0));
        config.handover = Some(Handover::default());
        let mut simulation = Simulation::new(&config, trace(&rows)).unwrap();
        while !simulation.advance(5).unwrap() {}
        let columns = simulation.into_outcome().columns;
        assert_eq!((columns.finish[0], columns.scheduled[3]), (end, later));
        assert_eq!(columns.scheduled[5], later + 116, "both outputs fit");
    }
}
