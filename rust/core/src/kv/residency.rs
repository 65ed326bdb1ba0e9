//! Where the KV of requests is, beside that of the batch, and the account of it.
//!
//! A request that is not admitted may have KV in the host's memory, in blocks of the GPU, or on the way to them from the
//! host or from another instance. Each of these places is a [`Tier`]. KV moves from tier to tier whole, and each move is written in one
//! [`Account`], which says at every moment what each tier holds.

use serde::{Deserialize, Serialize};

/// A place where a request that is not admitted has its KV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Tier {
    /// In the host's memory.
    Host,
    /// Sent by another instance and in blocks of the GPU, for an admission.
    Ready,
    /// On its way from another instance into blocks of the GPU, which are allocated.
    Arriving,
    /// Loaded into blocks of the GPU, for an admission.
    Loaded,
    /// On its way from the host's memory into blocks of the GPU, which are allocated.
    Loading,
    /// In blocks of the GPU, which another instance reads.
    Departing,
    /// Arrived from another instance, and neither in blocks of the GPU nor of the host.
    Landed,
}

impl Tier {
    /// All tiers.
    pub(crate) const ALL: [Self; 7] =
        [Self::Host, Self::Ready, Self::Arriving, Self::Loaded, Self::Loading, Self::Departing, Self::Landed];
}

/// The KV of a request, in one tier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Residency {
    pub(crate) tier: Tier,
    pub(crate) held: Held,
}

impl Residency {
    /// KV of `tokens` tokens, in `blocks` blocks of a tier.
    pub(crate) fn new(tier: Tier, tokens: u32, blocks: u64) -> Self {
        Self { tier, held: Held { requests: 1, tokens: u64::from(tokens), blocks } }
    }
}

/// KV: of how many requests, its tokens, and its blocks, of which those that requests share count for each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
    pub(crate) blocks: u64,
}

/// The sums of KV by tier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Account {
    tiers: [Held; Tier::ALL.len()],
}

impl Account {
    /// The sum of the residencies of requests.
    pub(crate) fn of(residencies: impl Iterator<Item = Residency>) -> Self {
        let mut account = Self::default();
        residencies.for_each(|residency| account.enter(residency));
        account
    }

    /// KV comes to a tier.
    pub(crate) fn enter(&mut self, Residency { tier, held }: Residency) {
        let sum = &mut self.tiers[tier as usize];
        sum.requests += held.requests;
        sum.tokens += held.tokens;
        sum.blocks += held.blocks;
    }

    /// KV leaves a tier.
    pub(crate) fn leave(&mut self, Residency { tier, held }: Residency) {
        let sum = &mut self.tiers[tier as usize];
        sum.requests -= held.requests;
        sum.tokens -= held.tokens;
        sum.blocks -= held.blocks;
    }

    /// KV moves to another tier.
    pub(crate) fn relocate(&mut self, from: Residency, to: Tier) {
        self.leave(from);
        self.enter(Residency { tier: to, ..from });
    }

    /// The KV in a tier.
    pub(crate) fn held(&self, tier: Tier) -> Held {
        self.tiers[tier as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_move_keeps_the_size() {
        let mut account = Account::default();
        let at = |tier| Residency::new(tier, 9, 3);
        account.enter(at(Tier::Arriving));
        account.relocate(at(Tier::Arriving), Tier::Ready);
        assert_eq!(account.held(Tier::Arriving), Held::default());
        assert_eq!(account.held(Tier::Ready), Held { requests: 1, tokens: 9, blocks: 3 });
        account.leave(at(Tier::Ready));
        assert_eq!(account, Account::default());
    }

    proptest! {
        #[test]
        fn the_account_is_the_sum_of_what_requests_say(
            moves in prop::collection::vec((0usize..6, 0usize..Tier::ALL.len(), 0u32..50, 0u64..9), 0..60),
        ) {
            let mut account = Account::default();
            let mut requests = [None::<Residency>; 6];
            for (request, tier, tokens, blocks) in moves {
                let tier = Tier::ALL[tier];
                requests[request] = match requests[request].take() {
                    None => {
                        let came = Residency::new(tier, tokens, blocks);
                        account.enter(came);
                        Some(came)
                    }
                    Some(at) if at.tier == tier => {
                        account.leave(at);
                        None
                    }
                    Some(at) => {
                        account.relocate(at, tier);
                        Some(Residency { tier, ..at })
                    }
                };
                prop_assert_eq!(account, Account::of(requests.iter().flatten().copied()));
            }
        }
    }
}
