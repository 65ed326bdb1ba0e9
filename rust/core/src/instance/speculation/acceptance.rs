//! How many drafts of a request are accepted.

use crate::config::DraftAcceptance;
use crate::trace::TraceRow;

/// Says how many drafts are accepted: a function of the request and of the tokens that it has yielded.
#[derive(Debug)]
pub(in crate::instance) struct Verifier {
    rule: DraftAcceptance,
    /// Of numbers that repeat: the sums of the first 0, 1, … of them.
    sums: Vec<u64>,
}

impl Verifier {
    pub(in crate::instance) fn new(rule: &DraftAcceptance) -> Self {
        let mut sums = vec![0];
        if let DraftAcceptance::Periodic { yields } = rule {
            sums.extend(yields.iter().scan(0, |sum, &number| {
                *sum += u64::from(number);
                Some(*sum)
            }));
        }
        Self { rule: rule.clone(), sums }
    }

    /// Drafts that are accepted of the request in a row of the trace that has yielded `outputs` tokens, however many are
    /// proposed.
    pub(in crate::instance) fn accepted(&self, row: TraceRow, outputs: u32) -> u32 {
        match &self.rule {
            DraftAcceptance::Listed(listed) => listed.at(row, outputs),
            DraftAcceptance::Periodic { yields } => yields[self.step_at(outputs)] - 1,
            DraftAcceptance::ByRow { denominator, numerators } => {
                let mean = numerators[row.index() % numerators.len()];
                yielded_by(u64::from(mean), u64::from(*denominator), outputs) - 1
            }
            DraftAcceptance::Drawn { chances, seed } => {
                let draws = chances.iter().zip(1..);
                draws.take_while(|(chance, position)| draw(*seed, row, outputs, *position) < **chance).count()
                    as u32
            }
        }
    }

    /// At which of the repeating numbers a request is that has yielded `outputs` tokens. The first token is the prompt's. A
    /// request whose drafts were cut is between two steps, and goes on with the later one.
    fn step_at(&self, outputs: u32) -> usize {
        let (period, all) = (self.sums.len() - 1, self.sums[self.sums.len() - 1]);
        let rest = u64::from(outputs.saturating_sub(1)) % all;
        self.sums.partition_point(|&sum| sum < rest) % period
    }
}

/// Tokens of the step of a request that has yielded `outputs` tokens, where `i` steps yield `i * mean / one`, rounded down.
/// The first token is the prompt's. A request whose drafts were cut is between two steps, and goes on with the later one.
fn yielded_by(mean: u64, one: u64, outputs: u32) -> u32 {
    let steps = (u64::from(outputs.saturating_sub(1)) * one).div_ceil(mean);
    ((steps + 1) * mean / one - steps * mean / one) as u32
}

/// A number below 2^32, drawn for a draft at a position: splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom
/// number generators, 2014), of the seed and then of each number in turn.
fn draw(seed: u64, row: TraceRow, outputs: u32, position: u32) -> u64 {
    let mixed =
        [row.0, outputs, position].iter().fold(mix(seed), |state, &number| mix(state ^ u64::from(number)));
    mixed >> 32
}

fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_numbers_of_splitmix64_are_those_of_its_authors() {
        // The test vector of the reference implementation for the seed 1234567 (prng.di.unimi.it/splitmix64.c).
        let step = 0x9e37_79b9_7f4a_7c15_u64;
        let drawn = [0, 1, 2].map(|i: u64| mix(1_234_567_u64.wrapping_add(step.wrapping_mul(i))));
        assert_eq!(drawn, [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]);
    }

    #[test]
    fn steps_yield_the_numbers_in_turn() {
        let verifier = Verifier::new(&DraftAcceptance::Periodic { yields: vec![2, 3] });
        // After the prompt's token: 2, 3, 2, 3 more.
        assert_eq!([1, 3, 6, 8].map(|outputs| verifier.accepted(TraceRow(0), outputs)), [1, 2, 1, 2]);
        // Cut to one of three tokens, the request has 4, and goes on with the step that it would have at 6.
        assert_eq!(verifier.accepted(TraceRow(0), 4), 1);
    }

    #[test]
    fn each_row_has_a_mean_of_its_own() {
        let rule = DraftAcceptance::ByRow { denominator: 4, numerators: vec![10, 4, 11] };
        let verifier = Verifier::new(&rule);
        // Tokens after 1, 2, … steps at 2.5 a step: 2, 5, 7, 10; at 2.75: 2, 5, 8, 11. The prompt's is one more.
        assert_eq!([1, 3, 6, 8].map(|outputs| verifier.accepted(TraceRow(0), outputs)), [1, 2, 1, 2]);
        assert_eq!([1, 3, 6, 9, 12].map(|outputs| verifier.accepted(TraceRow(2), outputs)), [1, 2, 2, 2, 1]);
        assert_eq!([1, 2, 3].map(|outputs| verifier.accepted(TraceRow(1), outputs)), [0, 0, 0]);
        // Cut to one of three tokens, the request has 4, and goes on with the step that it would have at 6.
        assert_eq!(verifier.accepted(TraceRow(0), 4), 1);
        let last =
            Verifier::new(&DraftAcceptance::ByRow { denominator: u32::MAX, numerators: vec![u32::MAX] });
        assert_eq!(last.accepted(TraceRow(0), u32::MAX), 0, "it fits into 64 bits");
    }

    #[test]
    fn drawn_drafts_are_accepted_with_their_chances_and_until_the_first_rejection() {
        let (half, never) = (1 << 31, 0);
        let verifier =
            Verifier::new(&DraftAcceptance::Drawn { chances: vec![1 << 32, half, never, half], seed: 3 });
        let mut counts = [0; 5];
        for outputs in 1..=10_000 {
            counts[verifier.accepted(TraceRow(7), outputs) as usize] += 1;
        }
        assert_eq!((counts[0], counts[3], counts[4]), (0, 0, 0));
        // Four standard deviations of 10,000 fair coins are 200.
        assert!((4_800..=5_200).contains(&counts[1]), "{counts:?}");
        let other = Verifier::new(&DraftAcceptance::Drawn { chances: vec![1 << 32, half], seed: 4 });
        assert!(
            (1..99).any(
                |outputs| verifier.accepted(TraceRow(7), outputs) != other.accepted(TraceRow(7), outputs)
            )
        );
    }
}
