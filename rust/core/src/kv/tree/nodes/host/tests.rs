use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::kv::content::Content;
use crate::kv::tree::Found;

/// The contents of a sequence of symbols: each names all symbols up to it.
fn contents(sequence: &[u8]) -> Vec<Content> {
    let name = |end| sequence[..end].iter().fold(1, |name, &symbol| name * 11 + u32::from(symbol % 10) + 1);
    (1..=sequence.len()).map(|end| Content::shared(name(end))).collect()
}

fn find(tree: &RadixTree, sequence: &[u8]) -> Found {
    let contents = contents(sequence);
    tree.find(contents.len() as u32, |position| contents[position as usize])
}

fn insert(tree: &mut RadixTree, sequence: &[u8], before: u32) -> NodeId {
    let contents = contents(sequence);
    tree.insert(contents.len() as u32, before, |position| contents[position as usize])
}

fn tree(capacity: u64, least: Option<u32>) -> RadixTree {
    RadixTree::default().with_host(capacity, least)
}

/// Ends all writes to the host.
fn end_writes(tree: &mut RadixTree) -> u64 {
    let written = tree.take_written(0);
    for &(node, _) in &written {
        tree.unlock(node);
    }
    written.iter().map(|&(_, blocks)| blocks).sum()
}

/// The blocks of a sequence on the GPU, and those after them that the host alone has.
fn places(tree: &RadixTree, sequence: &[u8]) -> (u32, u32) {
    let found = find(tree, sequence);
    (found.blocks, found.on_host)
}

#[test]
fn what_is_inserted_is_written_and_locked_until_it_is_and_stays_once_it_is_evicted() {
    let mut tree = tree(9, Some(1));
    insert(&mut tree, b"abcd", 0);
    assert_eq!((tree.on_host(), tree.unlocked(), tree.evict()), (4, 0, vec![]));
    assert_eq!((end_writes(&mut tree), tree.unlocked()), (4, 4));
    assert_eq!(tree.evict(), contents(b"abcd"));
    assert_eq!((places(&tree, b"abz"), tree.blocks(), tree.on_host()), ((0, 2), 0, 4));
    // It comes back with the blocks of a request that computes it again.
    insert(&mut tree, b"abce", 0);
    assert_eq!(places(&tree, b"abcd"), (3, 1));
    assert_eq!((end_writes(&mut tree), tree.on_host()), (1, 5), "the host has its beginning");
}

#[test]
fn a_node_is_written_with_the_second_insertion_and_what_is_above_it_before() {
    let mut tree = tree(9, Some(2));
    insert(&mut tree, b"ab", 0);
    insert(&mut tree, b"abcd", 2);
    assert_eq!(
        (end_writes(&mut tree), tree.on_host()),
        (0, 0),
        "the request has inserted the first two before"
    );
    insert(&mut tree, b"abcd", 2);
    assert_eq!((end_writes(&mut tree), tree.on_host()), (4, 4));
}

#[test]
fn the_host_evicts_the_leaf_that_it_alone_has_and_was_used_the_longest_ago() {
    let mut tree = tree(4, Some(1));
    for sequence in [b"ab", b"cd"] {
        insert(&mut tree, sequence, 0);
        end_writes(&mut tree);
    }
    insert(&mut tree, b"ef", 0);
    assert_eq!((end_writes(&mut tree), tree.host_counters().refused), (0, 1), "the GPU has both, too");
    for _ in 0..3 {
        tree.evict();
    }
    assert_eq!((places(&tree, b"ef"), places(&tree, b"ab")), ((0, 0), (0, 2)));
    tree.use_prefix(&mut find(&tree, b"ab"));
    insert(&mut tree, b"g", 0);
    assert_eq!((end_writes(&mut tree), places(&tree, b"ab"), places(&tree, b"cd")), (1, (0, 2), (0, 0)));
    assert_eq!((tree.on_host(), tree.host_counters().evicted), (3, 2));
}

#[test]
fn a_load_is_locked_until_it_has_ended() {
    let mut tree = tree(9, Some(1));
    insert(&mut tree, b"abcd", 0);
    end_writes(&mut tree);
    tree.evict();
    let end = tree.use_prefix(&mut find(&tree, b"abc"));
    tree.lock(end);
    tree.load(end);
    tree.unlock(end);
    assert_eq!((places(&tree, b"abcd"), tree.blocks(), tree.unlocked()), ((3, 1), 3, 0));
    tree.end_load(end);
    assert_eq!((tree.unlocked(), tree.evict(), tree.on_host()), (3, contents(b"abc"), 4));
}

