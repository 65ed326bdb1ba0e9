//! The decode set of members that yield several tokens a step, against a model that takes each step of each member.

use super::decode_set::DecodeSet;
use super::progress::{Periodic, Progress};
use crate::instance::Part;
use crate::instance::request::{Phase, RequestTable, Slot};
use crate::kv::BlockSize;
use crate::metrics::{Drafts, Sketch};
use crate::series::Series;
use proptest::prelude::*;

const BLOCK: u32 = 4;
/// Tokens that a step computes of a member, and slots that it has for them and the next drafts.
const WIDTHS: (u32, u32) = (5, 7);
const ONES: Series = Series { first: 1, slope: 0 };

/// A member, step by step.
#[derive(Debug, Clone)]
struct Naive {
    prompt: u32,
    output: u32,
    /// Its decode steps so far.
    taken: usize,
    computed: u32,
    /// Tokens for which it has blocks.
    held: u32,
}

impl Naive {
    /// Takes a step. Returns its accepted drafts, and how many of them are past the last token.
    fn step(&mut self, numbers: &[u32]) -> (u32, u32) {
        let yielded = numbers[self.taken % numbers.len()];
        self.held = self.computed + WIDTHS.1;
        self.computed += yielded;
        self.taken += 1;
        (yielded - 1, self.generated().saturating_sub(self.output))
    }

    fn generated(&self) -> u32 {
        self.computed + 1 - self.prompt
    }

    fn is_done(&self) -> bool {
        self.generated() >= self.output
    }

    fn blocks(&self) -> u64 {
        u64::from(self.held.div_ceil(BLOCK))
    }
}

fn blocks(members: &[Naive]) -> u64 {
    members.iter().map(Naive::blocks).sum()
}

/// Takes a step of each member. Returns their drafts.
fn step(members: &mut [Naive], numbers: &[u32]) -> Drafts {
    let mut drafts = Drafts::default();
    for member in members {
        let (accepted, past) = member.step(numbers);
        drafts.verifications += 1;
        drafts.computed += u64::from(WIDTHS.0) - 1;
        drafts.proposed += if member.is_done() { 0 } else { u64::from(WIDTHS.0) - 1 };
        drafts.accepted += u64::from(accepted);
        drafts.trimmed += u64::from(past);
    }
    drafts
}

/// Members after their prompt, or after `ahead` steps: a request may join in the middle of its period.
fn members(drawn: &[(u32, u32, usize)], numbers: &[u32]) -> Vec<Naive> {
    let of = |&(prompt, output, ahead): &(u32, u32, usize)| {
        let mut member = Naive { prompt, output, taken: 0, computed: prompt, held: prompt + 1 };
        for _ in 0..ahead {
            member.step(numbers);
        }
        member
    };
    drawn.iter().map(of).collect()
}

fn join(set: &mut DecodeSet, requests: &mut RequestTable, row: u32, member: &Naive, reasoning: Option<u32>) {
    let slot = requests.insert(row, member.prompt, member.output);
    let state = &mut requests[slot];
    (state.computed, state.generated) = (member.computed, member.generated());
    state.blocks.set_count(member.blocks());
    set.join(slot, state, reasoning);
}

fn empty(numbers: &[u32]) -> DecodeSet {
    DecodeSet::new(Progress::Periodic(Periodic::new(numbers, WIDTHS)), BlockSize::new(BLOCK, 0), true)
}

fn advance(set: &mut DecodeSet, k: u64, requests: &mut RequestTable, sketch: &mut Sketch) {
    let drafts = set.drafts(k);
    set.advance(0, &ONES, (k, drafts), requests, sketch);
}

/// Drawn members: prompt, output, and decode steps that they have taken.
fn drawn(most: usize) -> impl Strategy<Value = Vec<(u32, u32, usize)>> {
    prop::collection::vec((1u32..20, 60u32..90, 0usize..6), 0..most)
}

