//! Picks one of the instances whose keys are equal, and compares drawn instances only.

use std::cmp::Ordering;

use super::draws::Draws;
use super::pick::Candidates;
use crate::policy::{Pick, Ties, sort_key_now};

/// The memory of a rule that picks, and its random numbers.
pub(super) struct Memory<'a> {
    /// The instance from which equals are counted, where that is remembered.
    pub(super) turn: &'a mut usize,
    /// The numbers of the router.
    pub(super) draws: &'a mut Draws,
    /// The row of the request.
    pub(super) row: usize,
}

/// The instance that `pick` picks: of the able ones, or of those drawn from them, the lowest one that its ties prefer.
pub(super) fn lowest<V: Candidates>(
    pick: &Pick,
    view: &mut V,
    able: &[usize],
    memory: &mut Memory,
) -> Option<usize> {
    let found = if let Some(k) = pick.among {
        let mut drawn = Vec::new();
        memory.draws.sample(able.len(), k as usize, &mut drawn);
        let drawn: Vec<usize> = drawn.into_iter().map(|at| able[at]).collect();
        equals(pick, &drawn, view)
    } else {
        equals(pick, able, view)
    };
    prefer(&pick.ties, &found, view.instances(), memory)
}

/// The candidates for which the condition holds and no other has lower keys, in their order.
fn equals<V: Candidates>(pick: &Pick, candidates: &[usize], view: &mut V) -> Vec<usize> {
    let (mut found, mut least, mut keys) = (Vec::new(), Vec::new(), Vec::new());
    for &i in candidates {
        view.consider(i);
        if pick.r#where.as_ref().is_some_and(|condition| !view.holds(condition)) {
            continue;
        }
        keys.clear();
        keys.extend(pick.min.iter().map(|key| sort_key_now(key, view)));
        let order = if found.is_empty() { Ordering::Less } else { keys.cmp(&least) };
        if order == Ordering::Less {
            found.clear();
            std::mem::swap(&mut keys, &mut least);
        }
        if order != Ordering::Greater {
            found.push(i);
        }
    }
    found
}

/// The one of equal instances that `ties` prefers, of `n` instances.
fn prefer(ties: &Ties, equals: &[usize], n: usize, memory: &mut Memory) -> Option<usize> {
    let (&first, &last) = (equals.first()?, equals.last()?);
    Some(match ties {
        Ties::First => first,
        Ties::Last => last,
        Ties::Next | Ties::Rotate | Ties::Spread => {
            let from = *memory.turn;
            equals.iter().copied().min_by_key(|i| (i + n - from) % n)?
        }
        Ties::Random if equals.len() == 1 => first,
        Ties::Random => equals[memory.draws.below(equals.len())],
        Ties::Given(given) => {
            let wanted = given.get(memory.row).map(|&instance| instance as usize);
            wanted.filter(|instance| equals.contains(instance)).unwrap_or(first)
        }
    })
}

/// Notes that a rule picked an instance, of `n`.
pub(super) fn note(ties: &Ties, picked: usize, n: usize, turn: &mut usize) {
    match ties {
        Ties::Next => *turn = (picked + 1) % n,
        Ties::Rotate => *turn = (*turn + 1) % n,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Which of the equals 1, 3 and 4 of 6 instances is preferred, with the turn at `turn` and for row 2.
    fn preferred(ties: &Ties, mut turn: usize) -> usize {
        let mut memory = Memory { turn: &mut turn, draws: &mut Draws::new(5, 0), row: 2 };
        prefer(ties, &[1, 3, 4], 6, &mut memory).unwrap()
    }

    #[test]
    fn ties_go_where_they_are_said_to_go() {
        assert_eq!((preferred(&Ties::First, 4), preferred(&Ties::Last, 0)), (1, 4));
        for (from, picked) in [(0, 1), (1, 1), (2, 3), (3, 3), (4, 4), (5, 1)] {
            for ties in [Ties::Next, Ties::Rotate, Ties::Spread] {
                assert_eq!(preferred(&ties, from), picked, "{ties:?} from {from}");
            }
        }
        assert_eq!(preferred(&Ties::Given(vec![1, 1, 3]), 0), 3);
        assert_eq!(preferred(&Ties::Given(vec![3, 3, 2]), 0), 1, "2 is not among the equals");
        assert_eq!(preferred(&Ties::Given(vec![3]), 0), 1, "none is given for the row");
        assert_eq!(preferred(&Ties::Random, 0), [1, 3, 4][Draws::new(5, 0).below(3)]);
    }

    #[test]
    fn a_single_lowest_instance_takes_no_draw() {
        let mut draws = Draws::new(5, 0);
        let mut memory = Memory { turn: &mut 0, draws: &mut draws, row: 0 };
        assert_eq!(prefer(&Ties::Random, &[2], 3, &mut memory), Some(2));
        assert_eq!(prefer(&Ties::Random, &[], 3, &mut memory), None);
        assert_eq!(draws.below(1000), Draws::new(5, 0).below(1000));
    }

    #[test]
    fn turns_move_with_the_pick_or_by_one() {
        let mut turn = 4;
        note(&Ties::Next, 2, 5, &mut turn);
        assert_eq!(turn, 3);
        note(&Ties::Rotate, 1, 5, &mut turn);
        assert_eq!(turn, 4);
        note(&Ties::Rotate, 1, 5, &mut turn);
        assert_eq!(turn, 0);
        note(&Ties::Spread, 3, 5, &mut turn);
        assert_eq!(turn, 0);
    }
}
