//! Members whose steps verify drafts, and yield several tokens.

use super::super::progress::Progress;
use super::{DecodeSet, Needs};
use crate::instance::request::{RequestState, RequestTable, Slot};
use crate::metrics::{Drafts, Sketch};
use crate::time::Ticks;

impl DecodeSet {
    /// Tokens that a member yields in the next step.
    pub(crate) fn next_yield(&self, member: &RequestState) -> u32 {
        let step = self.steps + u64::from(member.cycle);
        (self.progress.tokens_after(step + 1) - self.progress.tokens_after(step)) as u32
    }

    /// The drafts of the members that the next `k` steps verify, where they yield several tokens. No member ends before the
    /// last of them.
    pub(crate) fn drafts(&self, k: u64) -> Option<Drafts> {
        let Needs::Cyclic(needs) = &self.needs else { return None };
        let verifications = self.members * k;
        let width = self.width() - 1;
        let ending = self.endings.at(self.steps + k);
        Some(Drafts {
            verifications,
            proposed: (verifications - ending.members) * width,
            computed: verifications * width,
            accepted: needs.gained(k) - verifications,
            trimmed: ending.surplus,
        })
    }

    /// Tokens that each of the next steps computes and keeps of the members, where they yield several tokens.
    pub(crate) fn gains(&self) -> impl Iterator<Item = u64> {
        match &self.needs {
            Needs::Each(_) => None,
            Needs::Cyclic(needs) => Some(needs.gains()),
        }
        .into_iter()
        .flatten()
    }

    /// Takes steps that end at `ends`, the first of which starts at `start`, with their drafts.
    pub(crate) fn advance_listed(
        &mut self,
        (start, ends): (Ticks, &[Ticks]),
        drafts: Drafts,
        requests: &mut RequestTable,
        sketch: &mut Sketch,
    ) {
        self.gaps.advance_listed(start, ends, self.members, requests, sketch);
        self.take_cyclic(ends.len() as u64, drafts, sketch);
    }

    /// Counts the tokens and blocks of `k` steps with these drafts.
    pub(super) fn take_cyclic(&mut self, k: u64, drafts: Drafts, sketch: &mut Sketch) {
        let Needs::Cyclic(needs) = &mut self.needs else { return };
        // The tokens of a member after the first of a step come at the same moment.
        sketch.add(0, drafts.accepted - drafts.trimmed);
        self.kv_tokens += self.members * k + drafts.accepted;
        self.steps += k;
        needs.advance(k);
    }

    /// Blocks of a member once it has taken `more` steps.
    pub(crate) fn held_blocks(&self, member: &RequestState, more: u64) -> u64 {
        let owed = match &self.needs {
            Needs::Cyclic(needs) if more == 0 => needs.owed(member.request),
            _ => 0,
        };
        let held = self.progress.held_after(self.steps + u64::from(member.cycle) + more);
        self.block.held_with((member.member.offset + held) as u64) - owed
    }

    /// Blocks that a member holds that has `computed` tokens, by finished steps. `in_step`: whether its next step runs.
    pub(crate) fn seen_blocks(&self, member: &RequestState, computed: u32, in_step: bool) -> u64 {
        match self.progress {
            Progress::Identity => self.block.held_with(u64::from(computed + u32::from(in_step))),
            Progress::Periodic(_) => self.held_blocks(member, u64::from(in_step)),
        }
    }

    /// Blocks that a request would hold as a member whose steps yield several tokens, after one of them; `None` if it would
    /// not yield these in turn, as a step has yielded fewer.
    pub(crate) fn blocks_ahead(&self, state: &RequestState) -> Option<u64> {
        let Progress::Periodic(numbers) = &self.progress else { return None };
        let place = numbers.place(u64::from(state.generated - 1))?;
        let held = i64::from(state.computed) + numbers.ahead(place);
        Some(self.block.held_with(held as u64))
    }

    /// Steps that a request may take as a member whose steps yield several tokens: not the one that yields the last token of
    /// its reasoning or the first one of its answer, as there may be others after these.
    pub(crate) fn plain_steps(&self, state: &RequestState, reasoning: Option<u32>) -> u64 {
        let yielded = u64::from(state.generated - 1);
        let steps_to = |token: u32| {
            let tokens = token.checked_sub(state.generated).filter(|&tokens| tokens > 0)?;
            Some(self.progress.steps_for(yielded, u64::from(tokens)))
        };
        let phases = [reasoning, reasoning.map(|reasoning| reasoning + 1)];
        let before = phases.into_iter().flatten().filter(|&token| token <= state.output).filter_map(steps_to);
        let ends = steps_to(state.output).unwrap_or(0);
        before.map(|steps| steps - 1).fold(ends, u64::min)
    }

    /// Counts the blocks of a member whose steps yield several tokens, and when it ends if it leaves after `steps` steps.
    #[inline(never)]
    pub(super) fn join_cyclic(&mut self, state: &RequestState, steps: u64) {
        if let Some(surplus) = self.surplus_after(state, steps) {
            self.endings.add(self.steps + steps, surplus);
        }
        let (held, needed) = (self.held_blocks(state, 0), self.held_blocks(state, 1));
        let Needs::Cyclic(needs) = &mut self.needs else { return };
        needs.join(state.request, held - state.blocks.count());
        needs.add(state.cycle, state.member.offset, needed - state.blocks.count());
    }

    /// Forgets what [`Self::join_cyclic`] has counted.
    #[inline(never)]
    pub(super) fn leave_cyclic(&mut self, slot: Slot, state: &RequestState) {
        if let Some(step) = self.departures.step(slot)
            && let Some(surplus) = self.surplus_after(state, step - self.steps)
        {
            self.endings.remove(step, surplus);
        }
        let needed = self.needed_blocks(state);
        if let Needs::Cyclic(needs) = &mut self.needs {
            needs.remove(state.request, (state.cycle, state.member.offset), needed);
        }
    }

    /// Tokens past its last one that a member's `steps`th step from now accepts; `None` if it is not the one that yields that.
    fn surplus_after(&self, member: &RequestState, steps: u64) -> Option<u64> {
        let computed = self.progress.tokens_after(self.steps + u64::from(member.cycle) + steps) as i64;
        let generated = member.member.offset + computed + 1 - i64::from(member.prompt);
        u64::try_from(generated - i64::from(member.output)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::progress::Periodic;
    use super::*;
    use crate::kv::BlockSize;

    #[test]
    fn a_request_joins_with_the_blocks_that_its_latest_step_had() {
        // Steps that yield two and three tokens in turn, with blocks for eight.
        let progress = Progress::Periodic(Periodic::new(&[2, 3], (6, 8)));
        let set = DecodeSet::new(progress, BlockSize::new(4, 0), false);
        let mut requests = RequestTable::default();
        let slot = requests.insert(0, 10, 50);
        let mut blocks = |generated: u32| {
            let state = &mut requests[slot];
            (state.generated, state.computed) = (generated, 10 + generated - 1);
            (set.blocks_ahead(state), set.plain_steps(state, Some(9)))
        };
        // After two tokens of a step of eight slots six are ahead of 12 computed ones; after three, five of 15.
        assert_eq!([3, 6].map(&mut blocks).map(|(ahead, _)| ahead), [Some(18_u64.div_ceil(4)), Some(5)]);
        assert_eq!(blocks(5).0, None, "no step in turn yields the fourth token as its last");
        // The step that yields the ninth token, which is the last of the reasoning, is taken outside the set.
        assert_eq!([3, 6].map(&mut blocks).map(|(_, steps)| steps), [2, 1]);
    }
}
