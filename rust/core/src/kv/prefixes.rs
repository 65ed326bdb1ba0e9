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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::OutputIds;

    /// The contents of prompts with these ids of blocks of `theirs` tokens, in blocks of `ours`.
    fn from_ids(ends: &[usize], ids: &[u64], theirs: u32, ours: u32) -> Result<Prefixes, Error> {
        let prefix = PrefixIds {
            ends: ends.to_vec().into(),
            ids: ids.to_vec().into(),
            block_tokens: theirs,
            outputs: None,
        };
        Prefixes::new(&Trace { prefix: Some(prefix), ..Trace::default() }, ours)
    }

    #[test]
    fn requests_that_follow_keep_the_numbers_of_those_before() {
        let trace = |rows: usize| Trace {
            prompt_tokens: vec![4, 6, 4][..rows].to_vec().into(),
            prefix: Some(PrefixIds {
                ends: vec![2, 5, 7][..rows].to_vec().into(),
                ids: [7, 8, 7, 8, 9, 7, 6].into_iter().take([2, 5, 7][rows - 1]).collect::<Vec<_>>().into(),
                block_tokens: 2,
                outputs: Some(OutputIds { ends: vec![1; rows].into(), ids: vec![9].into() }),
            }),
            ..Trace::default()
        };
        let mut growing = Prefixes::growing(&trace(1), 2).unwrap();
        let before: Vec<_> = (0..2).map(|at| growing.shared(TraceRow(0), 4, at)).collect();
        for rows in [2, 3] {
            growing.extend(&trace(rows)).unwrap();
        }
        assert_eq!(before, (0..2).map(|at| growing.shared(TraceRow(0), 4, at)).collect::<Vec<_>>());
        // The second prompt begins with the first and its output; the third shares the first block.
        assert_eq!(growing.of_output(TraceRow(0), 4, 2), growing.shared(TraceRow(1), 6, 2));
        assert_eq!((growing.shared(TraceRow(2), 4, 0), growing.contents()), (before[0], 4));
        assert_ne!(growing.shared(TraceRow(2), 4, 1), before[1]);
    }

    /// The shared contents of two requests' first `blocks` blocks.
    fn contents(prefixes: &Prefixes, prompt: u32, blocks: u32) -> [Vec<Option<u32>>; 2] {
        [0, 1].map(|request| {
            (0..blocks).map(|block| prefixes.shared(TraceRow(request), prompt, block)).collect()
        })
    }

    #[test]
    fn a_block_of_the_trace_has_several_of_the_engine() {
        let prefixes = from_ids(&[2, 4], &[7, 8, 7, 9], 4, 2).expect("2 divides 4");
        assert_eq!(prefixes.contents(), 3 * 2, "three distinct blocks of 4 tokens are six of 2");
        let [one, other] = contents(&prefixes, 8, 4);
        assert_eq!(one[..2], other[..2], "both begin with the block 7");
        let mut all = [&one[..], &other[2..]].concat();
        all.sort_unstable();
        assert_eq!(all, (0..6).map(Some).collect::<Vec<_>>(), "all others differ");
        assert_eq!(prefixes.shared(TraceRow(0), 7, 2), one[2]);
        assert_eq!(prefixes.shared(TraceRow(0), 7, 3), None, "a prompt of 7 tokens fills three blocks");
        assert_eq!(prefixes.shared(TraceRow(0), 10, 4), None, "the trace has no id for the fifth block");
    }

    #[test]
    fn a_block_of_the_engine_has_several_of_the_trace() {
        let prefixes = from_ids(&[4, 8], &[1, 2, 3, 4, 1, 2, 3, 5], 2, 4).expect("2 divides 4");
        let [one, other] = contents(&prefixes, 8, 2);
        assert!(one[0].is_some() && one[0] == other[0]);
        assert!(one[1].is_some() && other[1].is_some() && one[1] != other[1], "its second half differs");
        let prefixes = from_ids(&[2, 5], &[1, 2, 1, 9, 3], 2, 4).expect("2 divides 4");
        assert!(prefixes.shared(TraceRow(0), 4, 0).is_some());
        assert_ne!(
            prefixes.shared(TraceRow(0), 4, 0),
            prefixes.shared(TraceRow(1), 4, 0),
            "only the first half is equal"
        );
        assert_eq!(prefixes.shared(TraceRow(1), 8, 1), None, "the trace has an id for half of it");
        // A block that is begun ends with the last id that the trace has of it.
        let begun = |row: u32, at: u32| prefixes.begun(TraceRow(row), at);
        assert_eq!(begun(1, 0), prefixes.shared(TraceRow(1), 4, 0));
        assert!(begun(1, 1).is_some() && begun(1, 1) != begun(1, 0) && begun(1, 1) != begun(0, 0));
        assert_eq!((begun(1, 2), begun(0, 1)), (None, None), "the trace has no id for a part of it");
        let one = from_ids(&[2, 4], &[1, 2, 1, 3], 2, 6).expect("2 divides 6");
        assert_eq!([0, 1].map(|row| one.begun(TraceRow(row), 1)), [None; 2]);
        assert!(
            one.begun(TraceRow(0), 0).is_some() && one.begun(TraceRow(0), 0) != one.begun(TraceRow(1), 0)
        );
    }

    #[test]
    fn a_begun_block_of_a_fine_engine_is_that_of_the_trace() {
        let prefixes = from_ids(&[2], &[7, 8], 4, 2).expect("2 divides 4");
        let all: Vec<_> = (0..5).map(|at| prefixes.begun(TraceRow(0), at)).collect();
        assert_eq!(all[..4], (0..4).map(|at| prefixes.shared(TraceRow(0), 8, at)).collect::<Vec<_>>());
        assert_eq!(all[4], None);
    }

    #[test]
    fn blocks_that_do_not_divide_each_other_are_refused() {
        for (theirs, ours, divides) in
            [(4, 3, false), (3, 4, false), (0, 4, false), (8, 4, true), (4, 8, true)]
        {
            assert_eq!(from_ids(&[1], &[1], theirs, ours).is_ok(), divides, "{theirs} and {ours}");
        }
    }

    #[test]
    fn numbers_of_contents_have_32_bits() {
        // 3 * 1431655765 is the number that stands for no content.
        for (ids, fits) in [(&[1, 2, 3][..], false), (&[1, 2], true)] {
            assert_eq!(from_ids(&[ids.len()], ids, 1_431_655_765, 1).is_ok(), fits);
        }
    }

    #[test]
    fn an_output_behind_a_block_without_an_id_has_contents_of_its_own() {
        // Row 0 has an id for the first of its two full blocks; its output has the id with which the other prompt begins.
        let ids = PrefixIds {
            ends: vec![1, 2].into(),
            ids: vec![7, 8].into(),
            block_tokens: 2,
            outputs: Some(OutputIds { ends: vec![1, 1].into(), ids: vec![8].into() }),
        };
        let trace = Trace { prompt_tokens: vec![4, 2].into(), prefix: Some(ids), ..Trace::default() };
        let prefixes = Prefixes::new(&trace, 2).unwrap();
        assert_eq!(prefixes.contents(), 3);
        assert_ne!(prefixes.of_output(TraceRow(0), 4, 2), prefixes.shared(TraceRow(1), 2, 0));
    }

    #[test]
    fn a_later_prompt_has_the_blocks_that_an_output_filled() {
        // Blocks of 2 tokens. Row 0: a prompt of 3 tokens, whose second block the output fills, and a third.
        // Row 1 continues that with a full prompt, row 2 with another third block.
        let ids = PrefixIds {
            ends: vec![2, 5, 8].into(),
            ids: vec![7, 8, 7, 8, 9, 7, 8, 6].into(),
            block_tokens: 2,
            outputs: Some(OutputIds { ends: vec![2, 2, 2].into(), ids: vec![8, 9].into() }),
        };
        let trace = Trace {
            arrival: vec![0; 3].into(),
            prompt_tokens: vec![3, 6, 6].into(),
            output_tokens: vec![3, 1, 1].into(),
            prefix: Some(ids),
            ..Trace::default()
        };
        trace.validate().unwrap();
        for (ours, filled) in [(2, 1..3), (1, 2..6)] {
            let prefixes = Prefixes::new(&trace, ours).unwrap();
            let output: Vec<_> = filled.clone().map(|at| prefixes.of_output(TraceRow(0), 3, at)).collect();
            let [later, other] = [1, 2].map(|row| {
                filled.clone().map(|at| prefixes.shared(TraceRow(row), 6, at)).collect::<Vec<_>>()
            });
            assert!(output.iter().all(Option::is_some), "{output:?}");
            let held: Vec<_> = filled.clone().map(|at| prefixes.shared(TraceRow(0), 3, at)).collect();
            assert_eq!(held, output, "the request has the blocks that its output fills");
            assert_eq!(output, later);
            assert_eq!(output[..output.len() / 2], other[..output.len() / 2]);
            assert_ne!(output, other);
            assert_eq!(prefixes.of_output(TraceRow(1), 6, 6 / ours), None, "its output has no ids");
        }
        let coarse = Prefixes::new(&trace, 4).unwrap();
        assert_eq!(coarse.of_output(TraceRow(0), 3, 0), coarse.shared(TraceRow(1), 6, 0));
        assert!(coarse.of_output(TraceRow(0), 3, 0).is_some());
    }

    #[test]
    fn an_output_continues_a_prompt_of_several_blocks() {
        // Blocks of 2 tokens. Row 0: a prompt of 5 tokens, whose third block the output fills, and a fourth. Row 1
        // begins with all four.
        let ids = PrefixIds {
            ends: vec![3, 7].into(),
            ids: vec![7, 8, 9, 7, 8, 9, 6].into(),
            block_tokens: 2,
            outputs: Some(OutputIds { ends: vec![2, 2].into(), ids: vec![9, 6].into() }),
        };
        let trace = Trace {
            arrival: vec![0; 2].into(),
            prompt_tokens: vec![5, 8].into(),
            output_tokens: vec![3, 1].into(),
            prefix: Some(ids),
            ..Trace::default()
        };
        trace.validate().unwrap();
        let prefixes = Prefixes::new(&trace, 2).unwrap();
        assert_eq!(prefixes.of_output(TraceRow(0), 5, 1), None, "the prompt fills it");
        for block in 2..4 {
            let filled = prefixes.of_output(TraceRow(0), 5, block);
            assert!(
                filled.is_some() && filled == prefixes.shared(TraceRow(1), 8, block),
                "block {block}: {filled:?}"
            );
        }
        assert_eq!(
            prefixes.shared(TraceRow(0), 5, 2),
            prefixes.of_output(TraceRow(0), 5, 2),
            "the output fills it"
        );
        let begun = [0, 1].map(|row| [1, 2, 3].map(|block| prefixes.begun(TraceRow(row), block)));
        assert_eq!(begun[0], [prefixes.shared(TraceRow(1), 8, 1), prefixes.shared(TraceRow(1), 8, 2), None]);
        assert_eq!(begun[1], [1, 2, 3].map(|block| prefixes.shared(TraceRow(1), 8, block)));
        assert_eq!(Prefixes::none().begun(TraceRow(0), 0), None);
    }

    #[test]
    fn a_turn_continues_its_session_unless_its_prompt_is_shorter() {
        let none = u32::MAX;
        // Row 2 continues row 0, which has 4 + 2 tokens. Row 5 has exactly the tokens of row 1, and continues it.
        // Row 4 is too short to continue row 2, and starts a conversation.
        let trace = Trace {
            prompt_tokens: vec![4, 3, 7, 9, 5, 4].into(),
            output_tokens: vec![2, 1, 3, 1, 1, 2].into(),
            arrival: vec![0; 6].into(),
            session: Some(vec![0, 1, 0, none, 0, 1].into()),
            ..Trace::default()
        };
        let prefixes = Prefixes::new(&trace, 2).expect("there are few blocks");
        let first: Vec<_> =
            (0..6).map(|row| prefixes.shared(TraceRow(row), trace.prompt_tokens[row as usize], 0)).collect();
        // The conversations have 10, 6 and 6 tokens: 5, 3 and 3 blocks.
        assert_eq!(first, [Some(0), Some(5), Some(0), None, Some(8), Some(5)]);
        assert_eq!((prefixes.shared(TraceRow(2), 7, 3), prefixes.contents()), (Some(3), 11));
        assert_eq!((prefixes.begun(TraceRow(2), 3), prefixes.begun(TraceRow(3), 0)), (Some(3), None));
    }
}
