//! Accumulators: numbers by group of an instance's requests, as of the last finished step.
//!
//! A charge is a whole number of units, so that the tokens of many steps can be charged at once: the number is the same
//! as after one charge a step. Only a number that falls by half is a double, and is computed step by step
//! ([`Total`]).

mod total;

use std::collections::BTreeMap;

use super::fact::{Fact, Steps, Subject};
use crate::collections::Column;
use crate::config::{self, Charged, Grouping, Lift, MOST_ACCUMULATORS};
use crate::instance::request::Slot;
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};
use total::Total;

/// The group of a request in each accumulator.
pub(crate) type Groups = [u32; MOST_ACCUMULATORS];

/// An accumulator, and a group of it.
pub(crate) type Member = (u32, u32);

/// The accumulators of one instance.
#[derive(Debug)]
pub(crate) struct Accumulators {
    each: Vec<Accumulator>,
    /// By slot: the groups of its request.
    groups: Vec<Groups>,
    /// Groups whose number has changed since that was asked for.
    changed: Vec<Member>,
    /// The latest moment that they were told of.
    now: Ticks,
}

crate::checkpoint::checkpointed!(Accumulators {
    values: groups, changed, now;
    parts: each;
});

/// The mark of the code of a request that is a group by itself.
const OWN_GROUP: u32 = 1 << 31;

/// The numbers of one accumulator.
#[derive(Debug)]
struct Accumulator {
    rules: config::Accumulator,
    /// The groups by code.
    by_code: BTreeMap<u32, u32>,
    totals: Vec<Total>,
}

crate::checkpoint::checkpointed!(Accumulator {
    values: by_code, totals;
    fixed: rules;
});

impl Accumulators {
    /// Accumulators of an instance without requests.
    pub(crate) fn new(rules: &[config::Accumulator]) -> Self {
        let each = |rules: &config::Accumulator| Accumulator {
            rules: rules.clone(),
            by_code: BTreeMap::new(),
            totals: Vec::new(),
        };
        Self { each: rules.iter().map(each).collect(), groups: Vec::new(), changed: Vec::new(), now: 0 }
    }

    /// Notes the groups of a request that has come to the instance.
    pub(crate) fn open(&mut self, slot: Slot, request: RequestNumber, trace: &Trace) {
        let mut groups = Groups::default();
        for (group, accumulator) in groups.iter_mut().zip(&mut self.each) {
            *group = accumulator.group_of(request, trace);
        }
        let at = slot as usize;
        if at >= self.groups.len() {
            self.groups.resize(at + 1, Groups::default());
        }
        self.groups[at] = groups;
    }

    /// The groups of a request.
    pub(crate) fn groups(&self, slot: Slot) -> Groups {
        self.groups[slot as usize]
    }

    /// The number of a group.
    pub(crate) fn value(&self, (accumulator, group): Member) -> f64 {
        let Accumulator { rules, totals, .. } = &self.each[accumulator as usize];
        totals[group as usize].value(rules.half_life, self.now)
    }

    /// The number of a group once `units` more are charged; it does not fall by half.
    pub(crate) fn value_with(&self, (accumulator, group): Member, units: i128) -> f64 {
        self.each[accumulator as usize].totals[group as usize].value_with(units)
    }

    /// Whether any number falls with time.
    pub(crate) fn fall(&self) -> bool {
        self.each.iter().any(|accumulator| accumulator.rules.half_life > 0)
    }

    /// Whether decodes that go on may change any number.
    pub(crate) fn change_with_decodes(&self) -> bool {
        let charges = |accumulator: &Accumulator| {
            let rules = &accumulator.rules;
            let own = rules.groups.iter().any(|group| group.output != 0);
            rules.charges.when != Charged::Finished && (rules.charges.output != 0 || own)
        };
        self.each.iter().any(charges)
    }

    /// Whether numbers rise if no waiting request may be admitted.
    pub(crate) fn refill(&self) -> bool {
        self.each.iter().any(|accumulator| accumulator.rules.quantum > 0)
    }

    /// Notes the moment. Numbers that fall have changed since the last one.
    pub(crate) fn note_moment(&mut self, now: Ticks) {
        if now <= self.now {
            return;
        }
        self.now = now;
        for (index, accumulator) in self.each.iter().enumerate() {
            if accumulator.rules.half_life > 0 {
                let groups = 0..accumulator.totals.len() as u32;
                self.changed.extend(groups.map(|group| (index as u32, group)));
            }
        }
    }

