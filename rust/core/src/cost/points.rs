//! Straight lines between whole numbers.

/// The value at `n` of the line through points that rise in their first number,
/// rounded down. Before the first point the line starts at 0 and 0; past the
/// last one the value stays.
#[inline]
pub(super) fn between(points: &[(u64, u64)], n: u64) -> u64 {
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
