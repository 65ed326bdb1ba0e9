//! Numbers of contents, given to the nodes of a tree of ids.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// A tree of ids: each distinct path from the root has a number.
///
/// The nodes that nothing has any more may be removed. Their numbers are given to later ones.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ContentTree {
    /// By the node before and the id: the number.
    nodes: FxHashMap<(u32, u64), u32>,
    /// By number: the node before and the id.
    keys: Vec<(u32, u64)>,
    /// Numbers that no node has.
    vacant: Vec<u32>,
    /// Nodes that were left when some were last removed.
    left: usize,
}

impl ContentTree {
    /// The number of the node of `id` after `parent`: any number, if it is the first.
    pub(super) fn number(&mut self, parent: u32, id: u64) -> u32 {
        let Self { nodes, keys, vacant, .. } = self;
        *nodes.entry((parent, id)).or_insert_with(|| {
            if let Some(number) = vacant.pop() {
                keys[number as usize] = (parent, id);
                return number;
            }
            keys.push((parent, id));
            (keys.len() - 1) as u32
        })
    }

    /// How many numbers have been given, each of which is below.
    pub(super) fn numbers(&self) -> usize {
        self.keys.len()
    }

    /// Whether so many nodes have been added since some were last removed that it is time to look again, where that reads
    /// `others` things besides the nodes.
    pub(super) fn is_due(&self, others: usize) -> bool {
        self.nodes.len() >= self.left + self.left.max(others).max(1)
    }

    /// Removes the nodes that are not among `used`, and lead to none of them. A number that is none is passed over.
    pub(super) fn keep(&mut self, used: impl Iterator<Item = u32>) {
        let mut kept = vec![false; self.keys.len()];
        for mut node in used {
            while let Some(kept) = kept.get_mut(node as usize)
                && !*kept
            {
                *kept = true;
                node = self.keys[node as usize].0;
            }
        }
        for (number, key) in (0..).zip(&mut self.keys) {
            // A number that is vacant already has no node.
            if !kept[number as usize] && key.0 != number {
                self.nodes.remove(key);
                *key = (number, 0);
                self.vacant.push(number);
            }
        }
        self.left = self.nodes.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of no node.
    const NONE: u32 = u32::MAX;

    fn path(tree: &mut ContentTree, ids: &[u64]) -> Vec<u32> {
        let mut parent = NONE;
        ids.iter()
            .map(|&id| {
                parent = tree.number(parent, id);
                parent
            })
            .collect()
    }

    #[test]
    fn numbers_of_removed_nodes_are_given_again() {
        let mut tree = ContentTree::default();
        let first = path(&mut tree, &[1, 2, 3]);
        let other = path(&mut tree, &[1, 4]);
        assert_eq!((first[0], tree.numbers()), (other[0], 4));
        // The last node of the first path keeps those before it.
        tree.keep([first[2], 99].into_iter());
        assert_eq!(path(&mut tree, &[1, 2, 3]), first);
        assert_eq!(path(&mut tree, &[5])[0], other[1], "that number was free");
        assert_eq!(tree.numbers(), 4);
        tree.keep(std::iter::empty());
        tree.keep(std::iter::empty());
        let again = path(&mut tree, &[6, 7, 8, 9]);
        let mut sorted = again.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3], "{again:?}");
    }

    #[test]
    fn removal_is_due_when_the_tree_has_doubled() {
        let mut tree = ContentTree::default();
        assert!(!tree.is_due(0));
        let nodes = path(&mut tree, &[1, 2, 3]);
        assert!(tree.is_due(3) && !tree.is_due(4));
        tree.keep(nodes.into_iter());
        path(&mut tree, &[4, 5]);
        assert!(!tree.is_due(0));
        path(&mut tree, &[6]);
        assert!(tree.is_due(3) && !tree.is_due(4));
    }
}
