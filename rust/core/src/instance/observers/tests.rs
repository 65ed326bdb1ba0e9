//! That facts in bulk say the same as facts one by one.

use proptest::prelude::*;

use super::*;
use crate::config::{Pace, Window};
use crate::cost::{Extrapolation, StepShape};
use crate::instance::request::{RequestTable, Slot};
use crate::instance::run::Run;
use crate::metrics::{OptionalColumns, Recorder};
use crate::series::Series;
use crate::time::{NEVER, Ticks};
use crate::trace::Trace;

/// Observers of an instance, and the requests that the facts are of.
struct Told {
    observers: Observers,
    requests: RequestTable,
    trace: Trace,
    recorder: Recorder,
}

impl Told {
    /// Observers of `n` requests that arrived at once with 10 prompt tokens and reason for the numbers given.
    fn new(reasoning: &[u32]) -> Self {
        let n = reasoning.len();
        let trace = Trace {
            arrival: vec![0; n].into(),
            prompt_tokens: vec![10; n].into(),
            output_tokens: vec![1_000; n].into(),
            reasoning_tokens: Some(reasoning.to_vec().into()),
            ..Trace::default()
        };
        let mut observers = Observers {
            liveness: Liveness::new(None),
            load: Load::new(true),
            flow: Flow::default(),
            stats: InstanceStats::default(),
            readers: Readers::new(Some(Pace { interval: 7, first: 3, ttft: None }), false, false),
            outbox: Outbox::new(Reports { prefilled: true, answering: true }),
            log: DecisionLog::new(None::<Window>),
            adapters: None,
            accumulators: None,
            traffic: None,
        };
        let mut requests = RequestTable::default();
        for row in 0..n {
            let slot = requests.insert(row as u32, 10, 1_000);
            observers.load.add_arrival(10, 5);
            observers.flow.add_arrival(10);
            observers.readers.open(slot, 0);
        }
        let optional =
            OptionalColumns { reasons: true, moves: true, paced: true, ..OptionalColumns::default() };
        Self { observers, requests, trace, recorder: Recorder::new(n, optional) }
    }

    fn tell(&mut self, fact: Fact, slot: Slot, now: Ticks) {
        let subject = Subject { slot, state: &self.requests[slot], prefill: 5, now, trace: &self.trace };
        self.observers.observe(fact, subject, &mut self.recorder);
    }

    /// Tells of a token of a request, in a step from `start` to `now`, which admits it if it is the first.
    fn yielded(&mut self, slot: Slot, start: Ticks, now: Ticks) {
        if self.requests[slot].generated == 0 && self.recorder.columns.scheduled[slot as usize] == NEVER {
            self.tell(Fact::Admitted { since: None, received: false, computes: 10 }, slot, start);
        }
        let state = &mut self.requests[slot];
        state.generated += 1;
        let gap = (state.generated > 1).then(|| now - state.times.last_token);
        state.times.last_token = now;
        let reasoning = self.trace.reasoning(state.request.index()).unwrap_or(0);
        state.answering |= state.generated == reasoning.max(1);
        self.tell(Fact::Yielded { start, gap }, slot, now);
    }

    /// The load that an instance with these observers shows.
    fn load(&self) -> [u64; 5] {
        let load = &self.observers.load;
        let (prefilling, decoding) = (load.prefilling(), load.decoding());
        [load.outstanding_tokens(), prefilling, decoding, load.answering(), load.prefill_delay()]
    }
}

/// Steps of a set of `members` members, none of which ends its reasoning.
fn steps<'a>(members: u64, start: Ticks, series: Series, steps: u64, kv: u64) -> Steps<'a> {
    let (ticks, kv_ticks) = (series.total(steps), series.integral(kv, members, steps));
    let (tokens, drafts, running, decodes) = (members * steps, None, members, members > 0);
    let lengths = Lengths::Series(series);
    Steps { start, lengths, count: steps, ticks, members, tokens, drafts, running, kv_ticks, decodes }
}

proptest! {
    #[test]
    fn steps_in_bulk_are_the_tokens_of_their_members_one_by_one(
        reasoning in prop::collection::vec(50u32..60, 1..4), first in 1u64..50, slope in 0u64..4, k in 1u64..20,
    ) {
        let series = Series { first, slope };
        let (mut bulk, mut single) = (Told::new(&reasoning), Told::new(&reasoning));
        let members = reasoning.len() as u64;
        for told in [&mut bulk, &mut single] {
            for slot in 0..members as Slot {
                told.yielded(slot, 0, 100);
            }
        }
        bulk.observers.observe_steps(&steps(members, 100, series, k, 30));
        let mut start = 100;
        for step in 0..k {
            let end = start + series.at(step);
            for slot in 0..members as Slot {
                single.yielded(slot, start, end);
            }
            start = end;
        }
        prop_assert_eq!(bulk.load(), single.load());
        prop_assert_eq!(bulk.observers.liveness.without_token(), single.observers.liveness.without_token());
    }

    #[test]
    fn steps_at_once_are_the_same_steps_in_two_parts(
        members in 1u64..5, first in 1u64..50, slope in 0u64..4, (k, part) in (2u64..30).prop_flat_map(|k| (Just(k), 1..k)),
        listed in any::<bool>(),
    ) {
        let series = Series { first, slope };
        let (mut whole, mut parts) = (Told::new(&[9]), Told::new(&[9]));
        whole.observers.observe_steps(&steps(members, 100, series, k, 30));
        let rest = Series { first: series.at(part), slope };
        let between = 100 + series.total(part) as Ticks;
        parts.observers.observe_steps(&steps(members, 100, series, part, 30));
        let rest = steps(members, between, rest, k - part, 30 + part * members);
        let ends: Vec<Ticks> = (part + 1..=k).map(|steps| 100 + series.total(steps) as Ticks).collect();
        let lengths = if listed { Lengths::Ends(&ends) } else { rest.lengths };
        parts.observers.observe_steps(&Steps { lengths, ..rest });
        prop_assert_eq!(&whole.observers.stats, &parts.observers.stats);
        prop_assert_eq!(whole.load(), parts.load());
        let means = [&whole, &parts].map(|told| told.observers.load.mean_interval_s().to_bits());
        prop_assert_eq!(means[0], means[1]);
    }
}

