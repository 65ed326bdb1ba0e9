//! The requests that yield tokens at every step, kept as one.
//!
//! Each step does the same to each member: as many tokens as its [progress](Progress)
//! says, which is one without speculation. So the set keeps a step counter and, for a
//! member, only what no step changes: its computed tokens less those of the map by then.
//! A step, or a run of a million steps, is an addition. To join or leave takes a constant number of
//! operations, or the logarithm of the set's size where the end lies thousands
//! of steps ahead or the longest context is kept.

mod drafting;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::Part;
use super::super::request::{Member, Phase, RequestState, RequestTable, Slot};
use super::block_needs::BlockNeeds;
use super::cyclic_needs::CyclicNeeds;
use super::endings::Endings;
use super::gaps::Gaps;
use super::milestones::Milestones;
use super::progress::{Cycle, Progress};
use crate::collections::StepWheel;
use crate::hint::rare;
use crate::kv::BlockSize;
use crate::metrics::{Drafts, Sketch};
use crate::series::Series;
use crate::time::Ticks;

/// The decode set of an instance.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DecodeSet {
    /// Steps that the set has taken.
    steps: u64,
    block: BlockSize,
    members: u64,
    kv_tokens: u64,
    progress: Progress,
    needs: Needs,
    /// Members by the step of the set with which they leave it.
    departures: StepWheel,
    /// Where steps yield several tokens: the members that end, by that step.
    endings: Endings,
    milestones: Milestones,
    gaps: Gaps,
    /// Members by place in the period and offset, where the cost model reads the longest context.
    offsets: Option<BTreeMap<(Cycle, i64), u32>>,
}

/// The blocks that coming steps need.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Needs {
    /// Of members that yield one token a step.
    Each(BlockNeeds),
    /// Of members that yield several.
    Cyclic(CyclicNeeds),
}

impl DecodeSet {
    /// An empty set of members that yield as many tokens a step as `progress` says. `keeps_longest`: the cost model reads
    /// the longest context.
    pub(crate) fn new(progress: Progress, block: BlockSize, keeps_longest: bool) -> Self {
        let needs = match &progress {
            Progress::Identity => Needs::Each(BlockNeeds::new(block)),
            Progress::Periodic(numbers) => Needs::Cyclic(CyclicNeeds::new(block, numbers.clone())),
        };
        Self {
            progress,
            steps: 0,
            block,
            members: 0,
            kv_tokens: 0,
            needs,
            departures: StepWheel::default(),
            endings: Endings::default(),
            milestones: Milestones::default(),
            gaps: Gaps::default(),
            offsets: keeps_longest.then(BTreeMap::new),
        }
    }

    /// Number of members.
    pub(crate) fn len(&self) -> u64 {
        self.members
    }

    /// Steps that the set has taken.
    pub(crate) fn step(&self) -> u64 {
        self.steps
    }

    /// Computed tokens over all members.
    pub(crate) fn kv_tokens(&self) -> u64 {
        self.kv_tokens
    }

    /// Computed tokens of a member.
    pub(crate) fn computed(&self, member: &RequestState) -> u32 {
        (member.member.offset + self.tokens(member.cycle) as i64) as u32
    }

    /// Tokens of the map by now, for members at a place of its period.
    fn tokens(&self, cycle: Cycle) -> u64 {
        self.progress.tokens_after(self.steps + u64::from(cycle))
    }

    /// Output tokens of a member.
    pub(crate) fn generated(&self, member: &RequestState) -> u32 {
        self.computed(member) + 1 - member.prompt
    }

    /// Tokens that a step computes of a member.
    pub(crate) fn width(&self) -> u64 {
        self.progress.width()
    }

    /// Tokens that the next `k` steps compute and keep of the members.
    pub(crate) fn gained(&self, k: u64) -> u64 {
        match &self.needs {
            Needs::Each(_) => self.members * k,
            Needs::Cyclic(needs) => needs.gained(k),
        }
    }

    /// New blocks that a member needs at the next step.
    pub(crate) fn needed_blocks(&self, member: &RequestState) -> u64 {
        match self.progress {
            Progress::Identity => u64::from(self.block.rest_of(u64::from(self.computed(member))) == 0),
            Progress::Periodic(_) => self.held_blocks(member, 1) - self.held_blocks(member, 0),
        }
    }

