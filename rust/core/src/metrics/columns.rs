//! The result by request: columns in the order of the trace.
//!
//! A column is declared once, in [`Columns`]. Its store, the arrays and the definitions that bindings hand over, and the
//! tables of the documentation come from that declaration.

use std::ops::{Add, Range};

use serde::{Deserialize, Serialize};

use crate::collections::Column;
use crate::time::{NEVER, Ticks};

/// The state of a request at the end of the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[repr(u8)]
pub enum Status {
    /// It generated all its tokens.
    Finished = 0,
    /// It was running when the replay stopped.
    Running = 1,
    /// It was waiting, swapped out or in transfer when the replay stopped.
    Waiting = 2,
    /// It had not arrived when the replay stopped.
    NotArrived = 3,
    /// No instance could ever have served it, or the policy rejected it.
    Rejected = 4,
    /// The router held it when the replay stopped.
    Held = 5,
    /// It left the router, which held it for too long.
    GaveUp = 6,
    /// Its client cancelled it.
    Cancelled = 7,
}

/// Why a request was rejected or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// It was neither.
    None = 0,
    /// Prompt and output together exceed the context of the model.
    ExceedsContext = 1,
    /// The KV of the whole sequence exceeds the instance's blocks.
    ExceedsMemory = 2,
    /// The prompt exceeds the tokens of a step, and prompts are not cut into chunks.
    ExceedsBudget = 3,
    /// A rule of the policy rejected it.
    Policy = 4,
    /// No instance serves the model that it names.
    NoModel = 5,
    /// Its client's time-out passed.
    TimedOut = 6,
    /// Its client cancelled it as the trace says.
    Cancelled = 7,
}

/// Means "no instance" in a column of the kind [`Place`].
pub const NO_INSTANCE: u32 = u32::MAX;

/// Which columns a result has beside those of every replay.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each says whether the result has some columns")]
pub struct OptionalColumns {
    /// The trace has reasoning tokens.
    pub reasons: bool,
    /// Requests may migrate.
    pub moves: bool,
    /// A reading pace is configured.
    pub paced: bool,
    /// The pace has a target for the first token.
    pub asked: bool,
    /// Routers may hold requests.
    pub holds: bool,
    /// A predictor scores requests before they are routed.
    pub predicts: bool,
    /// A source sends requests, which may react to others.
    pub reacts: bool,
    /// Clients may cancel requests.
    pub cancels: bool,
    /// Clients may send requests again.
    pub retries: bool,
    /// An instance keeps chunks of prefixes in the host's memory.
    pub tiered: bool,
    /// There is a store below that memory.
    pub stored: bool,
    /// Requests are offered to their targets as they arrive.
    pub offers: bool,
}

/// The values of a column that is moved out of the result.
#[derive(Debug, Clone, PartialEq)]
pub enum Buffer {
    /// Ticks.
    U64(Vec<u64>),
    /// Counts and instances.
    U32(Vec<u32>),
    /// Shares.
    F64(Vec<f64>),
    /// Codes.
    U8(Vec<u8>),
}

/// The kind of a column: the type of its values, and the value of a request that has not arrived.
pub trait Kind {
    type Value: Copy;
    const NONE: Self::Value;
    const NAME: &'static str;
    fn buffer(values: Vec<Self::Value>) -> Buffer;
}

/// Declares kinds of columns: name, type, value of a request that has not arrived, form of the buffer.
macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $value:ty = $none:expr, $form:ident, $text:literal;)*) => {$(
        $(#[$doc])*
        pub struct $name;
        impl Kind for $name {
            type Value = $value;
            const NONE: $value = $none;
            const NAME: &'static str = $text;
            fn buffer(values: Vec<$value>) -> Buffer {
                Buffer::$form(values)
            }
        }
    )*};
}

kinds! {
    /// A moment; `NEVER` if it did not happen.
    Moment: Ticks = NEVER, U64, "moment";
    /// A duration; `NEVER` if there was none.
    Gap: Ticks = NEVER, U64, "gap";
    /// A part of a latency; 0 if there was none.
    Part: Ticks = 0, U64, "part";
    /// A number of things.
    Count: u32 = 0, U32, "count";
    /// An index of an instance; [`NO_INSTANCE`] if there is none.
    Place: u32 = NO_INSTANCE, U32, "place";
    /// A quality from 0 to 1; NaN if it is not known.
    Quality: f64 = f64::NAN, F64, "quality";
    /// A [`Status`].
    StatusCode: u8 = Status::NotArrived as u8, U8, "status";
    /// A [`Reason`].
    ReasonCode: u8 = Reason::None as u8, U8, "reason";
}

