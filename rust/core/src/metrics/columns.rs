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
    /// End of the step that yielded its last token.
    pub finish: Vec<Ticks>,
    /// Its longest gap between two tokens.
    pub max_itl: Vec<Ticks>,
    /// How often it lost its memory.
    pub preemptions: Vec<u32>,
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
    /// Columns for `n` requests that have not arrived; `reasons`: some of their
    /// output is reasoning.
    pub fn new(n: usize, reasons: bool) -> Self {
        let phases = if reasons { n } else { 0 };
        Self {
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
