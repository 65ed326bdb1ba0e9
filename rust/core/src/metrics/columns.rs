//! The result by request: columns in the order of the trace.

use crate::time::{NEVER, Ticks};

/// The state of a request at the end of the replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// Why a request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// It was not rejected.
    None = 0,
    /// Prompt and output together exceed the context of the model.
    ExceedsContext = 1,
    /// The KV of the whole sequence exceeds the instance's blocks.
    ExceedsMemory = 2,
    /// The prompt exceeds the tokens of a step, and prompts are not cut into chunks.
    ExceedsBudget = 3,
    /// A rule of the policy rejected it.
    Policy = 4,
}

/// Means "no instance" in [`Columns::instance`].
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
}

/// The columns of the result, each with one entry a request. One field for each column.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Start of the first step in which it was scheduled.
    pub scheduled: Vec<Ticks>,
    /// End of the step that generated its first token.
    pub first_token: Vec<Ticks>,
    /// End of the step that generated its last reasoning token; empty if the trace has no reasoning tokens.
    pub reasoning_end: Vec<Ticks>,
    /// End of the step that generated its first answer token; empty if the trace has no reasoning tokens.
    pub first_answer: Vec<Ticks>,
    /// Start of the step that generated its first answer token; empty if the trace has no reasoning tokens.
    pub answer_started: Vec<Ticks>,
    /// End of the step that generated its last token.
    pub finish: Vec<Ticks>,
    /// Its longest gap between two consecutive tokens.
    pub max_itl: Vec<Ticks>,
    /// How often it was preempted.
    pub preemptions: Vec<u32>,
    /// Time out of the batch after its first admission, without such time between the end of its reasoning and its
    /// first answer token.
    pub preempted: Vec<Ticks>,
    /// The part of `preempted` after its first answer token.
    pub preempted_answering: Vec<Ticks>,
    /// Time in transfer between instances; empty if requests never migrate.
    pub transfer: Vec<Ticks>,
    /// The part of `transfer` between the end of its reasoning and its first answer token; empty if requests never
    /// migrate.
    pub transfer_answering: Vec<Ticks>,
    /// The part of `transfer` before the first byte was sent; empty if requests never migrate.
    pub handover_wait: Vec<Ticks>,
    /// The part of `preempted` from when its KV had been received until it was admitted; empty if requests never
    /// migrate.
    pub received_wait: Vec<Ticks>,
    /// The steps on its targets that admitted it with KV that had been received; empty if requests never migrate.
    pub first_decode: Vec<Ticks>,
    /// How often it migrated; empty if requests never migrate.
    pub migrations: Vec<u32>,
    /// The last instance that it was on; empty if requests never migrate.
    pub last_instance: Vec<u32>,
    /// Quality of experience from its first token read on; empty without a reading pace.
    pub qoe_answering: Vec<f64>,
    /// Quality of experience from the target of its first token on; empty without such a target.
    pub qoe: Vec<f64>,
    /// Time for which the router held it; empty if routers never hold requests.
    pub held: Vec<Ticks>,
    /// Tokens that it has generated.
    pub generated: Vec<u32>,
    /// Tokens of its prompt that its first lookup found in the prefix cache.
    pub cached: Vec<u32>,
    /// The instance to which it was routed on arrival.
    pub instance: Vec<u32>,
    /// A [`Status`].
    pub status: Vec<u8>,
    /// A [`Reason`].
    pub reason: Vec<u8>,
}

impl Columns {
    /// Columns for `n` requests that have not arrived.
    pub fn new(n: usize, optional: OptionalColumns) -> Self {
        let given = |wanted: bool| if wanted { n } else { 0 };
        let phases = given(optional.reasons);
        let moves = given(optional.moves);
        Self {
            answer_started: vec![NEVER; phases],
            preempted: vec![0; n],
            preempted_answering: vec![0; n],
            transfer: vec![0; moves],
            transfer_answering: vec![0; moves],
            handover_wait: vec![0; moves],
            received_wait: vec![0; moves],
            first_decode: vec![0; moves],
            migrations: vec![0; moves],
            last_instance: vec![NO_INSTANCE; moves],
            qoe_answering: vec![f64::NAN; given(optional.paced)],
            qoe: vec![f64::NAN; given(optional.asked)],
            held: vec![0; given(optional.holds)],
            reasoning_end: vec![NEVER; phases],
            first_answer: vec![NEVER; phases],
            scheduled: vec![NEVER; n],
            first_token: vec![NEVER; n],
            finish: vec![NEVER; n],
            max_itl: vec![NEVER; n],
            preemptions: vec![0; n],
            generated: vec![0; n],
            cached: vec![0; n],
            instance: vec![NO_INSTANCE; n],
            status: vec![Status::NotArrived as u8; n],
            reason: vec![Reason::None as u8; n],
        }
    }
}