/// The declaration of a column.
#[derive(Debug, Clone, Copy)]
pub struct Declared {
    /// Its name.
    pub name: &'static str,
    /// The name of its kind.
    pub kind: &'static str,
    /// The replays that have it: "always", a field of [`OptionalColumns`], or "used": it is empty until a request has a part
    /// above 0. In others it is empty.
    pub when: &'static str,
    /// Its definition: a sentence, or several.
    pub definition: &'static str,
}

/// Puts a value at a row of a column of `rows` that is empty until one is above 0: most replays preempt no request.
pub(crate) fn put_used<T: Copy + Default + PartialEq>(
    column: &mut Column<T>,
    rows: Range<usize>,
    row: usize,
    value: T,
) {
    if column.is_empty() {
        if value == T::default() {
            return;
        }
        *column = Column::filled(rows, T::default());
    }
    column[row] = value;
}

/// Adds to a part of a row in such a column.
pub(crate) fn add_part<T>(column: &mut Column<T>, rows: Range<usize>, row: usize, part: T)
where
    T: Copy + Default + PartialEq + Add<Output = T>,
{
    if part != T::default() {
        let before = column.get(row).copied().unwrap_or_default();
        put_used(column, rows, row, before + part);
    }
}

/// Puts the value in each place at the row that `origins` has there, of `rows`: the last one, if a row has several.
fn restore<T: Copy>(values: &mut Column<T>, origins: &[u32], rows: usize) {
    if values.is_empty() {
        return;
    }
    let placed = values.clone();
    for (&origin, value) in std::iter::zip(origins, placed) {
        values[origin as usize] = value;
    }
    values.resize(rows, values[0]);
}

/// The values of `n` rows, of which each part has some; a part without values has those of rows that have not arrived.
fn join<T: Copy>(parts: Vec<(&[u32], Column<T>)>, n: usize, none: T) -> Column<T> {
    if parts.iter().all(|(_, values)| values.is_empty()) {
        return Column::default();
    }
    let mut all = vec![none; n];
    for (rows, values) in parts {
        for (&row, value) in std::iter::zip(rows, values) {
            all[row as usize] = value;
        }
    }
    all.into()
}

/// Adds entries to a column; an empty one, which the replay does not have, stays empty.
fn grow<T: Copy>(values: &mut Column<T>, n: usize, none: T) {
    if !values.is_empty() {
        values.resize(values.len() + n, none);
    }
}

/// Whether a replay has the columns of a group.
macro_rules! given {
    ($optional:ident, always) => {
        true
    };
    ($optional:ident, used) => {
        false
    };
    ($optional:ident, $group:ident) => {
        $optional.$group
    };
}

/// Declares the columns: definition, name, kind, and the replays that have it.
macro_rules! columns {
    ($($(#[doc = $definition:literal])+ $name:ident: $kind:ident, $when:ident;)*) => {
        /// The columns of the result, each with one entry a request, or empty.
        #[derive(Debug, Clone, Default, Serialize, Deserialize)]
        pub struct Columns {$(
            $(#[doc = $definition])+
            pub $name: Column<<$kind as Kind>::Value>,
        )*}

        impl Columns {
            /// The declarations of all columns.
            pub const DECLARED: &'static [Declared] = &[$(Declared {
                name: stringify!($name),
                kind: $kind::NAME,
                when: stringify!($when),
                definition: concat!($($definition),+),
            }),*];

            /// Columns for `n` requests that have not arrived.
            pub fn new(n: usize, optional: OptionalColumns) -> Self {
                Self {$(
                    $name: vec![$kind::NONE; if given!(optional, $when) { n } else { 0 }].into(),
                )*}
            }

            /// Adds `n` requests that have not arrived to columns of one or more.
            pub(crate) fn grow(&mut self, n: usize) {
                $(grow(&mut self.$name, n, $kind::NONE);)*
            }

            /// Puts the entry in each place at the row that `origins` has there: the last one, if a row has several.
            pub(crate) fn restore(&mut self, origins: &[u32]) {
                self.sum_repeats(origins);
                let rows = origins.iter().max().map_or(0, |&row| row as usize + 1);
                $(restore(&mut self.$name, origins, rows);)*
            }

            /// The columns of `n` requests, of which each part has some: their rows in order, and their columns.
            pub(crate) fn join(mut parts: Vec<(Vec<u32>, Self)>, n: usize) -> Self {
                Self {$($name: {
                    let taken = |part: &'_ mut (Vec<u32>, Self)| std::mem::take(&mut part.1.$name);
                    let values: Vec<_> = parts.iter_mut().map(taken).collect();
                    join(parts.iter().map(|part| &part.0[..]).zip(values).collect(), n, $kind::NONE)
                },)*}
            }

            /// Takes the rows before `row` out.
            pub(crate) fn take_before(&mut self, row: usize) -> Self {
                Self {$($name: self.$name.take_before(row).into(),)*}
            }

            /// All columns by name.
            pub fn into_buffers(self) -> Vec<(&'static str, Buffer)> {
                vec![$((stringify!($name), $kind::buffer(self.$name.into_vec()))),*]
            }
        }
    };
}

