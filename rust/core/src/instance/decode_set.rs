//! The requests that yield one token at every step, kept as one thing.
//!
//! What happens to each member at each step is the same: one token more in the
//! cache, one token out. So the set keeps a step counter and, for a member,
//! only what does not change: the difference between its context and the
//! counter. A step, or a run of a million, is then an addition, and joining or
//! leaving costs the logarithm of the set's size.
//!
//! Where a step runs without the set (only prefills), its members' next gap is
//! longer than that of those who join meanwhile. Such members are kept as
//! cohorts until the set runs again. Who comes back to it with its memory, from
//! the CPU's or from another instance, has a first gap of its own, and is kept
//! as a newcomer until that step has ended.
//!
//! The counts by `offset mod block size` say how many members need a new block
//! at any coming step, which bounds a leap exactly by the blocks there are.

use std::collections::BTreeMap;

use super::Part;
use super::active::{Active, ActiveTable, Phase, Slot};
use crate::collections::{StepWheel, SuffixMaxima};
use crate::metrics::Sketch;
use crate::series::Series;
use crate::time::Ticks;

#[derive(Debug, Clone)]
pub(crate) struct DecodeSet {
    /// Steps that the set has taken.
    steps: u64,
    /// `steps mod block_tokens`.
    phase: u32,
    block_tokens: u32,
    members: u64,
    kv_tokens: u64,
    /// Members by `offset mod block_tokens`.
    residues: Vec<u32>,
    /// Members by the step counter of their last token.
    due: StepWheel,
    /// Members that reason, by that of their last token of reasoning.
    turns: StepWheel,
    /// Those of them who have come so far, with that of their answer's first
    /// token, which is the next: never many.
    starts: Vec<(u64, Slot)>,
    gaps: SuffixMaxima<Ticks>,
    /// Grows whenever what a newcomer sees differs from what members saw.
    mark: u64,
    /// Members whose latest token came before the end of the last step.
    cohorts: Vec<Cohort>,
    /// Members whose first step with the set has not ended.
    newcomers: Vec<(Slot, Part)>,
    /// Members by offset, where the cost asks for the longest context.
    offsets: Option<BTreeMap<i64, u32>>,
}

/// Members who joined by `mark` and got their latest token at `last_token`.
#[derive(Debug, Clone, Copy)]
struct Cohort {
    mark: u64,
    last_token: Ticks,
    members: u64,
}