proptest! {
    #[test]
    fn a_leap_equals_its_steps_and_the_model(
        numbers in prop::collection::vec(1u32..=5, 1..5), first in drawn(6), later in drawn(3),
        before in 0u64..5, most in 1u64..40, free in 0u64..60,
    ) {
        prop_assume!(!first.is_empty());
        let (mut set, mut requests) = (empty(&numbers), RequestTable::default());
        let mut sketch = Sketch::default();
        let (mut model, later) = (members(&first, &numbers), members(&later, &numbers));
        for (row, member) in (0..).zip(&model) {
            join(&mut set, &mut requests, row, member, None);
        }
        for _ in 0..before {
            advance(&mut set, 1, &mut requests, &mut sketch);
            step(&mut model, &numbers);
        }
        // Some join when the others are in the middle of their period.
        for (row, member) in (first.len() as u32..).zip(&later) {
            join(&mut set, &mut requests, row, member, None);
        }
        model.extend(later);

        let (departure, held) = (set.steps_to_departure(), blocks(&model));
        let (mut stepped, mut by_step, mut drafts) = (model.clone(), vec![0], vec![Drafts::default()]);
        for _ in 0..departure {
            prop_assert!(stepped.iter().all(|member| !member.is_done()), "no member is done before");
            let taken = step(&mut stepped, &numbers);
            by_step.push(blocks(&stepped) - held);
            let so_far = drafts[drafts.len() - 1];
            drafts.push(Drafts {
                verifications: so_far.verifications + taken.verifications,
                proposed: so_far.proposed + taken.proposed,
                computed: so_far.computed + taken.computed,
                accepted: so_far.accepted + taken.accepted,
                trimmed: so_far.trimmed + taken.trimmed,
            });
        }
        prop_assert!(stepped.iter().any(Naive::is_done), "a member is done then");

        let k = most.min(departure);
        prop_assert_eq!(set.blocks_for_next(), by_step[1]);
        prop_assert_eq!((set.blocks_for(0), set.blocks_for(k)), (0, by_step[k as usize]));
        prop_assert_eq!(set.drafts(k), Some(drafts[k as usize]));
        let gained = |drafts: &Drafts| drafts.verifications + drafts.accepted;
        let gains: Vec<u64> = drafts.windows(2).map(|pair| gained(&pair[1]) - gained(&pair[0])).collect();
        prop_assert_eq!(set.gains().take(k as usize).collect::<Vec<_>>(), &gains[..k as usize]);
        prop_assert_eq!(set.gained(k), gained(&drafts[k as usize]));
        let each: u64 = (0..model.len() as Slot).map(|slot| set.needed_blocks(&requests[slot])).sum();
        prop_assert_eq!(each, by_step[1]);
        let covered = (0..=k).take_while(|&steps| by_step[steps as usize] <= free).last().unwrap_or(0);
        prop_assert_eq!(set.steps_covered(free, k), covered);

        for _ in 0..k {
            step(&mut model, &numbers);
        }
        let longest = model.iter().map(|member| u64::from(member.computed)).max().unwrap_or(0);
        prop_assert_eq!(set.longest_after(k), longest);
        let (mut leapt, mut gaps) = (set.clone(), sketch.clone());
        advance(&mut leapt, k, &mut requests, &mut gaps);
        for _ in 0..k {
            advance(&mut set, 1, &mut requests, &mut sketch);
        }
        prop_assert_eq!(format!("{gaps:?}"), format!("{sketch:?}"));
        let kv: u64 = model.iter().map(|member| u64::from(member.computed)).sum();
        let done = model.iter().position(Naive::is_done).map(|slot| slot as Slot);
        for mut set in [leapt, set] {
            let mut requests = requests.clone();
            prop_assert_eq!((set.kv_tokens(), set.longest_after(0), set.departing()), (kv, longest, done));
            for (slot, member) in (0..).zip(&model) {
                set.leave(slot, &mut requests[slot], Phase::Stalled, before + k);
                let state = &requests[slot];
                prop_assert_eq!(state.generated, member.generated().min(member.output));
                prop_assert_eq!(state.computed, member.prompt + state.generated - 1);
                prop_assert_eq!(state.blocks.count(), member.blocks());
            }
            prop_assert_eq!((set.len(), set.kv_tokens(), set.blocks_for(9)), (0, 0, 0));
        }
    }

    #[test]
    fn listed_steps_equal_the_steps_one_by_one(
        numbers in prop::collection::vec(1u32..=5, 1..5), drawn in drawn(5), lengths in prop::collection::vec(1u64..99, 1..9),
        pause in 0u64..9, late in any::<bool>(),
    ) {
        prop_assume!(!drawn.is_empty());
        let taken = |listed: bool| {
            let (mut set, mut requests) = (empty(&numbers), RequestTable::default());
            let mut sketch = Sketch::default();
            let members = members(&drawn, &numbers);
            let last = members.len() - 1;
            for (row, member) in (0..).zip(&members[..last]) {
                join(&mut set, &mut requests, row, member, None);
            }
            advance(&mut set, 1, &mut requests, &mut sketch);
            if pause > 0 {
                set.pause(1);
            }
            join(&mut set, &mut requests, last as u32, &members[last], None);
            if late {
                set.join_late(last as Slot, Part::MigratedIn);
            }
            // No member is done before the last step.
            let lengths = &lengths[..lengths.len().min(set.steps_to_departure() as usize)];
            let mut end = 1 + pause;
            let ends: Vec<u64> = lengths.iter().map(|length| { end += length; end }).collect();
            if listed {
                let drafts = set.drafts(ends.len() as u64).expect("tokens are drafted");
                set.advance_listed((1 + pause, &ends), drafts, &mut requests, &mut sketch);
            } else {
                for (length, end) in lengths.iter().zip(&ends) {
                    let one = Series { first: *length, slope: 0 };
                    let drafts = set.drafts(1);
                    set.advance(end - length, &one, (1, drafts), &mut requests, &mut sketch);
                    set.forget_late_joiners();
                }
            }
            let read = (set.kv_tokens(), set.blocks_for_next(), set.blocks_for(9), set.step());
            let left: Vec<_> = (0..=last as Slot).map(|slot| {
                set.leave(slot, &mut requests[slot], Phase::Stalled, end);
                let state = &requests[slot];
                (state.computed, state.generated, state.blocks.count(), state.times.max_gap, state.times.last_token)
            }).collect();
            (read, left, format!("{sketch:?}"))
        };
        prop_assert_eq!(taken(true), taken(false));
    }

    #[test]
    fn a_member_leaves_before_the_step_in_which_its_phase_changes(
        numbers in prop::collection::vec(1u32..=5, 1..5), ahead in 0usize..6, output in 60u32..90, reasoning in 0u32..95,
    ) {
        let [mut member] = members(&[(3, output, ahead)], &numbers).try_into().unwrap();
        let (mut set, mut requests) = (empty(&numbers), RequestTable::default());
        join(&mut set, &mut requests, 0, &member, Some(reasoning));
        let changes = [reasoning, reasoning + 1];
        let (mut plain, start) = (0, member.generated());
        while !member.is_done() {
            let before = member.generated();
            member.step(&numbers);
            let yielded = before + 1..=member.generated();
            if changes.iter().any(|token| yielded.contains(token) && *token <= output && *token > start) {
                break;
            }
            plain += 1;
        }
        prop_assert_eq!(set.plain_steps(&requests[0], Some(reasoning)), plain);
    }

    #[test]
    fn one_token_in_turn_is_one_token_a_step(
        period in 1usize..4, pairs in prop::collection::vec((1u32..30, 40u32..60), 1..8), k in 1u64..30, free in 0u64..40,
    ) {
        let periodic = Progress::Periodic(Periodic::new(&vec![1; period], (1, 1)));
        let sets = [Progress::Identity, periodic].map(|progress| {
            let mut set = DecodeSet::new(progress, BlockSize::new(BLOCK, 0), true);
            let mut requests = RequestTable::default();
            for (row, &(prompt, output)) in (0..).zip(&pairs) {
                let member = Naive { prompt, output, taken: 0, computed: prompt, held: prompt };
                join(&mut set, &mut requests, row, &member, None);
            }
            let read = |set: &DecodeSet| {
                let needs = (set.blocks_for_next(), set.blocks_for(k), set.steps_covered(free, k));
                (set.kv_tokens(), set.longest_after(0), needs, set.gained(k), set.steps_to_departure())
            };
            let before = read(&set);
            advance(&mut set, k, &mut requests, &mut Sketch::default());
            (before, read(&set), set.departing())
        });
        prop_assert_eq!(&sets[0], &sets[1]);
    }
}