columns! {
    /// When it was sent, where that depends on other requests.
    arrival: Moment, reacts;
    /// The time until its length was predicted; a part of queueing before `held`.
    prediction: Part, predicts;
    /// Start of the first step in which it was scheduled.
    scheduled: Moment, always;
    /// End of the step that generated its first token.
    first_token: Moment, always;
    /// End of the step that generated its last reasoning token.
    reasoning_end: Moment, reasons;
    /// Start of the step that generated its first answer token.
    answer_started: Moment, reasons;
    /// End of the step that generated its first answer token.
    first_answer: Moment, reasons;
    /// End of the step that generated its last token.
    finish: Moment, always;
    /// Its longest gap between two consecutive tokens.
    max_itl: Gap, always;
    /// Time out of the batch after its first admission, without such time between the end of its reasoning and its
    /// first answer token.
    preempted: Part, used;
    /// The part of `preempted` after its first answer token.
    preempted_answering: Part, used;
    /// Time in transfer between instances.
    transfer: Part, moves;
    /// The part of `transfer` between the end of its reasoning and its first answer token.
    transfer_answering: Part, moves;
    /// The part of `transfer` before the first byte was sent.
    handover_wait: Part, moves;
    /// The part of `preempted` from when its KV had been received until it was admitted.
    received_wait: Part, moves;
    /// The steps on its targets that admitted it with KV that had been received.
    first_decode: Part, moves;
    /// The time between its first admission and its first token in which no step computed its prompt; a part of TTFT.
    prefill_stall: Part, always;
    /// The part of `prefill_stall` in which it was preempted or in transfer.
    interrupted_prefill: Part, used;
    /// Time for which the router held it; a part of queueing.
    held: Part, holds;
    /// Time for which its target had not accepted it, so that its prompt was not queued; a part of queueing.
    acceptance_wait: Part, offers;
    /// Quality of experience from the target of its first token on.
    qoe: Quality, asked;
    /// Quality of experience from its first token read on.
    qoe_answering: Quality, paced;
    /// Tokens that it has generated.
    generated_tokens: Count, always;
    /// Tokens of its prompt that its first lookup found in the prefix cache.
    cached_tokens: Count, used;
    /// Tokens of its prompt, after those, that were loaded from a tier for its first admission.
    loaded_tokens: Count, tiered;
    /// Of those tokens, the ones that a store below the tier had, and the tier had not.
    store_tokens: Count, stored;
    /// Time for which it waited, with its blocks, until chunks of its prefix had been loaded and it was admitted; before
    /// its first admission, a part of queueing.
    load_wait: Part, tiered;
    /// How often it was preempted.
    preemptions: Count, used;
    /// When its client cancelled it; tokens of the step under way are counted.
    cancelled_at: Moment, cancels;
    /// How often its client sent it again. The other columns are those of the last time, but for the next two.
    sent_again: Count, retries;
    /// Tokens that it had generated when it was sent again, over all times before the last.
    wasted_tokens: Count, retries;
    /// When it was sent for the first time.
    first_sent: Moment, retries;
    /// How often it migrated.
    migrations: Count, moves;
    /// The instance to which it was routed on arrival.
    instance: Place, always;
    /// The last instance that it was on; `instance` where requests never migrate.
    last_instance: Place, moves;
    /// Its state at the end of the replay.
    status: StatusCode, always;
    /// Why it was rejected or cancelled.
    reason: ReasonCode, always;
}

impl Columns {
    /// The instance that a request was on last; [`NO_INSTANCE`]: it has been on none.
    pub(crate) fn place(&self, row: usize) -> u32 {
        let last = self.last_instance.get(row).copied().unwrap_or(NO_INSTANCE);
        if last == NO_INSTANCE { self.instance[row] } else { last }
    }