#[test]
fn the_load_returns_to_nothing_once_every_request_has_left() {
    let mut told = Told::new(&[1, 0, 2, 3]);
    assert_eq!(told.load(), [40, 4, 0, 0, 20]);
    told.yielded(0, 0, 10);
    told.yielded(1, 0, 10);
    assert_eq!(
        told.load(),
        [42, 2, 2, 2, 10],
        "the first of the two has ended its reasoning, the second has none"
    );
    told.yielded(2, 10, 20);
    told.tell(Fact::Joined { step: 0 }, 2, 20);
    told.requests[2].generated = 2;
    told.requests[2].answering = true;
    told.observers.observe_steps(&steps(1, 20, Series { first: 5, slope: 0 }, 1, 11));
    told.tell(Fact::Passed { generated: 2, step: 1, start: 20 }, 2, 25);
    assert_eq!(told.load(), [44, 1, 3, 3, 5]);
    assert_eq!(told.observers.outbox.pop_phase_change(), Some((PhaseChange::Answering, 2)));
    for (slot, fact) in [(0, Fact::Left), (1, Fact::Left), (2, Fact::Left), (3, Fact::Dropped)] {
        told.tell(fact, slot, 30);
    }
    assert_eq!(told.load(), [0; 5]);
    assert_eq!(
        (
            told.observers.stats.requests.sent,
            told.observers.stats.requests.dropped,
            told.observers.outbox.take_ended()
        ),
        (3, 1, 1)
    );
}

#[test]
fn a_prefill_stalls_while_no_step_computes_it() {
    let mut told = Told::new(&[0]);
    told.tell(Fact::Admitted { since: None, received: false, computes: 10 }, 0, 5);
    told.tell(Fact::Computed { start: 5 }, 0, 25);
    // It is preempted at 30 and admitted again at 70; a step from 80 to 90 computes the rest.
    told.tell(Fact::Admitted { since: Some(30), received: false, computes: 10 }, 0, 70);
    told.tell(Fact::Computed { start: 80 }, 0, 90);
    told.yielded(0, 80, 90);
    let columns = &told.recorder.columns;
    assert_eq!((columns.prefill_stall[0], columns.interrupted_prefill[0]), (85 - 20 - 10, 40));
    // Steps that compute it as it decodes, or again, are no part of its prefill.
    told.tell(Fact::Computed { start: 100 }, 0, 130);
    told.tell(Fact::Admitted { since: Some(130), received: false, computes: 10 }, 0, 150);
    let columns = &told.recorder.columns;
    assert_eq!((columns.prefill_stall[0], columns.interrupted_prefill[0]), (55, 40));
}

#[test]
fn a_request_that_returns_was_preempted_unless_it_is_before_its_answer() {
    for (generated, preempted, answering) in [(1, 20, 0), (4, 0, 0), (6, 20, 20)] {
        let mut told = Told::new(&[4]);
        told.tell(Fact::Admitted { since: None, received: false, computes: 10 }, 0, 5);
        told.requests[0].generated = generated;
        told.tell(Fact::Admitted { since: Some(30), received: true, computes: 0 }, 0, 50);
        let columns = &told.recorder.columns;
        assert_eq!((columns.scheduled[0], columns.received_wait[0]), (5, 20));
        let part = |column: &[Ticks]| column.first().copied().unwrap_or(0);
        assert_eq!(
            (part(columns.preempted.as_slice()), part(columns.preempted_answering.as_slice())),
            (preempted, answering)
        );
    }
}

#[test]
fn tokens_of_prefills_count_with_their_last_layers() {
    let mut told = Told::new(&[1]);
    let shape =
        StepShape { prefill_tokens: 8, prefill_requests: 1, decode_requests: 3, ..StepShape::default() };
    let run = Run { steps: 1, extrapolation: Extrapolation::default(), ..Run::default() };
    for ends_prefills in [false, true] {
        told.observers.observe_run(&Ended {
            run: &run,
            steps: 1,
            shape: &shape,
            members: 2,
            discarded: 0,
            discarded_tokens: 0,
            ends_prefills,
        });
    }
    assert_eq!((told.observers.stats.work.prefill_tokens, told.observers.stats.work.decode_tokens), (8, 2));
}