    /// Removes and returns the groups whose number has changed; a group may be among them more than once.
    pub(crate) fn take_changed(&mut self) -> Vec<Member> {
        std::mem::take(&mut self.changed)
    }

    /// Charges what happened to a request.
    pub(in crate::instance) fn observe(&mut self, fact: Fact, of: Subject) {
        self.note_moment(of.now);
        let state = of.state;
        match fact {
            Fact::Admitted { since, computes, .. } => {
                self.charge_prompt(of.slot, u64::from(state.prompt), since.is_none(), computes, of.now);
                self.charge_running(of.slot, 1, of.now);
            }
            Fact::Yielded { .. } => self.charge_tokens(of.slot, 1, of.now),
            Fact::Preempted | Fact::Left | Fact::Cancelled { ran: true } => {
                self.charge_running(of.slot, -1, of.now);
            }
            Fact::Finished => {
                self.charge_running(of.slot, -1, of.now);
                self.charge_all(of.slot, u64::from(state.prompt), u64::from(state.output), of.now);
            }
            Fact::Computed { .. }
            | Fact::Loaded { .. }
            | Fact::Joined { .. }
            | Fact::Passed { .. }
            | Fact::Dropped
            | Fact::Cancelled { ran: false }
            | Fact::Came
            | Fact::Landed { .. }
            | Fact::Verified { .. } => {}
        }
    }

    /// Charges the tokens that `members` of the decode set have yielded, one in each step.
    pub(in crate::instance) fn observe_members(
        &mut self,
        members: impl Iterator<Item = Slot>,
        steps: &Steps,
    ) {
        for ((index, group), number) in self.count(members) {
            let Accumulator { rules, totals, .. } = &mut self.each[index as usize];
            let total = &mut totals[group as usize];
            let units = i128::from(total.output) * i128::from(number);
            if rules.half_life == 0 {
                total.charge(units * i128::from(steps.count), 0, steps.start);
            } else {
                for step in 1..=steps.count {
                    let ended = steps.end_of(step);
                    total.charge(units, rules.half_life, ended);
                }
            }
            self.changed.push((index, group));
        }
    }

    /// The units that one step charges to each group of which it runs `members` of the decode set.
    pub(in crate::instance) fn growth(&self, members: impl Iterator<Item = Slot>) -> Vec<(Member, i128)> {
        let units = |((index, group), number): (Member, u64)| {
            let total = &self.each[index as usize].totals[group as usize];
            ((index, group), i128::from(total.output) * i128::from(number))
        };
        self.count(members).into_iter().map(units).filter(|(_, units)| *units != 0).collect()
    }

    /// How many requests there are of each group, in accumulators that charge tokens as they are yielded; in order.
    fn count(&self, members: impl Iterator<Item = Slot>) -> Vec<(Member, u64)> {
        let slots: Vec<Groups> = members.map(|slot| self.groups[slot as usize]).collect();
        let mut counts: Vec<(Member, u64)> = Vec::new();
        for (index, accumulator) in self.each.iter().enumerate() {
            if accumulator.rules.charges.when == Charged::Finished {
                continue;
            }
            let mut groups: Vec<u32> = slots.iter().map(|groups| groups[index]).collect();
            groups.sort_unstable();
            counts.extend(
                groups
                    .chunk_by(|one, other| one == other)
                    .map(|members| ((index as u32, members[0]), members.len() as u64)),
            );
        }
        counts
    }

    /// Lifts the numbers of a request's groups in which no other request waits, before the request comes to the queue.
    /// `waiting`: the groups of the requests that wait; `last`: those of the request that left the queue last.
    pub(in crate::instance) fn lift(&mut self, slot: Slot, waiting: &[Groups], last: Option<Groups>) {
        for index in 0..self.each.len() {
            let group = self.groups[slot as usize][index];
            let lift = self.each[index].rules.lift;
            if lift == Lift::None || waiting.iter().any(|groups| groups[index] == group) {
                continue;
            }
            let least = waiting.iter().map(|groups| groups[index]).min_by(|&one, &other| {
                self.value((index as u32, one)).total_cmp(&self.value((index as u32, other)))
            });
            let last = last.filter(|_| lift == Lift::WaitingOrLast).map(|groups| groups[index]);
            let Some(bound) = least.or(last) else { continue };
            let now = self.now;
            let Accumulator { rules, totals, .. } = &mut self.each[index];
            let bound = totals[bound as usize];
            if totals[group as usize].rise_to(&bound, rules.half_life, now) {
                self.changed.push((index as u32, group));
            }
        }
    }

