//! Straight lines between whole numbers.

/// The value at `n` of the line through points that rise in their first number,
/// rounded down. Before the first point the line starts at 0 and 0; past the
/// last one the value stays.
pub(super) fn between(points: &[(u64, u64)], n: u64) -> u64 {
    // Most curves have a point at every whole number from 1 on.
    if let Some(&(at, value)) = points.get(n.saturating_sub(1) as usize)
        && at == n
    {
        return value;
    }
    let next = points.partition_point(|&(at, _)| at < n);
    let before = next.checked_sub(1).map_or((0, 0), |last| points[last]);
    match points.get(next) {
        None => before.1,
        Some(&(at, value)) if at == n => value,
        Some(&(at, value)) => {
            let rise = u128::from(value.saturating_sub(before.1));
            let part = rise * u128::from(n - before.0) / u128::from(at - before.0);
            before.1.saturating_add(part as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_from_nothing_through_its_points_and_stays() {
        let points = [(2, 10), (3, 20), (7, 21)];
        let values = [0, 1, 2, 3, 4, 5, 6, 7, 8, u64::MAX].map(|n| between(&points, n));
        assert_eq!(values, [0, 5, 10, 20, 20, 20, 20, 21, 21, 21]);
    }

    #[test]
    fn points_at_every_number_are_met() {
        let points = [(1, 4), (2, 6), (3, 7)];
        assert_eq!([0, 1, 2, 3, 4].map(|n| between(&points, n)), [0, 4, 6, 7, 7]);
        assert_eq!(between(&[], 5), 0);
    }
}
