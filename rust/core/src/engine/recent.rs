//! Values that monitors noted in the latest ticks, and how old they are.

use std::collections::VecDeque;

use crate::time::Ticks;

/// Drops what was noted `window` ago or before.
pub(super) fn drop_old<T>(entries: &mut VecDeque<(Ticks, T)>, window: Ticks, now: Ticks) {
    while entries.front().is_some_and(|(at, _)| !is_within(*at, window, now)) {
        entries.pop_front();
    }
}

/// Whether a moment is less than `window` ago.
pub(super) fn is_within(moment: Ticks, window: Ticks, now: Ticks) -> bool {
    moment.saturating_add(window) > now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_old_as_the_window_is_dropped() {
        let mut noted: VecDeque<_> = [(10, 'a'), (20, 'b'), (30, 'c')].into();
        drop_old(&mut noted, 10, 30);
        assert_eq!(noted, [(30, 'c')]);
        assert!(is_within(0, Ticks::MAX, Ticks::MAX - 1) && !is_within(30, 0, 30));
    }
}
