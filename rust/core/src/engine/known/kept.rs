//! Counts that each router keeps of its own decisions, by instance, exact at any moment.
//!
//! A request counts for the router that routes it, on the instance that a rule picked last, from the decision until the
//! request ends. A request whose decode instance is picked as it arrives counts on both instances until it ends, or
//! until a rule picks a third one.

use serde::{Deserialize, Serialize};

use crate::collections::Column;
use crate::policy::InstField;

/// Means that a request is on no instance.
const NONE: u32 = u32::MAX;

/// Counts of one router for one instance.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Counts {
    /// Unfinished requests.
    requests: u64,
    /// Tokens of their prompts.
    tokens: u64,
    /// Requests since the latest report.
    since_report: u64,
    /// Requests since the start.
    ever: u64,
}

/// Each router's counts of its own decisions, by instance.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Routers.
    routers: usize,
    /// Instances.
    instances: usize,
    /// By router, and then by instance.
    counts: Vec<Counts>,
    /// By row: the instance on which the request counts.
    at: Column<u32>,
    /// By row: the instance on which the request is to decode, on which it counts as well. Empty until one is picked.
    decode: Column<u32>,
}

impl Kept {
    /// Counts of 0.
    pub(super) fn new(routers: usize, instances: usize, requests: usize) -> Self {
        Self {
            routers,
            instances,
            counts: vec![Counts::default(); routers * instances],
            at: vec![NONE; requests].into(),
            decode: Column::default(),
        }
    }

    /// Adds requests that are on no instance until there are `n`.
    pub(super) fn grow_to(&mut self, n: usize) {
        self.at.resize(n, NONE);
        if !self.decode.is_empty() {
            self.decode.resize(n, NONE);
        }
    }

    /// Forgets the requests before `row`, which ended.
    pub(super) fn forget(&mut self, row: usize) {
        self.at.forget(row);
        self.decode.forget(row);
    }

    /// Counts a request on an instance that a rule picked for it, and no longer on another.
    pub(super) fn route(&mut self, row: usize, instance: usize, prompt: u32) {
        let decode = self.decode.get(row).copied().unwrap_or(NONE);
        if self.at[row] == instance as u32 {
            return;
        }
        if decode == instance as u32 {
            // It counts there already. An arrival that prefills where it decodes counts once.
            if self.at[row] == NONE {
                (self.at[row], self.decode[row]) = (decode, NONE);
            }
            return;
        }
        if self.at[row] != NONE {
            self.end(row, prompt);
        }
        self.at[row] = instance as u32;
        self.count(row, instance, prompt);
    }

    /// Counts a request that is about to be routed on the instance on which it is to decode.
    pub(super) fn route_decode(&mut self, row: usize, instance: usize, prompt: u32) {
        if self.decode.is_empty() {
            self.decode = Column::filled(self.at.kept(), NONE);
        }
        self.decode[row] = instance as u32;
        self.count(row, instance, prompt);
    }

    /// Adds a request to the counts of an instance.
    fn count(&mut self, row: usize, instance: usize, prompt: u32) {
        let counts = &mut self.counts[row % self.routers * self.instances + instance];
        counts.requests += 1;
        counts.tokens += u64::from(prompt);
        counts.since_report += 1;
        counts.ever += 1;
    }

    /// No longer counts a request, which ended.
    pub(super) fn end(&mut self, row: usize, prompt: u32) {
        let at = std::mem::replace(&mut self.at[row], NONE);
        let decode = self.decode.get_mut(row).map_or(NONE, |decode| std::mem::replace(decode, NONE));
        for at in [at, decode].into_iter().filter(|&at| at != NONE) {
            let counts = &mut self.counts[row % self.routers * self.instances + at as usize];
            counts.requests -= 1;
            counts.tokens -= u64::from(prompt);
        }
    }

    /// Notes that the instances reported.
    pub(super) fn report(&mut self) {
        for counts in &mut self.counts {
            counts.since_report = 0;
        }
    }

