//! What happened to each request, in columns, in the trace's order.

use crate::time::{NEVER, Ticks};

/// Where a request ended up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Status {
    /// Yielded all its tokens.
    Finished = 0,
    /// Was running when the simulated time ran out.
    Running = 1,
    /// Was waiting when the simulated time ran out.
    Waiting = 2,
    /// Had not arrived when the simulated time ran out.
    NotArrived = 3,
    /// Could never have been served.
    Rejected = 4,
}

/// Why a request was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reason {
    /// It was not.
    None = 0,
    /// Prompt and output together exceed the model's context.
    ExceedsContext = 1,
    /// The KV of the whole sequence exceeds the instance's blocks.
    ExceedsMemory = 2,
    /// The prompt exceeds the tokens of a step, and is not cut into chunks.
    ExceedsBudget = 3,
}

/// Stands for "no instance" in [`Columns::instance`].
pub const NO_INSTANCE: u32 = u32::MAX;

/// Which columns there are beside those that all replays have.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct OptionalColumns {
    /// Some output is reasoning.
    pub reasons: bool,
    /// Requests may move.
    pub moves: bool,
    /// Readers have a pace.
    pub paced: bool,
    /// The first token is asked for by some time.
    pub asked: bool,
}

/// One entry a request.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// Start of the first step that ran it.
    pub scheduled: Vec<Ticks>,
    /// End of the step that yielded its first token.
    pub first_token: Vec<Ticks>,
    /// End of the step that yielded its last reasoning token; empty where the
    /// trace says nothing of reasoning.
    pub reasoning_end: Vec<Ticks>,
    /// End of the step that yielded its first answer token; likewise.
    pub first_answer: Vec<Ticks>,
    /// Start of the step that yielded its first answer token; likewise.
    pub answer_started: Vec<Ticks>,
    /// End of the step that yielded its last token.
    pub finish: Vec<Ticks>,
    /// Its longest gap between two tokens.
    pub max_itl: Vec<Ticks>,
    /// How often it lost its memory.
    pub preemptions: Vec<u32>,
    /// Time out of the batch after having been in it, less what was between
    /// the end of its reasoning and its answer.
    pub preempted: Vec<Ticks>,
    /// That part of it which came after its first answer token.
    pub preempted_answering: Vec<Ticks>,
    /// Time on the way from one instance to another; empty where nobody moves.
    pub transfer: Vec<Ticks>,
    /// That part of it which came between its reasoning and its answer; likewise.
    pub transfer_answering: Vec<Ticks>,
    /// How often it moved; likewise.
    pub migrations: Vec<u32>,
    /// The instance that it was on last; likewise.
    pub last_instance: Vec<u32>,
    /// Quality of experience from its first token read on; empty without a pace.
    pub qoe_answering: Vec<f64>,
    /// The same from when that was asked for; empty where it was not.
    pub qoe: Vec<f64>,
    /// Tokens it has yielded.
    pub generated: Vec<u32>,
    /// Tokens that its first lookup found in the prefix cache.
    pub cached: Vec<u32>,
    /// The instance it was sent to.
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
            migrations: vec![0; moves],
            last_instance: vec![NO_INSTANCE; moves],
            qoe_answering: vec![f64::NAN; given(optional.paced)],
            qoe: vec![f64::NAN; given(optional.asked)],
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
