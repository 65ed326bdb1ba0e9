use super::*;
use proptest::prelude::*;

/// A reading of a process that adds `rate` a tick from the start on.
fn reading(now: Ticks, rate: u64) -> Reading {
    Reading {
        state: State { running: now * rate % 7, ..State::default() },
        sums: Sums { steps: now * rate, running_ticks: u128::from(now * rate) << 70, ..Sums::default() },
    }
}

/// The timeline of a replay that ends at `end`.
fn sampled(every: Ticks, most: u64, end: Ticks) -> Timeline {
    let mut timeline = Timeline::new(Sample { every, most }, 2);
    while timeline.next() <= end {
        timeline.make_room();
        let now = timeline.next();
        if now <= end {
            timeline.push([reading(now, 3), reading(now, 5)].into_iter());
        }
    }
    timeline.finish(end, [reading(end, 3), reading(end, 5)].into_iter());
    timeline
}

fn column(rows: &Rows, name: &str) -> Vec<u64> {
    rows.whole().find(|column| column.0 == name).unwrap().1
}

#[test]
fn sums_are_of_the_interval_and_states_of_its_end() {
    let rows = sampled(10, 100, 25).rows();
    assert_eq!((rows.every, rows.instances, rows.times.as_slice()), (10, 2, &[10, 20, 25][..]));
    assert_eq!(column(&rows, "steps"), [30, 50, 30, 50, 15, 25]);
    assert_eq!(column(&rows, "running"), [30, 50, 60, 100, 75, 125].map(|value| value % 7));
    let (_, large) = rows.large().find(|column| column.0 == "running_ticks").unwrap();
    assert_eq!(large[4].to_bits(), (15.0 * 2_f64.powi(70)).to_bits());
}

#[test]
fn a_replay_that_ends_at_a_sample_has_no_further_row() {
    assert_eq!(sampled(10, 100, 20).rows().times, [10, 20]);
    assert!(sampled(10, 100, 0).rows().times.is_empty());
    assert_eq!(sampled(10, 100, 3).rows().times, [3]);
}

#[test]
fn an_odd_number_of_samples_is_rounded_down_and_two_are_the_fewest() {
    assert_eq!(sampled(1, 5, 5).rows().times, [2, 4, 5]);
    assert_eq!(sampled(1, 0, 3).rows().times, [2, 3]);
}

#[test]
fn a_sample_past_the_range_of_the_clock_is_never_due() {
    let timeline = Timeline::new(Sample { every: Ticks::MAX, most: 8 }, 1);
    assert_eq!(timeline.next(), Ticks::MAX);
    let mut timeline = Timeline::new(Sample { every: Ticks::MAX / 2 + 1, most: 2 }, 1);
    timeline.push(std::iter::once(Reading::default()));
    assert_eq!(timeline.next(), NEVER);
}

proptest! {
    #[test]
    fn a_timeline_that_was_full_equals_one_with_the_longer_interval(
        every in 1u64..20, most in 2u64..40, end in 0u64..5000,
    ) {
        let rows = sampled(every, most, end).rows();
        prop_assert!(rows.times.len() as u64 <= most + 1);
        let doublings = (rows.every / every).trailing_zeros();
        prop_assert_eq!(rows.every, every << doublings);
        prop_assert_eq!(&rows, &sampled(rows.every, 1_000_000, end).rows());
        let most = (most & !1).max(2);
        let with_half = end / (rows.every / 2).max(1);
        prop_assert!(doublings == 0 || with_half > most, "no interval doubles in vain");
        prop_assert_eq!(column(&rows, "steps").iter().sum::<u64>(), 8 * end);
    }
}