    /// A field of an instance, as a router keeps it; `None`: the sum over all routers.
    pub(super) fn field(&self, field: InstField, router: Option<usize>, instance: usize) -> f64 {
        let of = |router: usize| {
            let counts = &self.counts[router * self.instances + instance];
            match field {
                InstField::RoutedRequests => counts.requests,
                InstField::RoutedTokens => counts.tokens,
                InstField::RoutedSinceReport => counts.since_report,
                _ => counts.ever,
            }
        };
        match router {
            Some(router) => of(router) as f64,
            None => (0..self.routers).map(of).sum::<u64>() as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(kept: &Kept, router: Option<usize>, instance: usize) -> [u64; 4] {
        use InstField::{RoutedEver, RoutedRequests, RoutedSinceReport, RoutedTokens};
        [RoutedRequests, RoutedTokens, RoutedSinceReport, RoutedEver]
            .map(|field| kept.field(field, router, instance) as u64)
    }

    #[test]
    fn each_router_counts_its_own_requests_until_they_end() {
        let mut kept = Kept::new(2, 3, 4);
        for row in 0..4 {
            kept.route(row, 1, 10 + row as u32);
        }
        assert_eq!(all(&kept, Some(0), 1), [2, 22, 2, 2], "rows 0 and 2");
        assert_eq!(all(&kept, Some(1), 1), [2, 24, 2, 2], "rows 1 and 3");
        assert_eq!(all(&kept, None, 1), [4, 46, 4, 4]);
        kept.end(2, 12);
        kept.report();
        assert_eq!(all(&kept, Some(0), 1), [1, 10, 0, 2]);
        assert_eq!(all(&kept, Some(0), 2), [0; 4]);
    }

    #[test]
    fn a_request_given_two_instances_at_arrival_counts_on_both_until_it_ends() {
        let mut kept = Kept::new(1, 3, 2);
        kept.route_decode(0, 1, 7);
        kept.route(0, 0, 7);
        for _ in 0..2 {
            assert_eq!((all(&kept, None, 0), all(&kept, None, 1)), ([1, 7, 1, 1], [1, 7, 1, 1]));
            kept.route(0, 1, 7);
        }
        kept.end(0, 7);
        assert_eq!((all(&kept, None, 0), all(&kept, None, 1)), ([0, 0, 1, 1], [0, 0, 1, 1]));
        // Row 1 prefills where it decodes, and is then routed on to a third instance.
        kept.route_decode(1, 1, 9);
        kept.route(1, 1, 9);
        assert_eq!(all(&kept, None, 1), [1, 9, 2, 2]);
        kept.route(1, 2, 9);
        assert_eq!((all(&kept, None, 1), all(&kept, None, 2)), ([0, 0, 2, 2], [1, 9, 1, 1]));
    }

    #[test]
    fn a_third_instance_takes_a_request_from_both_of_its_own() {
        let mut kept = Kept::new(1, 3, 1);
        kept.route_decode(0, 1, 7);
        kept.route(0, 0, 7);
        kept.route(0, 2, 7);
        assert_eq!([0, 1, 2].map(|i| all(&kept, None, i)[0]), [0, 0, 1]);
    }

    #[test]
    fn a_request_that_is_routed_on_counts_on_its_new_instance_only() {
        let mut kept = Kept::new(1, 2, 1);
        kept.route(0, 0, 7);
        kept.route(0, 1, 7);
        assert_eq!(all(&kept, None, 0), [0, 0, 1, 1]);
        assert_eq!(all(&kept, None, 1), [1, 7, 1, 1]);
        kept.route(0, 1, 7);
        assert_eq!(all(&kept, None, 1), [1, 7, 1, 1], "it is there already");
        kept.end(0, 7);
        kept.end(0, 7);
        assert_eq!(all(&kept, None, 1), [0, 0, 1, 1]);
    }
}