    /// Adds the quantum to each number that is not above 0, of each accumulator that has one, again and again until the first
    /// of them is. Returns whether there was any.
    pub(in crate::instance) fn add_quanta(&mut self) -> bool {
        let rounds = |accumulator: &Accumulator| {
            let quantum = i128::from(accumulator.rules.quantum);
            let behind = accumulator.totals.iter().filter(move |total| quantum > 0 && total.units <= 0);
            behind.map(move |total| -total.units / quantum + 1).min()
        };
        let now = self.now;
        let Some(rounds) = self.each.iter().filter_map(rounds).min() else { return false };
        for (index, Accumulator { rules, totals, .. }) in self.each.iter_mut().enumerate() {
            let quantum = i128::from(rules.quantum);
            for (group, total) in totals.iter_mut().enumerate().filter(|_| quantum > 0) {
                if total.units <= 0 {
                    total.charge(quantum * rounds, 0, now);
                    self.changed.push((index as u32, group as u32));
                }
            }
        }
        true
    }

    /// Charges a request that was admitted, and its prompt, `computes` of whose tokens are computed.
    fn charge_prompt(&mut self, slot: Slot, prompt: u64, first: bool, computes: u32, now: Ticks) {
        self.charge_each(slot, now, |rules, total| {
            let tokens = match rules.charges.when {
                Charged::Served if first => i128::from(total.prompt) * i128::from(prompt),
                Charged::Computed => i128::from(total.prompt) * i128::from(computes),
                _ => 0,
            };
            tokens + if first { i128::from(rules.charges.request) } else { 0 }
        });
    }

    /// Charges tokens as they are yielded.
    fn charge_tokens(&mut self, slot: Slot, tokens: u64, now: Ticks) {
        self.charge_each(slot, now, |rules, total| match rules.charges.when {
            Charged::Served | Charged::Computed => i128::from(total.output) * i128::from(tokens),
            Charged::Finished => 0,
        });
    }

    /// Charges the tokens of a request that has finished.
    fn charge_all(&mut self, slot: Slot, prompt: u64, output: u64, now: Ticks) {
        self.charge_each(slot, now, |rules, total| match rules.charges.when {
            Charged::Finished => {
                i128::from(total.prompt) * i128::from(prompt) + i128::from(total.output) * i128::from(output)
            }
            Charged::Served | Charged::Computed => 0,
        });
    }

    /// Charges a request in the batch, or takes that back.
    fn charge_running(&mut self, slot: Slot, sign: i128, now: Ticks) {
        self.charge_each(slot, now, |rules, _| i128::from(rules.charges.running) * sign);
    }

    /// Charges a request's group in each accumulator.
    fn charge_each(&mut self, slot: Slot, now: Ticks, units: impl Fn(&config::Accumulator, &Total) -> i128) {
        let groups = self.groups[slot as usize];
        for (index, Accumulator { rules, totals, .. }) in self.each.iter_mut().enumerate() {
            let total = &mut totals[groups[index] as usize];
            let units = units(rules, total);
            if units != 0 {
                total.charge(units, rules.half_life, now);
                self.changed.push((index as u32, groups[index]));
            }
        }
    }
}

impl Accumulator {
    /// The group of a request, which begins at 0 if it is new.
    fn group_of(&mut self, request: RequestNumber, trace: &Trace) -> u32 {
        let code =
            |column: &Option<Column<u32>>| column.as_ref().map_or(u32::MAX, |codes| codes[request.index()]);
        let code = match self.rules.by {
            Grouping::All => 0,
            Grouping::Tenant => code(&trace.tenant),
            Grouping::Session => match code(&trace.session) {
                // Sessions and requests have numbers below 2^31. The number of requests is no part of the code: it grows
                // while requests are submitted.
                u32::MAX => OWN_GROUP | request.0,
                session => session,
            },
        };
        let next = self.totals.len() as u32;
        let group = *self.by_code.entry(code).or_insert(next);
        if group == next {
            self.totals.push(Total::new(self.rules.charges_of(code)));
        }
        group
    }
}

#[cfg(test)]
mod tests;
