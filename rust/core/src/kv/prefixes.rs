//! Which full blocks of which requests have the same content.
//!
//! A trace says this in one of two ways: by ids of the blocks of a prompt, where two prompts share a block exactly if
//! all ids up to it are equal; or by sessions, where the prompt of each turn continues the whole turn before. Either
//! gives a number to each block that several requests may have. A block without a number belongs to one request.

use serde::{Deserialize, Serialize};

use super::content_tree::ContentTree;
use crate::collections::Column;
use crate::error::Error;
use crate::trace::{PrefixIds, Trace, TraceRow, forget_rows, of_row};

/// Shared contents of a trace's blocks, at one block size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Prefixes {
    /// How the trace describes them.
    kind: Kind,
    /// Tokens in a block.
    block_tokens: u32,
    /// The number of shared contents.
    contents: usize,
}

/// How a trace describes shared prefixes.
#[derive(Debug, Clone, Serialize, Deserialize)]
enum Kind {
    /// Not at all.
    None,
    /// By ids.
    Ids(Ids),
    /// By sessions: the number of the first block, by request; the blocks of a session have consecutive numbers.
    /// `u32::MAX`: the request has no session.
    Sessions { first: Vec<u32> },
}

/// The nodes of a tree of ids, by request. One block of the trace has `fine` blocks of the engine, or one block of the
/// engine has `coarse` blocks of the trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ids {
    ends: Column<usize>,
    nodes: Column<u32>,
    outputs: Option<Outputs>,
    fine: u32,
    coarse: u32,
    /// The tree, while more requests may follow.
    tree: Option<Box<ContentTree>>,
}

/// The nodes of the ids of outputs, by request.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Outputs {
    ends: Column<usize>,
    nodes: Column<u32>,
    /// Tokens in a block of the trace.
    block_tokens: u32,
}

impl Ids {
    /// Numbers the blocks of the requests that `more` has beyond those that were numbered; `prompts` are the tokens of all
    /// prompts. Returns the number of distinct blocks.
    fn extend(&mut self, more: &PrefixIds, prompts: &Column<u32>) -> usize {
        let Self { ends, nodes, outputs, tree, .. } = self;
        let Some(tree) = tree else { return 0 };
        let known = ends.len();
        nodes.reserve(more.ids.len() - nodes.len());
        for row in known..more.ends.len() {
            let mut parent = u32::MAX;
            for &id in more.of(TraceRow(row as u32)) {
                parent = tree.number(parent, id);
                nodes.push(parent);
            }
        }
        ends.extend(more.ends.range(known..more.ends.len()).iter().copied());
        if let (Some(found), Some(outputs)) = (outputs, &more.outputs) {
            for row in known..prompts.len() {
                let prompt = prompts[row];
                let full = (prompt / found.block_tokens) as usize;
                let before = of_row(ends, nodes, row);
                // An output follows a prompt whose full blocks all have ids; else nothing is known of where it is.
                let mut parent = match full {
                    0 => u32::MAX,
                    _ => before.get(full - 1).copied().unwrap_or(u32::MAX - 1),
                };
                for &id in outputs.of(TraceRow(row as u32)) {
                    parent = tree.number(parent, id);
                    found.nodes.push(parent);
                }
            }
            found.ends.extend(outputs.ends.range(known..outputs.ends.len()).iter().copied());
        }
        tree.numbers()
    }
}

impl Prefixes {
    /// Numbers the shared contents of a trace, in blocks of `block_tokens` tokens.
    ///
    /// # Errors
    ///
    /// If neither of the trace's and the engine's block size divides the other.
    pub fn new(trace: &Trace, block_tokens: u32) -> Result<Self, Error> {
        if trace.prefix.is_some() {
            let mut prefixes = Self::growing(trace, block_tokens)?;
            if let Kind::Ids(ids) = &mut prefixes.kind {
                ids.tree = None;
            }
            return Ok(prefixes);
        }
        if let Some(sessions) = &trace.session {
            return Self::from_sessions(trace, sessions, block_tokens);
        }
        Ok(Self::none())
    }

    /// As [`Self::new`], for a trace that grows: its contents may be extended.
    ///
    /// # Errors
    ///
    /// As for [`Self::new`]. If contents are shared by sessions: the blocks of a session are numbered once all are known.
    pub(crate) fn growing(trace: &Trace, block_tokens: u32) -> Result<Self, Error> {
        let Some(ids) = &trace.prefix else {
            if trace.session.is_some() {
                let rule = "must be given by ids where requests are submitted, was given by sessions";
                return Err(Error::config("prefix", rule));
            }
            return Ok(Self::none());
        };
        let theirs = ids.block_tokens;
        if theirs == 0 || !theirs.is_multiple_of(block_tokens) && !block_tokens.is_multiple_of(theirs) {
            let rule = format!("must be a multiple or a divisor of the trace's {theirs}, was {block_tokens}");
            return Err(Error::config("block_tokens", rule));
        }
        let kind = Kind::Ids(Ids {
            ends: Column::default(),
            nodes: Column::default(),
            outputs: ids.outputs.as_ref().map(|_| Outputs {
                ends: Column::default(),
                nodes: Column::default(),
                block_tokens: theirs,
            }),
            fine: (theirs / block_tokens).max(1),
            coarse: (block_tokens / theirs).max(1),
            tree: Some(Box::default()),
        });
        let mut prefixes = Self { kind, block_tokens, contents: 0 };
        prefixes.extend(trace)?;
        Ok(prefixes)
    }

