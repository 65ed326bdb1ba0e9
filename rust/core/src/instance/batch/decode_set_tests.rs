//! The decode set of members that yield several tokens a step, against a model that takes each step of each member.

use super::decode_set::DecodeSet;
use super::progress::Progress;
use crate::instance::request::{Phase, RequestTable, Slot};
use crate::kv::BlockSize;
use crate::metrics::Sketch;
use crate::series::Series;
use proptest::prelude::*;

const BLOCK: u32 = 4;

/// A member, step by step.
#[derive(Debug, Clone)]
struct Naive {
    prompt: u32,
    output: u32,
    reasoning: u32,
    /// Its decode steps so far.
    taken: usize,
    generated: u32,
    /// Tokens in blocks: with the drafts of its last step.
    computed: u32,
}

impl Naive {
    fn step(&mut self, numbers: &[u32]) {
        self.computed += numbers[self.taken % numbers.len()];
        self.taken += 1;
        self.generated = (self.computed + 1 - self.prompt).min(self.output);
    }

    fn is_done(&self) -> bool {
        self.generated == self.output
    }
}

/// Takes `steps` steps of each member.
fn take(members: &mut [Naive], steps: u64, numbers: &[u32]) {
    for member in members {
        for _ in 0..steps {
            member.step(numbers);
        }
    }
}

fn blocks(members: &[Naive]) -> u64 {
    members.iter().map(|member| u64::from(member.computed.div_ceil(BLOCK))).sum()
}

/// Members after `ahead` steps each: a request may join in the middle of its period.
fn members(drawn: &[(u32, u32, u32, usize)], numbers: &[u32]) -> Vec<Naive> {
    let after_prefill = |&(prompt, output, reasoning, ahead): &(u32, u32, u32, usize)| {
        let reasoning = reasoning.min(output);
        let mut member = [Naive { prompt, output, reasoning, taken: 0, generated: 1, computed: prompt }];
        take(&mut member, ahead as u64, numbers);
        let [member] = member;
        member
    };
    drawn.iter().map(after_prefill).collect()
}

fn join(set: &mut DecodeSet, requests: &mut RequestTable, row: u32, member: &Naive) {
    let slot = requests.insert(row, member.prompt, member.output);
    let state = &mut requests[slot];
    (state.computed, state.generated) = (member.computed, member.generated);
    set.join(slot, state, Some(member.reasoning));
}

/// The steps, of `k`, after which each milestone is passed: the end of the reasoning, and the first answer token.
fn milestones(member: &Naive, numbers: &[u32], k: u64) -> Vec<u64> {
    let (mut member, mut passed) = (member.clone(), Vec::new());
    let start = member.generated;
    for step in 1..=k {
        let before = member.generated;
        // The output does not end it here: the set is asked no further than the first completion.
        member.step(numbers);
        for token in [member.reasoning, member.reasoning + 1] {
            let comes = token > before && token <= member.generated;
            // A request whose reasoning ended before it joined has only the start of its answer ahead.
            if comes && (token > member.reasoning || member.reasoning > start) {
                passed.push(step);
            }
        }
    }
    passed
}