#[test]
fn what_is_evicted_is_written_at_once_and_copies_are_given_up_for_it() {
    let mut tree = tree(3, None);
    insert(&mut tree, b"abc", 0);
    assert_eq!((tree.evict(), tree.take_at_once(), tree.on_host()), (contents(b"abc"), vec![3], 3));
    let end = tree.use_prefix(&mut find(&tree, b"abc"));
    tree.lock(end);
    tree.load(end);
    tree.unlock(end);
    insert(&mut tree, b"de", 0);
    // The load reads the host's copy, so that there is no room: the node is lost.
    assert_eq!((tree.evict(), tree.on_host(), places(&tree, b"de")), (contents(b"de"), 3, (0, 0)));
    tree.end_load(end);
    insert(&mut tree, b"de", 0);
    tree.use_prefix(&mut find(&tree, b"abc"));
    assert_eq!((tree.evict(), tree.take_at_once()), (contents(b"de"), vec![2]));
    assert_eq!((places(&tree, b"abc"), places(&tree, b"de"), tree.on_host()), ((3, 0), (0, 2), 2));
}

/// A use of a sequence.
#[derive(Debug, Clone)]
enum Deed {
    Use,
    Insert,
    Load,
    EndLoads,
    EndWrites,
    Evict,
}

fn deeds() -> impl Strategy<Value = Vec<(Deed, Vec<u8>)>> {
    let deed = prop_oneof![
        2 => Just(Deed::Use),
        4 => Just(Deed::Insert),
        2 => Just(Deed::Load),
        1 => Just(Deed::EndLoads),
        2 => Just(Deed::EndWrites),
        4 => Just(Deed::Evict),
    ];
    vec((deed, vec(0u8..3, 1..6)), 1..60)
}

/// Checks the accounts of the GPU and of the host against the nodes, and what may be evicted.
fn check(tree: &RadixTree) {
    let host = tree.host.as_deref().expect("there is one");
    let nodes = || (1..tree.nodes.len()).map(|at| &tree.nodes[at]).filter(|node| node.blocks() > 0);
    let sum = |counts: fn(&Node) -> bool| nodes().filter(|node| counts(node)).map(Node::blocks).sum::<u64>();
    assert_eq!(tree.blocks, sum(|node| node.places.gpu));
    assert_eq!(tree.unlocked, sum(|node| node.places.gpu && node.locks == 0));
    assert_eq!(host.used, sum(|node| node.places.host));
    assert!(host.used <= host.capacity);
    assert_eq!(tree.leaves.len(), nodes().filter(|node| node.is_leaf_on_gpu()).count());
    assert_eq!(host.leaves.len(), nodes().filter(|node| node.is_leaf_on_host()).count());
    for node in nodes() {
        assert!(node.places.gpu || node.places.host, "a node is somewhere");
        let above = tree.node(node.above);
        assert!(node.above == NodeId::ROOT || above.places.gpu || !node.places.gpu);
        assert!(above.locks >= node.locks || node.above == NodeId::ROOT);
    }
}

proptest! {
    #[test]
    fn the_accounts_are_those_of_the_nodes(deeds in deeds(), capacity in 1u64..12, least in 0u32..3) {
        let mut tree = tree(capacity, (least > 0).then_some(least));
        let mut loads = Vec::new();
        for (deed, sequence) in deeds {
            match deed {
                Deed::Use => {
                    tree.use_prefix(&mut find(&tree, &sequence));
                }
                Deed::Insert => {
                    insert(&mut tree, &sequence, 0);
                }
                Deed::Load => {
                    let mut found = find(&tree, &sequence);
                    let end = tree.use_prefix(&mut found);
                    if found.on_host > 0 {
                        tree.lock(end);
                        tree.load(end);
                        tree.unlock(end);
                        loads.push(end);
                    }
                }
                Deed::EndLoads => loads.drain(..).for_each(|end| tree.end_load(end)),
                Deed::EndWrites => {
                    end_writes(&mut tree);
                }
                Deed::Evict => {
                    let unlocked = tree.unlocked();
                    let evicted = tree.evict().len() as u64;
                    prop_assert_eq!(tree.unlocked(), unlocked - evicted);
                    prop_assert_eq!(evicted == 0, unlocked == 0, "what nothing has locked can be evicted");
                }
            }
            check(&tree);
        }
    }
}

