//! The requests that yield one token at every step, kept as one.
//!
//! Each step does the same to each member: one more token in the cache, one
//! token yielded. So the set keeps a step counter and, for a member, only what
//! no step changes: its computed tokens less the counter. A step, or a run of a
//! million steps, is an addition. To join or leave takes a constant number of
//! operations, or the logarithm of the set's size where the end lies thousands
//! of steps ahead or the longest context is kept.

use std::collections::BTreeMap;

use super::super::Part;
use super::super::request::{Member, Phase, RequestState, RequestTable, Slot};
use super::block_needs::BlockNeeds;
use super::gaps::Gaps;
use super::milestones::Milestones;
use crate::collections::StepWheel;
use crate::hint::rare;
use crate::kv::BlockSize;
use crate::metrics::Sketch;
use crate::series::Series;
use crate::time::Ticks;

/// The decode set of an instance.
#[derive(Debug, Clone)]
pub(crate) struct DecodeSet {
    /// Steps that the set has taken.
    steps: u64,
    block: BlockSize,
    members: u64,
    kv_tokens: u64,
    needs: BlockNeeds,
    /// Members by the step of the set that yields their last token.
    completions: StepWheel,
    milestones: Milestones,
    gaps: Gaps,
    /// Members by offset, where the cost model reads the longest context.
    offsets: Option<BTreeMap<i64, u32>>,
}

impl DecodeSet {
    pub(crate) fn new(block: BlockSize, keeps_longest: bool) -> Self {
        Self {
            steps: 0,
            block,
            members: 0,
            kv_tokens: 0,
            needs: BlockNeeds::new(block),
            completions: StepWheel::default(),
            milestones: Milestones::default(),
            gaps: Gaps::default(),
            offsets: keeps_longest.then(BTreeMap::new),
        }
    }