    /// Numbers the contents of the requests that a trace has beyond those that were numbered. The others keep their numbers.
    ///
    /// # Errors
    ///
    /// If there are too many contents.
    pub(crate) fn extend(&mut self, trace: &Trace) -> Result<(), Error> {
        let (Kind::Ids(ids), Some(more)) = (&mut self.kind, &trace.prefix) else { return Ok(()) };
        let distinct = ids.extend(more, &trace.prompt_tokens);
        self.contents = distinct * ids.fine as usize;
        if self.contents >= u32::MAX as usize {
            let (theirs, ours) = (more.block_tokens, self.block_tokens);
            let rule = format!(
                "must cut the trace's {distinct} distinct blocks of {theirs} tokens into fewer than {} blocks, \
                 whose numbers have 32 bits, was {ours}: {} blocks",
                u32::MAX,
                self.contents
            );
            return Err(Error::config("block_tokens", rule));
        }
        Ok(())
    }

    /// Forgets the requests before `row`. Their contents may be given other numbers if they come again, unless one of `held`
    /// is; `held` has at most `most` contents.
    pub(crate) fn forget(&mut self, row: usize, most: usize, held: impl Iterator<Item = u32>) {
        let Kind::Ids(Ids { ends, nodes, outputs, fine, tree, .. }) = &mut self.kind else { return };
        forget_rows(ends, nodes, row);
        if let Some(outputs) = outputs {
            forget_rows(&mut outputs.ends, &mut outputs.nodes, row);
        }
        if let Some(tree) = tree.as_mut().filter(|tree| tree.is_due(most + nodes.kept().len())) {
            let outputs = outputs.iter().flat_map(|outputs| &outputs.nodes);
            let held = held.map(|content| content / *fine);
            tree.keep(nodes.iter().chain(outputs).copied().chain(held));
        }
    }

    /// No two blocks have the same content.
    pub fn none() -> Self {
        Self { kind: Kind::None, block_tokens: 1, contents: 0 }
    }

    /// Numbers contents by sessions.
    fn from_sessions(trace: &Trace, sessions: &Column<u32>, block_tokens: u32) -> Result<Self, Error> {
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
            // The last block may be begun only: `begun` names it too.
            branch.1 = branch.1.max(total.div_ceil(u64::from(block_tokens)));
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

    /// The number of the content of a request's full block at `position`, if other requests may have it too. Past the
    /// prompt it is that of a block which the output fills.
    pub fn shared(&self, row: TraceRow, prompt: u32, position: u32) -> Option<u32> {
        match &self.kind {
            Kind::None => None,
            Kind::Ids(Ids { ends, nodes, fine, coarse, .. }) => {
                if position >= prompt / self.block_tokens {
                    return self.of_output(row, prompt, position);
                }
                let own = of_row(ends, nodes, row.index());
                if *coarse > 1 {
                    return own.get(((position + 1) * coarse - 1) as usize).copied();
                }
                own.get((position / fine) as usize).map(|node| node * fine + position % fine)
            }
            Kind::Sessions { first } => {
                let first = first[row.index()];
                (first != u32::MAX).then(|| first + position)
            }
        }
    }

    /// The number of the content of a block at `position` that is full once a request has all its output, and was not
    /// full before; `None` if the trace does not say what is in it.
    pub(crate) fn of_output(&self, row: TraceRow, prompt: u32, position: u32) -> Option<u32> {
        match &self.kind {
            Kind::Ids(Ids { outputs: Some(outputs), fine, coarse, .. }) => {
                let own = of_row(&outputs.ends, &outputs.nodes, row.index());
                let full = prompt / outputs.block_tokens;
                if *coarse > 1 {
                    return own.get(((position + 1) * coarse - 1).checked_sub(full)? as usize).copied();
                }
                own.get((position / fine).checked_sub(full)? as usize)
                    .map(|node| node * fine + position % fine)
            }
            Kind::Sessions { .. } => self.shared(row, prompt, position),
            _ => None,
        }
    }

    /// The number of the content of a prompt's block at `position`, full or not, if other requests may have it too.
    pub(crate) fn begun(&self, row: TraceRow, position: u32) -> Option<u32> {
        match &self.kind {
            Kind::None => None,
            Kind::Ids(Ids { ends, nodes, fine, coarse, .. }) => {
                let own = of_row(ends, nodes, row.index());
                // A block of the engine that has only some of the trace's ends with the last of them.
                let last = ((position + 1) * coarse - 1) / fine;
                let at = if *coarse > 1 && position * coarse < own.len() as u32 {
                    last.min(own.len() as u32 - 1)
                } else {
                    last
                };
                own.get(at as usize).map(|node| node * fine + position % fine)
            }
            Kind::Sessions { .. } => self.shared(row, 0, position),
        }
    }
}
