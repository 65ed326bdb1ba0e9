//! Which full blocks of which requests have the same content.
//!
//! A trace says this in one of two ways: by ids of the blocks of a prompt, where two prompts share a block exactly if
//! all ids up to it are equal; or by sessions, where the prompt of each turn continues the whole turn before. Either
//! gives a number to each block that several requests may have. A block without a number belongs to one request.

use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::trace::Trace;

/// Shared contents of a trace's blocks, at one block size.
#[derive(Debug, Clone)]
pub struct Prefixes {
    /// How the trace describes them.
    kind: Kind,
    /// Tokens in a block.
    block_tokens: u32,
    /// The number of shared contents.
    contents: usize,
}

/// How a trace describes shared prefixes.
#[derive(Debug, Clone)]
enum Kind {
    /// Not at all.
    None,
    /// By ids: the nodes of a tree of ids, by request. One block of the trace has `fine` blocks of the engine, or one
    /// block of the engine has `coarse` blocks of the trace.
    Ids { ends: Vec<usize>, nodes: Vec<u32>, fine: u32, coarse: u32 },
    /// By sessions: the number of the first block, by request; the blocks of a session have consecutive numbers.
    /// `u32::MAX`: the request has no session.
    Sessions { first: Vec<u32> },
}

impl Prefixes {
    /// Numbers the shared contents of a trace, in blocks of `block_tokens` tokens.
    ///
    /// # Errors
    ///
    /// If neither of the trace's and the engine's block size divides the other.
    pub fn new(trace: &Trace, block_tokens: u32) -> Result<Self, Error> {
        if let Some(ids) = &trace.prefix {
            return Self::from_ids(&ids.ends, &ids.ids, ids.block_tokens, block_tokens);
        }
        if let Some(sessions) = &trace.session {
            return Self::from_sessions(trace, sessions, block_tokens);
        }
        Ok(Self::none())
    }

    /// No two blocks have the same content.
    pub fn none() -> Self {
        Self { kind: Kind::None, block_tokens: 1, contents: 0 }
    }

    /// Numbers contents by the ids of blocks of `theirs` tokens, for blocks of `ours` tokens.
    fn from_ids(ends: &[usize], ids: &[u64], theirs: u32, ours: u32) -> Result<Self, Error> {
        if theirs == 0 || !theirs.is_multiple_of(ours) && !ours.is_multiple_of(theirs) {
            let rule = format!("must be a multiple or a divisor of the trace's {theirs}, was {ours}");
            return Err(Error::config("block_tokens", rule));
        }
        let fine = (theirs / ours).max(1);
        let coarse = (ours / theirs).max(1);
        let mut tree: FxHashMap<(u32, u64), u32> = FxHashMap::default();
        let mut nodes = Vec::with_capacity(ids.len());
        let mut start = 0;
        for &end in ends {
            let mut parent = u32::MAX;
            for &id in &ids[start..end] {
                let next = tree.len() as u32;
                parent = *tree.entry((parent, id)).or_insert(next);
                nodes.push(parent);
            }
            start = end;
        }
        let contents = tree.len() * fine as usize;
        if contents >= u32::MAX as usize {
            let distinct = tree.len();
            let rule = format!(
                "must cut the trace's {distinct} distinct blocks of {theirs} tokens into fewer than {} blocks, \
                 whose numbers have 32 bits, was {ours}: {contents} blocks",
                u32::MAX
            );
            return Err(Error::config("block_tokens", rule));
        }
        let kind = Kind::Ids { ends: ends.to_vec(), nodes, fine, coarse };
        Ok(Self { kind, block_tokens: ours, contents })
    }

    /// Numbers contents by sessions.
    fn from_sessions(trace: &Trace, sessions: &[u32], block_tokens: u32) -> Result<Self, Error> {
        // If the prompt of a turn is shorter than the turn before with its output, it does not continue it: it
        // starts another conversation.
        let count = sessions.iter().filter(|&&s| s != u32::MAX).max().map_or(0, |&s| s as usize + 1);
        let mut said = vec![0u64; count];
        let mut base = vec![u32::MAX; count];
        let mut first = vec![u32::MAX; trace.len()];
        let mut branches: Vec<(usize, u64)> = Vec::new();
        for (row, &session) in sessions.iter().enumerate() {
            if session == u32::MAX {
                continue;
            }
            let session = session as usize;
            let prompt = u64::from(trace.prompt_tokens[row]);
            let total = prompt + u64::from(trace.output_tokens[row]);
            if base[session] == u32::MAX || prompt < said[session] {
                base[session] = branches.len() as u32;
                branches.push((row, 0));
            }
            said[session] = total;
            let branch = &mut branches[base[session] as usize];
            branch.1 = branch.1.max(total / u64::from(block_tokens));
            first[row] = base[session];
        }
        let mut next = 0u64;
        let starts: Vec<u64> = branches
            .iter()
            .map(|(_, blocks)| {
                next += blocks;
                next - blocks
            })
            .collect();
        if next >= u64::from(u32::MAX) {
            let rule = format!(
                "must cut the trace's sessions into fewer than {} blocks, whose numbers have 32 bits, \
                 was {block_tokens}: {next} blocks",
                u32::MAX
            );
            return Err(Error::config("block_tokens", rule));
        }
        for branch in first.iter_mut().filter(|branch| **branch != u32::MAX) {
            *branch = starts[*branch as usize] as u32;
        }
        Ok(Self { kind: Kind::Sessions { first }, block_tokens, contents: next as usize })
    }

    /// The number of shared contents.
    pub fn contents(&self) -> usize {
        self.contents
    }

    /// The number of the content of a request's full block at `position`, if other requests may have it too.
    #[inline]
    pub fn shared(&self, request: u32, prompt: u32, position: u32) -> Option<u32> {
        match &self.kind {
            Kind::None => None,
            Kind::Ids { ends, nodes, fine, coarse } => {
                if position >= prompt / self.block_tokens {
                    return None;
                }
                let row = request as usize;
                let start = if row == 0 { 0 } else { ends[row - 1] };
                let own = &nodes[start..ends[row]];
                if *coarse > 1 {
                    return own.get(((position + 1) * coarse - 1) as usize).copied();
                }
                own.get((position / fine) as usize).map(|node| node * fine + position % fine)
            }
            Kind::Sessions { first } => {
                let first = first[request as usize];
                (first != u32::MAX).then(|| first + position)
            }
        }
    }
}