#[test]
fn what_is_read_becomes_nodes_of_the_host_below_the_one_where_the_read_began() {
    let mut tree = tree(9, Some(1));
    insert(&mut tree, b"ab", 0);
    end_writes(&mut tree);
    let end = insert(&mut tree, b"ab", 2);
    let anchor = tree.lock_on_host(end);
    assert_eq!(tree.take_room(4, 1), 4);
    assert_eq!((tree.on_host(), tree.host_counters().peak), (6, 6), "room is taken before");
    // Another request computes the third block meanwhile, and the GPU alone has the fourth of another sequence.
    insert(&mut tree, b"abc", 2);
    assert_eq!(tree.on_host(), 7);
    let rest: Vec<_> = contents(b"abcdef").split_off(2);
    assert_eq!(tree.insert_read(anchor, &rest[..3]), 1, "the host had the third block");
    tree.leave_room(1);
    tree.unlock_on_host(anchor);
    tree.check_accounts();
    assert_eq!((places(&tree, b"abcdef"), tree.on_host()), ((3, 2), 5));
}

#[test]
fn a_node_of_the_gpu_on_the_way_of_a_read_is_then_on_the_host_too() {
    let mut tree = tree(9, Some(2));
    insert(&mut tree, b"abcd", 0);
    let anchor = tree.lock_on_host(NodeId::ROOT);
    assert_eq!(tree.take_room(3, 1), 3);
    assert_eq!(tree.insert_read(anchor, &contents(b"abz")), 0);
    tree.check_accounts();
    assert_eq!((places(&tree, b"abcd"), places(&tree, b"abz"), tree.on_host()), ((4, 0), (2, 1), 3));
    assert_eq!(tree.evict(), contents(b"abcd").split_off(2), "the end of the node is lost");
    assert_eq!(tree.evict(), contents(b"ab"));
    assert_eq!((places(&tree, b"abcd"), tree.on_host()), ((0, 2), 3));
}

#[test]
fn a_node_on_the_way_of_a_read_is_used_later_than_all_others() {
    let mut tree = tree(12, Some(1));
    for sequence in [b"abcd", b"wxyz"] {
        insert(&mut tree, sequence, 0);
        end_writes(&mut tree);
        tree.evict();
    }
    let anchor = tree.lock_on_host(NodeId::ROOT);
    assert_eq!(tree.take_room(4, 4), 4);
    assert_eq!(tree.insert_read(anchor, &contents(b"abcd")), 4, "the host had it");
    assert_eq!((tree.take_room(4, 4), places(&tree, b"wxyz")), (4, (0, 4)), "there is room");
    tree.leave_room(3);
    assert_eq!((tree.take_room(4, 4), places(&tree, b"abcd"), places(&tree, b"wxyz")), (4, (0, 4), (0, 0)));
}

#[test]
fn a_node_that_is_locked_on_the_host_is_not_evicted_from_it_though_it_is_split() {
    let mut tree = tree(4, Some(1));
    let end = insert(&mut tree, b"abcd", 0);
    end_writes(&mut tree);
    let locks = tree.lock_parts(end, 4);
    let keys: Vec<_> = contents(b"abcd").into_iter().map(Content::key).collect();
    assert_eq!((locks.len(), &locks[0].1), (1, &keys));
    tree.evict();
    let mut found = find(&tree, b"abz");
    tree.use_prefix(&mut found);
    assert_eq!(tree.lock_parts(end, 4).into_iter().map(|(_, keys)| keys.len()).collect::<Vec<_>>(), [2, 2]);
    assert_eq!((tree.take_room(3, 1), tree.on_host()), (0, 4), "both parts are locked");
    for id in [found.end(), end] {
        tree.node_mut(id).places.host_locks -= 1;
    }
    tree.unlock_on_host(locks[0].0);
    assert_eq!((tree.take_room(3, 1), places(&tree, b"abcd")), (3, (0, 0)));
    tree.check_accounts();
}

#[test]
fn a_read_takes_less_room_than_it_wants_if_that_is_enough() {
    for (least, room) in [(1, 2), (2, 2), (3, 0)] {
        let mut tree = tree(6, Some(1));
        insert(&mut tree, b"abcd", 0);
        assert_eq!(tree.take_room(5, least), room, "the node is being written");
        tree.leave_room(room);
        assert_eq!(tree.on_host(), 4);
    }
}
