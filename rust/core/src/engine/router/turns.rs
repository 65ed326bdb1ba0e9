//! Which instance is next in turn.

/// The first of `n` instances from `next` on, around, that serves a request; and the one after it.
pub(super) fn next_in_turn(next: usize, n: usize, serves: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
    let picked = (next..n).chain(0..next).find(|&i| serves(i))?;
    Some((picked, if picked + 1 == n { 0 } else { picked + 1 }))
}

/// The first of the members, of `n` instances, from `next` on, around, that serves a request; and the instance after it.
pub(super) fn next_of(
    members: &[usize],
    next: usize,
    n: usize,
    serves: impl Fn(usize) -> bool,
) -> Option<(usize, usize)> {
    let at = members.partition_point(|&member| member < next);
    let picked = members[at..].iter().chain(&members[..at]).copied().find(|&i| serves(i))?;
    Some((picked, if picked + 1 == n { 0 } else { picked + 1 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_around_and_pass_over_instances_that_do_not_serve() {
        assert_eq!(next_in_turn(1, 3, |_| true), Some((1, 2)));
        assert_eq!(next_of(&[0, 2, 3], 1, 5, |_| true), Some((2, 3)));
        assert_eq!(next_of(&[0, 2, 4], 3, 5, |_| true), Some((4, 0)));
        assert_eq!(next_of(&[0, 2, 4], 3, 5, |i| i != 4), Some((0, 1)));
        assert_eq!(next_of(&[], 3, 5, |_| true), None);
        assert_eq!(next_in_turn(2, 3, |_| true), Some((2, 0)));
        assert_eq!(next_in_turn(2, 3, |i| i == 1), Some((1, 2)));
        assert_eq!(next_in_turn(0, 3, |_| false), None);
    }
}
