//! Contents that prompts and outputs share, by small traces.

use super::Prefixes;
use crate::error::Error;
use crate::trace::{OutputIds, PrefixIds, Trace, TraceRow};

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

#[test]
fn contents_of_forgotten_requests_keep_their_numbers_while_they_are_held() {
    // Blocks of four tokens, each of which is two of the engine's.
    let trace = |rows: &[[u64; 3]]| Trace {
        prompt_tokens: vec![12; rows.len()].into(),
        prefix: Some(PrefixIds {
            ends: (1..=rows.len()).map(|row| 3 * row).collect::<Vec<_>>().into(),
            ids: rows.concat().into(),
            block_tokens: 4,
            outputs: None,
        }),
        ..Trace::default()
    };
    let (one, other) = ([7, 8, 9], [4, 5, 6]);
    let mut growing = Prefixes::growing(&trace(&[one]), 2).unwrap();
    let of =
        |growing: &Prefixes, row| (0..6).map(|at| growing.shared(TraceRow(row), 12, at)).collect::<Vec<_>>();
    let before = of(&growing, 0);
    growing.forget(1, 1, before[4].into_iter());
    growing.extend(&trace(&[one, one])).unwrap();
    assert_eq!(of(&growing, 1), before, "the fifth block follows the first four");
    growing.extend(&trace(&[one, one, other])).unwrap();
    growing.forget(3, 0, std::iter::empty());
    growing.extend(&trace(&[one, one, other, [1, 2, 3]])).unwrap();
    assert_eq!(growing.contents(), 12, "nothing has the blocks of the first three any more");
}

/// The shared contents of two requests' first `blocks` blocks.
fn contents(prefixes: &Prefixes, prompt: u32, blocks: u32) -> [Vec<Option<u32>>; 2] {
    [0, 1].map(|request| (0..blocks).map(|block| prefixes.shared(TraceRow(request), prompt, block)).collect())
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
fn numbers_that_do_not_follow_one_another_end_with_the_range_and_with_the_prompt() {
    // The second request's blocks of the trace are the first and the third that were numbered.
    let prefixes = from_ids(&[2, 4], &[7, 8, 7, 9], 4, 2).expect("2 divides 4");
    let row = TraceRow(1);
    let each: Vec<_> = (0..4).map(|block| prefixes.shared(row, 8, block)).collect();
    assert_eq!(prefixes.numbers(row, 8, 0..3).collect::<Vec<_>>(), each[..3]);
    assert_eq!(prefixes.numbers(row, 8, 1..4).collect::<Vec<_>>(), each[1..]);
    let cut: Vec<_> = prefixes.numbers(row, 7, 2..4).collect();
    assert_eq!(cut, [each[2], None], "a prompt of 7 tokens fills three blocks");
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
    assert!(one.begun(TraceRow(0), 0).is_some() && one.begun(TraceRow(0), 0) != one.begun(TraceRow(1), 0));
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
    for (theirs, ours, divides) in [(4, 3, false), (3, 4, false), (0, 4, false), (8, 4, true), (4, 8, true)] {
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
fn numbers_of_the_contents_of_sessions_have_32_bits() {
    for (prompt, fits) in [(u32::MAX - 1, false), (u32::MAX - 2, true)] {
        let trace = Trace {
            arrival: vec![0].into(),
            prompt_tokens: vec![prompt].into(),
            output_tokens: vec![1].into(),
            session: Some(vec![0].into()),
            ..Trace::default()
        };
        assert_eq!(Prefixes::new(&trace, 1).is_ok(), fits, "{prompt} and 1 blocks");
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
        let [later, other] = [1, 2]
            .map(|row| filled.clone().map(|at| prefixes.shared(TraceRow(row), 6, at)).collect::<Vec<_>>());
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