    /// Computed tokens of the longest member once the set has taken `more` steps, where that is kept; else 0.
    pub(crate) fn longest_after(&self, more: u64) -> u64 {
        self.offsets.as_ref().map_or(0, |offsets| self.longest_of(offsets, more))
    }

    #[inline(never)]
    fn longest_of(&self, offsets: &BTreeMap<(Cycle, i64), u32>, more: u64) -> u64 {
        let of = |cycle: Cycle| {
            let members = offsets.range((cycle, i64::MIN)..=(cycle, i64::MAX));
            let tokens = self.progress.tokens_after(self.steps + u64::from(cycle) + more) as i64;
            members.last().map_or(0, |(&(_, offset), _)| (offset + tokens) as u64)
        };
        (0..self.progress.period() as Cycle).map(of).max().unwrap_or(0)
    }

    /// Blocks that the next step needs.
    pub(crate) fn blocks_for_next(&self) -> u64 {
        match &self.needs {
            Needs::Each(needs) => needs.next(),
            Needs::Cyclic(needs) => needs.next(),
        }
    }

    /// Blocks that the next `k` steps need.
    pub(crate) fn blocks_for(&self, k: u64) -> u64 {
        match &self.needs {
            Needs::Each(needs) => needs.over(k, self.members),
            Needs::Cyclic(needs) => needs.over(k),
        }
    }

    /// The most steps, up to `k`, whose blocks `free` covers.
    pub(crate) fn steps_covered(&self, free: u64, k: u64) -> u64 {
        match &self.needs {
            Needs::Each(needs) => needs.steps_covered(free, k, self.members),
            Needs::Cyclic(needs) => needs.steps_covered(free, k),
        }
    }

    /// Steps until the first member leaves the set: one that yields one token a step, when it has yielded its last.
    pub(crate) fn steps_to_departure(&self) -> u64 {
        self.departures.next().saturating_sub(self.steps)
    }

    /// Steps until the first member ends its reasoning.
    pub(crate) fn steps_to_reasoning_end(&self) -> u64 {
        self.milestones.next_reasoning_end().saturating_sub(self.steps)
    }

    /// The step of the set at which a member's phase may change next.
    pub(crate) fn next_milestone(&self) -> u64 {
        self.milestones.next()
    }

    /// Removes and returns the first milestone of the last `k` steps: the member,
    /// which of those steps it was, and the member's output tokens by then.
    pub(crate) fn pop_milestone(&mut self, requests: &RequestTable, k: u64) -> Option<(Slot, u64, u32)> {
        let (step, slot) = self.milestones.pop(self.steps)?;
        let after = self.steps - step;
        let state = &requests[slot];
        // Only members that yield one token a step have milestones.
        let generated = (state.member.offset + step as i64) as u32 + 1 - state.prompt;
        Some((slot, k - after, generated))
    }

    /// A member that is to leave the set now, if there is one.
    pub(crate) fn departing(&self) -> Option<Slot> {
        self.departures.due(self.steps).map(|(_, slot)| slot)
    }

    /// Adds a request that lacks the KV of one token. `reasoning`: its reasoning
    /// tokens, if the trace has them.
    pub(crate) fn join(&mut self, slot: Slot, state: &mut RequestState, reasoning: Option<u32>) {
        debug_assert_eq!(state.lacking(), 1, "Invariant: a member lacks one token");
        let steps = match self.progress {
            Progress::Identity => {
                if let Some(reasoning) = reasoning {
                    rare();
                    self.add_milestones(slot, state, reasoning);
                }
                u64::from(state.output - state.generated)
            }
            Progress::Periodic(_) => self.plain_steps(state, reasoning),
        };
        state.phase = Phase::Decoding;
        // The first token is the prefill's. The others are those of the steps that the request has taken.
        state.cycle = self.progress.cycle(u64::from(state.generated - 1), self.steps);
        let offset = i64::from(state.computed) - self.tokens(state.cycle) as i64;
        state.member = Member { offset, joined: self.gaps.mark() };
        self.members += 1;
        self.kv_tokens += u64::from(state.computed);
        if let Needs::Each(needs) = &mut self.needs {
            needs.add(state.computed);
        } else {
            self.join_cyclic(state, steps);
        }
        self.departures.set(slot, self.steps + steps, self.steps);
        if let Some(offsets) = &mut self.offsets {
            rare();
            *offsets.entry((state.cycle, offset)).or_insert(0) += 1;
        }
    }

