use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// Numbers for the contents of sequences of symbols: each names all symbols up to it.
#[derive(Debug, Default)]
struct Names(BTreeMap<Vec<u8>, u32>);

impl Names {
    fn of(&mut self, sequence: &[u8]) -> Vec<Content> {
        let next = |names: &mut BTreeMap<Vec<u8>, u32>, prefix: &[u8]| {
            let number = names.len() as u32;
            *names.entry(prefix.to_vec()).or_insert(number)
        };
        (1..=sequence.len()).map(|end| Content::shared(next(&mut self.0, &sequence[..end]))).collect()
    }
}

fn find(tree: &RadixTree, contents: &[Content]) -> Found {
    tree.find(contents.len() as u32, |position| contents[position as usize])
}

fn insert(tree: &mut RadixTree, contents: &[Content]) -> NodeId {
    tree.insert(contents.len() as u32, 0, |position| contents[position as usize])
}

#[test]
fn a_lookup_that_ends_inside_a_node_splits_it_and_uses_its_beginning() {
    let (mut tree, mut names) = (RadixTree::default(), Names::default());
    insert(&mut tree, &names.of(b"abcd"));
    insert(&mut tree, &names.of(b"xy"));
    let mut found = find(&tree, &names.of(b"abz"));
    assert_eq!((found.blocks, tree.unlocked_of(&found)), (2, 2));
    tree.use_prefix(&mut found);
    assert_eq!(tree.evict(), names.of(b"xy"), "it was used before the split");
    assert_eq!(tree.evict(), names.of(b"abcd")[2..]);
    assert_eq!(tree.evict(), names.of(b"ab"));
    assert_eq!((tree.evict(), tree.blocks()), (vec![], 0));
}

#[test]
fn a_node_that_is_split_keeps_its_place_among_those_below_the_same_one() {
    let (mut tree, mut names) = (RadixTree::default(), Names::default());
    insert(&mut tree, &names.of(b"abcd"));
    insert(&mut tree, &names.of(b"xy"));
    insert(&mut tree, &names.of(b"abe"));
    let path = |names: &mut Names, sequence: &[u8]| tree.path_down(&find(&tree, &names.of(sequence)));
    let [abcd, abe, xy] = [&b"abcd"[..], b"abe", b"xy"].map(|sequence| path(&mut names, sequence));
    assert_eq!((abcd.len(), abe.len(), xy.len()), (2, 2, 1));
    assert_eq!(abcd[0], abe[0], "both begin with the same node");
    assert!(abcd[0].1 < xy[0].1 && abcd[1].1 < abe[1].1, "the older one is first");
    assert_eq!(path(&mut names, b"z"), []);
}

#[test]
fn a_locked_path_is_not_evicted_and_what_is_below_it_is() {
    let (mut tree, mut names) = (RadixTree::default(), Names::default());
    let whole = insert(&mut tree, &names.of(b"abc"));
    let mut found = find(&tree, &names.of(b"ab"));
    let begin = tree.use_prefix(&mut found);
    tree.lock(begin);
    assert_eq!((tree.locked(), tree.unlocked(), tree.unlocked_of(&found)), (2, 1, 0));
    assert_eq!(tree.evict(), names.of(b"abc")[2..]);
    assert_eq!(tree.evict(), []);
    tree.unlock(begin);
    assert_eq!((tree.evict(), tree.blocks()), (names.of(b"ab"), 0));
    assert_ne!(whole, begin);
}

#[test]
fn an_insertion_adds_what_the_tree_lacks() {
    let (mut tree, mut names) = (RadixTree::default(), Names::default());
    let end = insert(&mut tree, &names.of(b"abc"));
    assert_eq!(insert(&mut tree, &names.of(b"abc")), end);
    insert(&mut tree, &names.of(b"abd"));
    assert_eq!((tree.blocks(), find(&tree, &names.of(b"abde")).blocks), (4, 3));
}

/// A use of a sequence.
#[derive(Debug, Clone)]
enum Deed {
    Look,
    Lock,
    Insert,
    Unlock(usize),
    Evict,
}

fn deeds() -> impl Strategy<Value = Vec<(Deed, Vec<u8>)>> {
    let deed = prop_oneof![
        2 => Just(Deed::Look),
        2 => Just(Deed::Lock),
        4 => Just(Deed::Insert),
        2 => any::<usize>().prop_map(Deed::Unlock),
        2 => Just(Deed::Evict),
    ];
    vec((deed, vec(0..3_u8, 1..9)), 1..80)
}

proptest! {
    /// A tree has the prefixes that were inserted and not evicted; it evicts ends of these, and none that is locked.
    #[test]
    fn a_tree_has_what_was_inserted_and_not_evicted(deeds in deeds()) {
        let (mut tree, mut names) = (RadixTree::default(), Names::default());
        let mut there: BTreeSet<Vec<u8>> = BTreeSet::new();
        let mut locks: Vec<(NodeId, Vec<u8>)> = Vec::new();
        for (deed, sequence) in deeds {
            let contents = names.of(&sequence);
            let cached = (1..=sequence.len()).take_while(|&end| there.contains(&sequence[..end])).count();
            let mut found = find(&tree, &contents);
            prop_assert_eq!(found.blocks as usize, cached);
            match deed {
                Deed::Look => {
                    tree.use_prefix(&mut found);
                }
                Deed::Lock => {
                    let node = tree.use_prefix(&mut found);
                    tree.lock(node);
                    locks.push((node, sequence[..cached].to_vec()));
                }
                Deed::Insert => {
                    insert(&mut tree, &contents);
                    there.extend((1..=sequence.len()).map(|end| sequence[..end].to_vec()));
                }
                Deed::Unlock(at) => {
                    if !locks.is_empty() {
                        let (node, _) = locks.swap_remove(at % locks.len());
                        tree.unlock(node);
                    }
                }
                Deed::Evict => {
                    let evicted = tree.evict();
                    let gone: Vec<_> = names
                        .0
                        .iter()
                        .filter(|(_, number)| evicted.contains(&Content::shared(**number)))
                        .map(|(prefix, _)| prefix.clone())
                        .collect();
                    prop_assert_eq!(gone.len(), evicted.len());
                    for prefix in &gone {
                        prop_assert!(there.remove(prefix), "it was there");
                    }
                    for prefix in &gone {
                        let below = |other: &&Vec<u8>| other.starts_with(prefix);
                        prop_assert!(!there.iter().any(|other| below(&other)), "it ends sequences");
                        prop_assert!(!locks.iter().any(|(_, locked)| below(&locked)), "it is not locked");
                    }
                }
            }
            let locked: BTreeSet<_> =
                locks.iter().flat_map(|(_, prefix)| (1..=prefix.len()).map(|end| prefix[..end].to_vec())).collect();
            prop_assert_eq!((tree.blocks(), tree.locked()), (there.len() as u64, locked.len() as u64));
        }
    }
}