impl DecodeSet {
    pub(crate) fn new(block_tokens: u32, keeps_longest: bool) -> Self {
        Self {
            steps: 0,
            phase: 0,
            block_tokens,
            members: 0,
            kv_tokens: 0,
            residues: vec![0; block_tokens as usize],
            due: StepWheel::default(),
            turns: StepWheel::default(),
            starts: Vec::new(),
            gaps: SuffixMaxima::default(),
            mark: 0,
            cohorts: Vec::new(),
            newcomers: Vec::new(),
            offsets: keeps_longest.then(BTreeMap::new),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.members
    }

    /// Steps that the set has taken.
    #[inline]
    pub(crate) fn step(&self) -> u64 {
        self.steps
    }

    /// The step at which a member's phase may change next.
    #[inline]
    pub(crate) fn next_milestone(&self) -> u64 {
        self.turns.next().min(self.next_start().map_or(u64::MAX, |(step, _)| step))
    }

    #[inline]
    fn next_start(&self) -> Option<(u64, Slot)> {
        self.starts.iter().min().copied()
    }

    /// Tokens in the cache over all members.
    #[inline]
    pub(crate) fn kv_tokens(&self) -> u64 {
        self.kv_tokens
    }

    /// Where requests are counted that have `computed` tokens by now.
    #[inline]
    fn residue(&self, computed: u32) -> usize {
        let within = computed % self.block_tokens;
        let residue = if within >= self.phase { within } else { within + self.block_tokens };
        (residue - self.phase) as usize
    }

    /// Tokens that a member has yielded.
    #[inline]
    pub(crate) fn generated(&self, member: &Active) -> u32 {
        self.computed(member) + 1 - member.prompt
    }

    /// Remembers when a member that has just joined ends its reasoning, of so
    /// many tokens, and begins its answer.
    pub(crate) fn mark(&mut self, slot: Slot, active: &Active, reasoning: u32) {
        if reasoning > active.generated {
            self.turns.set(slot, self.steps + u64::from(reasoning - active.generated), self.steps);
        } else if reasoning == active.generated {
            self.starts.push((self.steps + 1, slot));
        }
    }

    /// A member that ended its reasoning or began its answer in the last `k`
    /// steps, how many of those it took to get there, and the tokens that it had
    /// yielded by then.
    #[inline]
    pub(crate) fn pop_milestone(&mut self, table: &ActiveTable, k: u64) -> Option<(Slot, u64, u32)> {
        let none = self.turns.next() > self.steps && self.starts.is_empty();
        if none { None } else { self.take_milestone(table, k) }
    }

    #[inline(never)]
    fn take_milestone(&mut self, table: &ActiveTable, k: u64) -> Option<(Slot, u64, u32)> {
        let turn = self.turns.due(self.steps);
        let start = self.next_start().filter(|(step, _)| *step <= self.steps);
        let (step, slot) = match (turn, start) {
            (Some(turn), Some(start)) => turn.min(start),
            (turn, start) => turn.or(start)?,
        };
        if turn == Some((step, slot)) {
            self.turns.remove(slot);
            self.starts.push((step + 1, slot));
        } else {
            self.starts.retain(|&(_, other)| other != slot);
        }
        let after = self.steps - step;
        Some((slot, k - after, self.generated(&table[slot]) - after as u32))
    }

    /// Steps until a member ends its reasoning.
    #[inline]
    pub(crate) fn steps_to_turn(&self) -> u64 {
        self.turns.next().saturating_sub(self.steps)
    }

    /// Whether the longest context is kept.
    #[inline]
    pub(crate) fn keeps_longest(&self) -> bool {
        self.offsets.is_some()
    }

    /// The longest context of a member, where that is kept; else 0.
    pub(crate) fn longest(&self) -> u64 {
        let last = self.offsets.as_ref().and_then(BTreeMap::last_key_value);
        last.map_or(0, |(offset, _)| (offset + self.steps as i64) as u64)
    }

    /// Tokens that a member has in the cache.
    #[inline]
    pub(crate) fn computed(&self, member: &Active) -> u32 {
        (member.offset + self.steps as i64) as u32
    }

    /// Whether a member needs a new block at the coming step.
    #[inline]
    pub(crate) fn needs_block(&self, member: &Active) -> bool {
        self.computed(member).is_multiple_of(self.block_tokens)
    }

    /// Takes in a request whose next step is a plain decode.
    pub(crate) fn join(&mut self, slot: Slot, active: &mut Active) {
        debug_assert_eq!(active.computed + 1, active.target(), "Invariant: one token is missing");
        active.phase = Phase::Decoding;
        active.offset = i64::from(active.computed) - self.steps as i64;
        active.joined = self.mark;
        self.members += 1;
        self.kv_tokens += u64::from(active.computed);
        let residue = self.residue(active.computed);
        self.residues[residue] += 1;
        self.due.set(slot, self.steps + u64::from(active.output - active.generated), self.steps);
        if let Some(offsets) = &mut self.offsets {
            *offsets.entry(active.offset).or_insert(0) += 1;
        }
    }

    /// Says of somebody who has just joined that its latest token came before
    /// the end of the set's latest step.
    pub(crate) fn welcome(&mut self, slot: Slot, part: Part) {
        self.newcomers.push((slot, part));
    }

    /// Members whose first step with the set has not been booked, and how they
    /// came to run in it.
    pub(crate) fn newcomers(&self) -> &[(Slot, Part)] {
        &self.newcomers
    }

    /// Those are members like all others whose first step has been booked.
    pub(crate) fn forget_newcomers(&mut self) {
        self.newcomers.clear();
    }

    /// Lets a member go, with what it has by now written back to it. `now` is
    /// when the set's latest step ended, if it ran in the last step.
    pub(crate) fn leave(&mut self, slot: Slot, active: &mut Active, phase: Phase, now: Ticks) {
        self.due.remove(slot);
        self.turns.remove(slot);
        if !self.starts.is_empty() {
            self.starts.retain(|&(_, other)| other != slot);
        }
        let computed = self.computed(active);
        let residue = self.residue(computed);
        self.residues[residue] -= 1;
        self.members -= 1;
        self.kv_tokens -= u64::from(computed);
        if let Some(offsets) = &mut self.offsets
            && let Some(members) = offsets.get_mut(&active.offset)
        {
            *members -= 1;
            if *members == 0 {
                offsets.remove(&active.offset);
            }
        }
        active.phase = phase;
        active.computed = computed;
        active.count = u64::from(computed.div_ceil(self.block_tokens));
        active.generated = computed + 1 - active.prompt;
        active.last_token = now;
        active.max_gap = active.max_gap.max(self.gaps.since(active.joined).unwrap_or(0));
        if let Some(cohort) = self.cohorts.iter_mut().find(|cohort| active.joined <= cohort.mark) {
            cohort.members -= 1;
            active.last_token = cohort.last_token;
        }
        if self.members == 0 {
            self.gaps.clear();
            self.cohorts.clear();
            self.newcomers.clear();
        }
    }

    /// Sits a step out that starts at `now`, when the latest one ended.
    pub(crate) fn pause(&mut self, now: Ticks) {
        let paused: u64 = self.cohorts.iter().map(|cohort| cohort.members).sum();
        if self.members > paused {
            self.cohorts.push(Cohort { mark: self.mark, last_token: now, members: self.members - paused });
            self.mark += 1;
        }
    }

    /// Where those are counted who need a block at the next step. Whoever needs
    /// one a step later stands one place lower, and the places form a ring.
    #[inline]
    fn next_needers(&self) -> usize {
        if self.phase == 0 { 0 } else { (self.block_tokens - self.phase) as usize }
    }

    /// Blocks that the next step needs.
    #[inline]
    pub(crate) fn blocks_for_next(&self) -> u64 {
        u64::from(self.residues[self.next_needers()])
    }

    /// Blocks that the next `k` steps need.
    pub(crate) fn blocks_for(&self, k: u64) -> u64 {
        let block = u64::from(self.block_tokens);
        let (whole, rest) = (k / block, (k % block) as u32);
        // All are looked at, as how many count is hard to foresee.
        let (top, len) = (self.next_needers() as u32, self.block_tokens);
        let mut needed = 0;
        for (place, &members) in (0_u32..).zip(&self.residues) {
            let steps_ahead = top.wrapping_sub(place);
            let steps_ahead = if place > top { steps_ahead.wrapping_add(len) } else { steps_ahead };
            needed += if steps_ahead < rest { members } else { 0 };
        }
        whole * self.members + u64::from(needed)
    }

    /// The most steps, up to `k`, whose blocks `free` covers.
    pub(crate) fn steps_covered(&self, free: u64, k: u64) -> u64 {
        let block = u64::from(self.block_tokens);
        // Nobody needs more than one block in as many steps as a block has tokens.
        if k <= block && self.members <= free || k.div_ceil(block).saturating_mul(self.members) <= free {
            return k;
        }
        let mut left = free % self.members;
        let mut steps = free / self.members * block;
        let top = self.next_needers() + 1;
        for &needs in self.residues[..top].iter().rev().chain(self.residues[top..].iter().rev()) {
            if u64::from(needs) > left {
                break;
            }
            left -= u64::from(needs);
            steps += 1;
        }
        steps.min(k)
    }

    /// Steps until the first member yields its last token.
    #[inline]
    pub(crate) fn steps_to_completion(&self) -> u64 {
        self.due.next().saturating_sub(self.steps)
    }

    /// Takes `k` steps as long as `series` says, the first of which starts at
    /// `start`.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "it is what a step or run is booked for")]
    pub(crate) fn advance(
        &mut self,
        start: Ticks,
        series: &Series,
        k: u64,
        table: &mut ActiveTable,
        sketch: &mut Sketch,
    ) {
        if self.cohorts.is_empty() && self.newcomers.is_empty() {
            sketch.add_series(self.members, series, k);
        } else {
            self.resume(start, series, k, table, sketch);
        }
        if k > 1 || self.newcomers.is_empty() {
            self.mark += 1;
            self.gaps.push(self.mark, series.at(k - 1));
        }
        self.steps += k;
        self.phase = ((u64::from(self.phase) + k) % u64::from(self.block_tokens)) as u32;
        self.kv_tokens += self.members * k;
    }

    /// Counts the gaps of a run whose first step ends a pause for some, or is
    /// the first that they take with the set.
    #[inline(never)]
    fn resume(
        &mut self,
        start: Ticks,
        series: &Series,
        k: u64,
        table: &mut ActiveTable,
        sketch: &mut Sketch,
    ) {
        let end = start + series.first;
        let mut paused = 0;
        for cohort in self.cohorts.drain(..).filter(|cohort| cohort.members > 0) {
            let gap = end - cohort.last_token;
            sketch.add(gap, cohort.members);
            // Only who joined by the cohort's mark had this gap.
            self.gaps.push(cohort.mark + 1, gap);
            paused += cohort.members;
        }
        sketch.add(series.first, self.members - paused - self.newcomers.len() as u64);
        if !self.newcomers.is_empty() {
            // The others' gap ends here, where newcomers begin to share theirs.
            self.mark += 1;
            self.gaps.push(self.mark, series.first);
        }
        for &(slot, _) in &self.newcomers {
            let active = &mut table[slot];
            let gap = end - active.last_token;
            sketch.add(gap, 1);
            active.max_gap = active.max_gap.max(gap);
            active.joined = self.mark;
        }
        if k > 1 {
            let rest = Series { first: series.at(1), slope: series.slope };
            sketch.add_series(self.members, &rest, k - 1);
        }
    }

    /// A member that has yielded its last token, if one has.
    #[inline]
    pub(crate) fn complete(&self) -> Option<Slot> {
        self.due.due(self.steps).map(|(_, slot)| slot)
    }
}