    /// Notes when a member that yields one token a step ends its reasoning and starts its answer.
    #[inline(never)]
    fn add_milestones(&mut self, slot: Slot, state: &RequestState, reasoning: u32) {
        let ends = reasoning.checked_sub(state.generated).map(|tokens| self.steps + u64::from(tokens));
        // A request that only reasons finishes in the step in which its reasoning ends.
        let starts = if reasoning < state.output {
            (reasoning + 1).checked_sub(state.generated).map(|tokens| self.steps + u64::from(tokens))
        } else {
            ends.map(|_| u64::MAX)
        };
        self.milestones.add(slot, ends, starts, self.steps);
    }

    /// Notes that a member that has just joined got its latest token before the
    /// end of the set's latest step.
    pub(crate) fn join_late(&mut self, slot: Slot, part: Part) {
        self.gaps.join_late(slot, part);
    }

    /// Members whose first step with the set has not been applied, and why each
    /// runs in it.
    pub(crate) fn late_joiners(&self) -> &[(Slot, Part)] {
        self.gaps.late_joiners()
    }

    /// Makes late joiners members like all others: their first step is applied.
    pub(crate) fn forget_late_joiners(&mut self) {
        self.gaps.forget_late_joiners();
    }

    /// Removes a member and writes its tokens, blocks and gaps back to its state.
    /// `now`: when the set's latest step ended, if it ran in the last step.
    pub(crate) fn leave(&mut self, slot: Slot, state: &mut RequestState, phase: Phase, now: Ticks) {
        let held = self.held_blocks(state, 0);
        if let Needs::Cyclic(_) = self.needs {
            self.leave_cyclic(slot, state);
        }
        self.departures.remove(slot);
        self.milestones.remove(slot);
        let computed = self.computed(state);
        let (cycle, offset) = (state.cycle, state.member.offset);
        if let Needs::Each(needs) = &mut self.needs {
            needs.remove(computed);
        }
        self.members -= 1;
        self.kv_tokens -= u64::from(computed);
        if let Some(offsets) = &mut self.offsets
            && let Some(members) = offsets.get_mut(&(cycle, offset))
        {
            rare();
            *members -= 1;
            if *members == 0 {
                offsets.remove(&(cycle, offset));
            }
        }
        state.phase = phase;
        state.blocks.set_count(held);
        // KV of drafts past the last token is in blocks of the request, and is not its KV.
        state.generated = (computed + 1 - state.prompt).min(state.output);
        let last = u32::from(self.progress.commits_last());
        state.computed = computed.min(state.prompt + state.generated - 1 + last);
        let (longest, last_token) = self.gaps.leave(state.member.joined);
        state.times.last_token = last_token.unwrap_or(now);
        state.times.max_gap = state.times.max_gap.max(longest);
        if self.members == 0 {
            self.gaps.clear();
        }
    }

    /// Leaves a step out that starts at `now`, when the set's latest step ended.
    pub(crate) fn pause(&mut self, now: Ticks) {
        self.gaps.pause(self.members, now);
    }