    /// Writes of each request that was sent again how often it was, the tokens that were wasted by that, and when it was
    /// sent first, to each of its entries.
    fn sum_repeats(&mut self, origins: &[u32]) {
        if self.sent_again.is_empty() {
            return;
        }
        let mut before: Vec<Option<usize>> = vec![None; origins.len()];
        for (number, &origin) in origins.iter().enumerate() {
            let before = before[origin as usize].replace(number);
            self.first_sent[number] = before.map_or(self.arrival[number], |before| self.first_sent[before]);
            if let Some(before) = before {
                self.sent_again[number] = self.sent_again[before] + 1;
                let wasted = self.wasted_tokens[before].saturating_add(self.generated_tokens[before]);
                self.wasted_tokens[number] = wasted;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_was_sent_again_has_the_entries_of_the_last_time() {
        let optional = OptionalColumns { reacts: true, retries: true, ..OptionalColumns::default() };
        let mut columns = Columns::new(5, optional);
        columns.arrival = vec![3, 5, 8, 9, NEVER].into();
        columns.generated_tokens = vec![4, 7, 0, 2, 0].into();
        columns.restore(&[1, 0, 1, 1, 2]);
        assert_eq!(columns.arrival, [5, 9, NEVER]);
        assert_eq!((columns.sent_again, columns.wasted_tokens), (vec![0, 2, 0].into(), vec![0, 4, 0].into()));
        assert_eq!(
            (columns.first_sent, columns.generated_tokens),
            (vec![5, 3, NEVER].into(), vec![7, 2, 0].into())
        );
    }

    #[test]
    fn each_column_is_declared_stored_and_handed_over_under_one_name() {
        let all = OptionalColumns {
            reasons: true,
            moves: true,
            paced: true,
            asked: true,
            holds: true,
            predicts: true,
            reacts: true,
            cancels: true,
            retries: true,
            tiered: true,
            stored: true,
            offers: true,
        };
        let buffers = Columns::new(3, all).into_buffers();
        let names: Vec<_> = buffers.iter().map(|buffer| buffer.0).collect();
        assert_eq!(names, Columns::DECLARED.iter().map(|one| one.name).collect::<Vec<_>>());
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len());
        for (name, buffer) in buffers {
            let filled = match buffer {
                Buffer::U64(values) => values.len(),
                Buffer::U32(values) => values.len(),
                Buffer::F64(values) => values.len(),
                Buffer::U8(values) => values.len(),
            };
            let used = Columns::DECLARED.iter().any(|one| one.name == name && one.when == "used");
            assert_eq!(filled, if used { 0 } else { 3 }, "{name}");
        }
    }

    #[test]
    fn columns_grow_by_requests_that_have_not_arrived() {
        let moves = OptionalColumns { moves: true, ..OptionalColumns::default() };
        let mut columns = Columns::new(1, moves);
        columns.finish[0] = 7;
        columns.grow(2);
        assert_eq!((columns.finish, columns.migrations), (vec![7, NEVER, NEVER].into(), vec![0; 3].into()));
        assert!(columns.held.is_empty() && columns.preempted.is_empty());
    }

    #[test]
    fn columns_are_put_back_in_the_order_of_the_trace() {
        let mut columns = Columns::new(3, OptionalColumns::default());
        columns.finish = vec![10, 11, 12].into();
        columns.restore(&[2, 0, 1]);
        assert_eq!((columns.finish, columns.held), (vec![11, 12, 10].into(), vec![].into()));
    }

    #[test]
    fn columns_of_parts_are_joined_by_row() {
        let part = |finish: Vec<Ticks>, preempted: Vec<Ticks>| {
            let columns = Columns::new(finish.len(), OptionalColumns::default());
            Columns { finish: finish.into(), preempted: preempted.into(), ..columns }
        };
        let parts = vec![
            (vec![0, 3], part(vec![7, 8], vec![])),
            (vec![1], part(vec![9], vec![5])),
            (vec![2], part(vec![NEVER], vec![])),
        ];
        let joined = Columns::join(parts, 4);
        assert_eq!(joined.finish, [7, 9, NEVER, 8]);
        assert_eq!((joined.preempted, joined.held.is_empty()), (vec![0, 5, 0, 0].into(), true));
    }

    #[test]
    fn columns_of_a_group_are_empty_where_the_replay_has_none() {
        let columns = Columns::new(2, OptionalColumns { moves: true, ..OptionalColumns::default() });
        assert_eq!(
            (columns.transfer, columns.last_instance),
            (vec![0; 2].into(), vec![NO_INSTANCE; 2].into())
        );
        assert!(columns.reasoning_end.is_empty() && columns.held.is_empty() && columns.qoe.is_empty());
        assert_eq!(
            (columns.finish, columns.status),
            (vec![NEVER; 2].into(), vec![Status::NotArrived as u8; 2].into())
        );
    }
}
