//! Assigns requests to instances by the hash of a key, so that those with the same key have the same instance.
//!
//! Rendezvous hashing (Thaler and Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions
//! on Networking 6(1), 1998): of the instances, the one with the largest hash of key and index. If an instance may not
//! be picked, only its own requests go elsewhere.

use super::draws::mix;
use crate::collections::Column;
use crate::policy::AffinityKey;
use crate::trace::{RequestNumber, Trace};

/// The hash of a request's key; `None` if it has none.
pub(super) fn hash_of(key: AffinityKey, request: RequestNumber, trace: &Trace) -> Option<u64> {
    let code = |column: &Option<Column<u32>>| {
        column
            .as_ref()
            .map(|codes| codes[request.index()])
            .filter(|&code| code != u32::MAX)
            .map(|code| mix(u64::from(code) + 1))
    };
    match key {
        AffinityKey::Session => code(&trace.session),
        AffinityKey::Tenant => code(&trace.tenant),
        AffinityKey::Prefix(blocks) => {
            let prefix = trace.prefix.as_ref()?;
            let ids = prefix.of(trace.origin(request));
            let ids = &ids[..ids.len().min(blocks as usize)];
            ids.iter().copied().reduce(|hash, id| mix(hash) ^ id).map(|hash| mix(hash.wrapping_add(1)))
        }
    }
}

/// The instance with the largest hash of `key` and its index; of equal ones the first.
pub(super) fn instance_for(key: u64, instances: impl Iterator<Item = usize>) -> Option<usize> {
    let weight = |instance: usize| mix(key ^ mix(instance as u64 + 1));
    // Of equal maxima `max_by_key` takes the last.
    instances.max_by_key(|&instance| (weight(instance), std::cmp::Reverse(instance)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::PrefixIds;

    #[test]
    fn only_the_requests_of_an_instance_that_is_left_out_go_elsewhere() {
        for key in (0..1000).map(mix) {
            let all = instance_for(key, 0..7).unwrap();
            let without = instance_for(key, (0..7).filter(|&i| i != 3)).unwrap();
            assert!(all == without || all == 3);
        }
        assert_eq!(instance_for(5, 0..0), None);
    }

    #[test]
    fn keys_spread_over_the_instances() {
        let mut counts = [0; 8];
        for key in (1..=8000).map(mix) {
            counts[instance_for(key, 0..8).unwrap()] += 1;
        }
        // Binomial with mean 1000 and a deviation of 30: five deviations.
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_prefix_is_the_same_key_as_far_as_its_blocks_are_equal() {
        let prefix = PrefixIds {
            ends: vec![3, 6, 7, 7].into(),
            ids: vec![1, 2, 3, 1, 2, 4, 1].into(),
            block_tokens: 16,
            outputs: None,
        };
        let trace =
            Trace { prefix: Some(prefix), session: Some(vec![0, 1, 0, u32::MAX].into()), ..Trace::default() };
        let of = |key, number| hash_of(key, RequestNumber(number), &trace);
        assert_eq!(of(AffinityKey::Prefix(2), 0), of(AffinityKey::Prefix(2), 1));
        assert_ne!(of(AffinityKey::Prefix(3), 0), of(AffinityKey::Prefix(3), 1));
        assert_eq!(of(AffinityKey::Prefix(2), 2), of(AffinityKey::Prefix(1), 0), "it has one block only");
        assert_eq!(of(AffinityKey::Prefix(2), 3), None);
        assert_eq!(of(AffinityKey::Session, 0), of(AffinityKey::Session, 2));
        assert_ne!(of(AffinityKey::Session, 0), of(AffinityKey::Session, 1));
        assert_eq!(of(AffinityKey::Session, 3), None);
        assert_eq!(of(AffinityKey::Tenant, 0), None, "the trace has no tenants");
    }

    #[test]
    fn a_prefix_is_that_of_the_row_which_arrives() {
        let prefix =
            PrefixIds { ends: vec![1, 2].into(), ids: vec![7, 8].into(), block_tokens: 16, outputs: None };
        let hash = |trace: &Trace, number| hash_of(AffinityKey::Prefix(1), RequestNumber(number), trace);
        let in_order = Trace { prefix: Some(prefix), ..Trace::default() };
        let arrived = Trace { origins: Some(vec![1, 0, 1].into()), ..in_order.clone() };
        assert_eq!([0, 1].map(|number| hash(&arrived, number)), [1, 0].map(|number| hash(&in_order, number)));
        assert_eq!(hash(&arrived, 2), hash(&in_order, 1), "it is sent again");
    }
}