    /// Takes `k` steps, the first of which starts at `start` and whose lengths are
    /// `series`, with their [drafts](Self::drafts).
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of applying a run, the engine's innermost work")]
    pub(crate) fn advance(
        &mut self,
        start: Ticks,
        series: &Series,
        (k, drafts): (u64, Option<Drafts>),
        requests: &mut RequestTable,
        sketch: &mut Sketch,
    ) {
        self.gaps.advance(start, series, k, self.members, requests, sketch);
        match &mut self.needs {
            Needs::Each(needs) => {
                needs.advance(k);
                self.kv_tokens += self.members * k;
            }
            Needs::Cyclic(_) => return self.take_cyclic(k, drafts.unwrap_or_default(), sketch),
        }
        self.steps += k;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A set with one request a pair of (prompt, output) tokens, after its prefill.
    fn set(pairs: &[(u32, u32)]) -> (DecodeSet, RequestTable) {
        let (mut set, mut requests) =
            (DecodeSet::new(Progress::Identity, BlockSize::new(4, 0), true), RequestTable::default());
        for (row, &(prompt, output)) in (0..).zip(pairs) {
            let slot = requests.insert(row, prompt, output);
            let state = &mut requests[slot];
            (state.computed, state.generated) = (prompt, 1);
            set.join(slot, state, None);
        }
        (set, requests)
    }

    proptest! {
        #[test]
        fn a_run_of_steps_equals_the_steps_one_by_one(
            pairs in prop::collection::vec((1u32..30, 40u32..60), 1..8), k in 1u64..20,
            first in 1u64..50, slope in 0u64..4, pause in 0u64..9, joins in any::<bool>(),
        ) {
            let series = Series { first, slope };
            let ran = |leaps: bool| {
                let (mut set, mut requests) = set(&pairs);
                let mut sketch = Sketch::default();
                set.advance(0, &Series { first: 7, slope: 0 }, (1, None), &mut requests, &mut sketch);
                if pause > 0 {
                    set.pause(7);
                }
                if joins {
                    let slot = requests.insert(99, 5, 50);
                    let state = &mut requests[slot];
                    (state.computed, state.generated, state.times.last_token) = (6, 2, 3);
                    set.join(slot, state, None);
                    set.join_late(slot, Part::MigratedIn);
                }
                let start = 7 + pause;
                if leaps {
                    set.advance(start, &series, (k, None), &mut requests, &mut sketch);
                } else {
                    let mut now = start;
                    for step in 0..k {
                        let one = Series { first: series.at(step), slope: 0 };
                        set.advance(now, &one, (1, None), &mut requests, &mut sketch);
                        set.forget_late_joiners();
                        now += one.first;
                    }
                }
                set.forget_late_joiners();
                let (kv, longest, needs) = (set.kv_tokens(), set.longest_after(0), set.blocks_for(9));
                let end = start + series.total(k) as Ticks;
                let slots = 0..(pairs.len() + usize::from(joins)) as Slot;
                let left: Vec<_> = slots.map(|slot| {
                    set.leave(slot, &mut requests[slot], Phase::Stalled, end);
                    let state = &requests[slot];
                    (state.computed, state.generated, state.times.max_gap, state.times.last_token)
                }).collect();
                (kv, longest, needs, left, set.len(), format!("{sketch:?}"))
            };
            prop_assert_eq!(ran(true), ran(false));
        }
    }

    #[test]
    fn the_next_milestone_is_the_end_of_a_members_reasoning_and_then_the_start_of_its_answer() {
        let (mut set, mut requests) = set(&[]);
        let slot = requests.insert(0, 3, 50);
        (requests[slot].computed, requests[slot].generated) = (3, 1);
        assert_eq!((set.next_milestone(), set.steps_to_reasoning_end()), (u64::MAX, u64::MAX));
        set.join(slot, &mut requests[slot], Some(8));
        assert_eq!((set.next_milestone(), set.steps_to_reasoning_end()), (7, 7));
        set.advance(0, &Series { first: 1, slope: 0 }, (5, None), &mut requests, &mut Sketch::default());
        assert_eq!((set.next_milestone(), set.steps_to_reasoning_end()), (7, 2));
    }

    #[test]
    fn the_longest_context_is_one_of_the_members_that_are_left() {
        let (mut set, mut requests) = set(&[(9, 50), (9, 50), (3, 50)]);
        let left = [0, 1, 2].map(|slot| {
            let longest = set.longest_after(0);
            set.leave(slot, &mut requests[slot], Phase::Stalled, 0);
            longest
        });
        assert_eq!((left, set.longest_after(0)), ([9, 9, 3], 0));
    }

    #[test]
    fn the_member_with_the_fewest_tokens_left_completes_first() {
        let (mut set, mut requests) = set(&[(3, 5), (9, 4)]);
        assert_eq!(set.steps_to_departure(), 3);
        set.advance(0, &Series { first: 1, slope: 0 }, (3, None), &mut requests, &mut Sketch::default());
        assert_eq!(set.departing(), Some(1));
        set.leave(1, &mut requests[1], Phase::Stalled, 3);
        assert_eq!((requests[1].generated, set.departing(), set.steps_to_departure()), (4, None, 1));
    }
}