proptest! {
    #[test]
    fn a_leap_equals_its_steps_and_the_model(
        numbers in prop::collection::vec(1u32..5, 1..5),
        first in prop::collection::vec((1u32..20, 60u32..90, 1u32..70, 0usize..6), 1..6),
        later in prop::collection::vec((1u32..20, 60u32..90, 1u32..70, 0usize..6), 0..3),
        before in 0u64..5, most in 1u64..12, free in 0u64..60,
    ) {
        let progress = Progress::periodic(&numbers);
        let mut set = DecodeSet::with_progress(progress, BlockSize::new(BLOCK, 0), true);
        let mut requests = RequestTable::default();
        let mut sketch = Sketch::default();
        let (mut model, later) = (members(&first, &numbers), members(&later, &numbers));
        for (row, member) in (0..).zip(&model) {
            join(&mut set, &mut requests, row, member);
        }
        let ones = Series { first: 1, slope: 0 };
        if before > 0 {
            set.advance(0, &ones, before, &mut requests, &mut sketch);
            take(&mut model, before, &numbers);
            while set.pop_milestone(&requests, before).is_some() {}
        }
        // Some join when the others are in the middle of their period.
        for (row, member) in (first.len() as u32..).zip(&later) {
            join(&mut set, &mut requests, row, member);
        }
        model.extend(later);

        let k = most.min(set.steps_to_completion());
        let held = blocks(&model);
        let mut by_step = Vec::new();
        let mut stepped = model.clone();
        for _ in 0..set.steps_to_completion() {
            prop_assert!(stepped.iter().all(|member| !member.is_done()), "no member is done before");
            take(&mut stepped, 1, &numbers);
            by_step.push(blocks(&stepped) - held);
        }
        prop_assert!(stepped.iter().any(Naive::is_done), "a member is done then");
        let needed = |steps: u64| if steps == 0 { 0 } else { by_step[steps as usize - 1] };
        prop_assert_eq!(set.blocks_for_next(), needed(1));
        prop_assert_eq!(set.blocks_for(k), needed(k));
        let alone: u64 = (0..model.len() as Slot).map(|slot| set.needed_blocks(&requests[slot])).sum();
        prop_assert_eq!(alone, needed(1));
        let covered = (0..=k).take_while(|&steps| needed(steps) <= free).last().unwrap_or(0);
        prop_assert_eq!(set.steps_covered(free, k), covered);

        let mut due: Vec<(u64, Slot)> = Vec::new();
        for (slot, member) in (0..).zip(&model) {
            due.extend(milestones(member, &numbers, k).into_iter().map(|step| (step, slot)));
        }
        due.sort_unstable();
        let (mut leapt, mut one_by_one) = (set.clone(), set);
        leapt.advance(before, &ones, k, &mut requests.clone(), &mut sketch.clone());
        let mut popped = Vec::new();
        while let Some((slot, step, generated)) = leapt.pop_milestone(&requests, k) {
            popped.push((step, slot));
            let mut member = [model[slot as usize].clone()];
            take(&mut member, step, &numbers);
            prop_assert_eq!(generated, member[0].generated);
        }
        prop_assert_eq!(popped, due);
        for step in 0..k {
            one_by_one.advance(before + step, &ones, 1, &mut requests, &mut sketch);
            while one_by_one.pop_milestone(&requests, 1).is_some() {}
        }
        take(&mut model, k, &numbers);
        for mut set in [leapt, one_by_one] {
            let mut requests = requests.clone();
            prop_assert_eq!(set.kv_tokens(), model.iter().map(|member| u64::from(member.computed)).sum::<u64>());
            prop_assert_eq!(set.longest(), u64::from(model.iter().map(|member| member.computed).max().unwrap_or(0)));
            let done: Vec<Slot> = (0..).zip(&model).filter(|(_, one)| one.is_done()).map(|(slot, _)| slot).collect();
            prop_assert_eq!(set.completed(), done.first().copied());
            for (slot, member) in (0..).zip(&model) {
                set.leave(slot, &mut requests[slot], Phase::Stalled, before + k);
                let state = &requests[slot];
                prop_assert_eq!(state.generated, member.generated);
                prop_assert_eq!(state.computed, member.prompt + member.generated - 1);
                prop_assert_eq!(state.blocks.count(), u64::from(member.computed.div_ceil(BLOCK)));
            }
            prop_assert_eq!((set.len(), set.kv_tokens(), set.blocks_for(9)), (0, 0, 0));
        }
    }

    #[test]
    fn a_request_that_only_reasons_has_no_answer(output in 10u32..40, number in 1u32..5) {
        let progress = Progress::periodic(&[number]);
        let mut set = DecodeSet::with_progress(progress, BlockSize::new(BLOCK, 0), true);
        let mut requests = RequestTable::default();
        let member = Naive { prompt: 3, output, reasoning: output, taken: 0, generated: 1, computed: 3 };
        join(&mut set, &mut requests, 0, &member);
        let steps = u64::from((output - 1).div_ceil(number));
        prop_assert_eq!(set.steps_to_completion(), steps);
        set.advance(0, &Series { first: 1, slope: 0 }, steps, &mut requests, &mut Sketch::default());
        prop_assert_eq!(set.pop_milestone(&requests, steps).map(|(_, step, _)| step), Some(steps));
        prop_assert_eq!(set.pop_milestone(&requests, steps), None);
    }

    #[test]
    fn one_token_in_turn_is_one_token_a_step(
        period in 1usize..4, pairs in prop::collection::vec((1u32..30, 40u32..60), 1..8), k in 1u64..30, free in 0u64..40,
    ) {
        let sets = [Progress::Identity, Progress::periodic(&vec![1; period])].map(|progress| {
            let mut set = DecodeSet::with_progress(progress, BlockSize::new(BLOCK, 0), true);
            let mut requests = RequestTable::default();
            for (row, &(prompt, output)) in (0..).zip(&pairs) {
                let member = Naive { prompt, output, reasoning: 9, taken: 0, generated: 1, computed: prompt };
                join(&mut set, &mut requests, row, &member);
            }
            let read = |set: &DecodeSet| {
                let ends = (set.steps_to_completion(), set.steps_to_reasoning_end(), set.next_milestone());
                (set.kv_tokens(), set.longest(), set.blocks_for(k), set.steps_covered(free, k), ends)
            };
            let before = read(&set);
            set.advance(0, &Series { first: 3, slope: 1 }, k, &mut requests, &mut Sketch::default());
            (before, read(&set), set.completed(), set.pop_milestone(&requests, k))
        });
        prop_assert_eq!(&sets[0], &sets[1]);
    }
}