    /// Number of members.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.members
    }

    /// Steps that the set has taken.
    #[inline]
    pub(crate) fn step(&self) -> u64 {
        self.steps
    }

    /// Computed tokens over all members.
    #[inline]
    pub(crate) fn kv_tokens(&self) -> u64 {
        self.kv_tokens
    }

    /// Computed tokens of a member.
    #[inline]
    pub(crate) fn computed(&self, member: &RequestState) -> u32 {
        (member.member.offset + self.steps as i64) as u32
    }

    /// Output tokens of a member.
    #[inline]
    pub(crate) fn generated(&self, member: &RequestState) -> u32 {
        self.computed(member) + 1 - member.prompt
    }

    /// Whether a member needs a new block at the next step.
    #[inline]
    pub(crate) fn needs_block(&self, member: &RequestState) -> bool {
        self.block.rest_of(u64::from(self.computed(member))) == 0
    }

    /// Whether the longest context is kept.
    #[inline]
    pub(crate) fn keeps_longest(&self) -> bool {
        self.offsets.is_some()
    }

    /// Computed tokens of the longest member, where that is kept; else 0.
    pub(crate) fn longest(&self) -> u64 {
        self.offsets.as_ref().map_or(0, |offsets| self.longest_of(offsets))
    }

    #[cold]
    #[inline(never)]
    fn longest_of(&self, offsets: &BTreeMap<i64, u32>) -> u64 {
        offsets.last_key_value().map_or(0, |(offset, _)| (offset + self.steps as i64) as u64)
    }

    /// Blocks that the next step needs.
    #[inline]
    pub(crate) fn blocks_for_next(&self) -> u64 {
        self.needs.next()
    }

    /// Blocks that the next `k` steps need.
    #[inline]
    pub(crate) fn blocks_for(&self, k: u64) -> u64 {
        self.needs.over(k, self.members)
    }

    /// The most steps, up to `k`, whose blocks `free` covers.
    #[inline]
    pub(crate) fn steps_covered(&self, free: u64, k: u64) -> u64 {
        self.needs.steps_covered(free, k, self.members)
    }

    /// Steps until the first member yields its last token.
    #[inline]
    pub(crate) fn steps_to_completion(&self) -> u64 {
        self.completions.next().saturating_sub(self.steps)
    }

    /// Steps until the first member ends its reasoning.
    #[inline]
    pub(crate) fn steps_to_reasoning_end(&self) -> u64 {
        self.milestones.next_reasoning_end().saturating_sub(self.steps)
    }

    /// The step of the set at which a member's phase may change next.
    #[inline]
    pub(crate) fn next_milestone(&self) -> u64 {
        self.milestones.next()
    }

    /// Removes and returns the first milestone of the last `k` steps: the member,
    /// which of those steps it was, and the member's output tokens by then.
    #[inline]
    pub(crate) fn pop_milestone(&mut self, requests: &RequestTable, k: u64) -> Option<(Slot, u64, u32)> {
        let (step, slot) = self.milestones.pop(self.steps)?;
        let after = self.steps - step;
        Some((slot, k - after, self.generated(&requests[slot]) - after as u32))
    }

    /// A member that has yielded its last token, if there is one.
    #[inline]
    pub(crate) fn completed(&self) -> Option<Slot> {
        self.completions.due(self.steps).map(|(_, slot)| slot)
    }

    /// Adds a request that lacks the KV of one token. `reasoning`: its reasoning
    /// tokens, if the trace has them.
    pub(crate) fn join(&mut self, slot: Slot, state: &mut RequestState, reasoning: Option<u32>) {
        debug_assert_eq!(state.lacking(), 1, "Invariant: a member lacks one token");
        if let Some(reasoning) = reasoning {
            rare();
            self.milestones.add(slot, state.generated, reasoning, self.steps);
        }
        state.phase = Phase::Decoding;
        let offset = i64::from(state.computed) - self.steps as i64;
        state.member = Member { offset, joined: self.gaps.mark() };
        self.members += 1;
        self.kv_tokens += u64::from(state.computed);
        self.needs.add(state.computed);
        self.completions.set(slot, self.steps + u64::from(state.output - state.generated), self.steps);
        if let Some(offsets) = &mut self.offsets {
            rare();
            *offsets.entry(offset).or_insert(0) += 1;
        }
    }

    /// Notes that a member that has just joined got its latest token before the
    /// end of the set's latest step.
    pub(crate) fn join_late(&mut self, slot: Slot, part: Part) {
        self.gaps.join_late(slot, part);
    }

    /// Members whose first step with the set has not been booked, and why each
    /// runs in it.
    #[inline]
    pub(crate) fn late_joiners(&self) -> &[(Slot, Part)] {
        self.gaps.late_joiners()
    }

    /// Makes late joiners members like all others: their first step is booked.
    #[inline]
    pub(crate) fn forget_late_joiners(&mut self) {
        self.gaps.forget_late_joiners();
    }

    /// Removes a member and writes its tokens, blocks and gaps back to its state.
    /// `now`: when the set's latest step ended, if it ran in the last step.
    pub(crate) fn leave(&mut self, slot: Slot, state: &mut RequestState, phase: Phase, now: Ticks) {
        self.completions.remove(slot);
        self.milestones.remove(slot);
        let computed = self.computed(state);
        self.needs.remove(computed);
        self.members -= 1;
        self.kv_tokens -= u64::from(computed);
        if let Some(offsets) = &mut self.offsets
            && let Some(members) = offsets.get_mut(&state.member.offset)
        {
            rare();
            *members -= 1;
            if *members == 0 {
                offsets.remove(&state.member.offset);
            }
        }
        state.phase = phase;
        state.computed = computed;
        state.blocks.set_count(self.block.held_with(u64::from(computed)));
        state.generated = computed + 1 - state.prompt;
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
    /// `series`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "part of booking a run, the engine's innermost work")]
    pub(crate) fn advance(
        &mut self,
        start: Ticks,
        series: &Series,
        k: u64,
        requests: &mut RequestTable,
        sketch: &mut Sketch,
    ) {
        self.gaps.advance(start, series, k, self.members, requests, sketch);
        self.steps += k;
        self.needs.advance(k);
        self.kv_tokens += self.members * k;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A set with one request a pair of (prompt, output) tokens, after its prefill.
    fn set(pairs: &[(u32, u32)]) -> (DecodeSet, RequestTable) {
        let (mut set, mut requests) = (DecodeSet::new(BlockSize::new(4, 0), true), RequestTable::default());
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
                set.advance(0, &Series { first: 7, slope: 0 }, 1, &mut requests, &mut sketch);
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
                    set.advance(start, &series, k, &mut requests, &mut sketch);
                } else {
                    let mut now = start;
                    for step in 0..k {
                        let one = Series { first: series.at(step), slope: 0 };
                        set.advance(now, &one, 1, &mut requests, &mut sketch);
                        set.forget_late_joiners();
                        now += one.first;
                    }
                }
                set.forget_late_joiners();
                let (kv, longest, needs) = (set.kv_tokens(), set.longest(), set.blocks_for(9));
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
    fn the_member_with_the_fewest_tokens_left_completes_first() {
        let (mut set, mut requests) = set(&[(3, 5), (9, 4)]);
        assert_eq!(set.steps_to_completion(), 3);
        set.advance(0, &Series { first: 1, slope: 0 }, 3, &mut requests, &mut Sketch::default());
        assert_eq!(set.completed(), Some(1));
        set.leave(1, &mut requests[1], Phase::Stalled, 3);
        assert_eq!((requests[1].generated, set.completed(), set.steps_to_completion()), (4, None, 1));
    }
}
