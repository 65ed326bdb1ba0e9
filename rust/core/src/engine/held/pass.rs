//! Which request is asked about next, as the rule is asked about all requests that are held, once each.

use std::collections::BTreeMap;

use super::blocked::Blocked;
use super::queue::Queue;
use crate::policy::Kind;

/// One pass of a rule over the held requests.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The row from which on the first requests of their kinds have not been asked about.
    from: u32,
    /// Later rows of kinds whose first was held before a request was sent: the next of each kind.
    again: BTreeMap<u32, Kind>,
    /// The kinds that are held since the last request was sent, as far as later rows have them.
    held: Vec<Kind>,
}

impl Pass {
    /// The next request: the first in order of arrival that no answer so far decides, and that waits behind none.
    pub(super) fn next(&mut self, queue: &Queue, blocked: &Blocked) -> Option<(u32, Kind)> {
        loop {
            if blocked.cover_all(queue) {
                return None;
            }
            let again = self.again.first_key_value().map(|(&row, &kind)| (row, kind));
            let (row, kind) = match (queue.first_from(self.from), again) {
                (Some(first), again) if again.is_none_or(|again| first.0 < again.0) => {
                    self.from = first.0 + 1;
                    first
                }
                (_, Some(again)) => {
                    self.again.pop_first();
                    again
                }
                _ => return None,
            };
            if !blocked.cover(&kind) {
                return Some((row, kind));
            }
        }
    }

    /// Notes that a request is still held: those alike are too, until one is sent.
    pub(super) fn hold(&mut self, row: u32, kind: Kind, queue: &Queue) {
        if queue.next_alike(row, &kind).is_some() {
            self.held.push(kind);
        }
    }

    /// Removes a request that was sent or rejected. If it was `sent`, instances have changed, and later requests of the
    /// kinds that are held are to be asked about.
    pub(super) fn let_go(&mut self, row: u32, kind: Kind, sent: bool, queue: &mut Queue) {
        if !queue.remove(row, &kind)
            && let Some(next) = queue.next_alike(row, &kind)
        {
            self.again.insert(next, kind);
        }
        if !sent {
            return;
        }
        for held in self.held.drain(..) {
            if let Some(next) = queue.next_alike(row, &held) {
                self.again.insert(next, held);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{Alike, Blocks, Rule};
    use crate::trace::Trace;

    /// The queue of requests of these tenants, which a rule tells apart, at one router, and their kinds.
    fn queue(tenants: &[u32], blocks: Blocks) -> (Queue, Vec<Kind>) {
        let tenant = r#"{"rule": "pick", "min": [{"field": "req.tenant"}]}"#;
        let rules = vec![serde_json::from_str(tenant).unwrap(), Rule::Hold { blocks }];
        let n = tenants.len();
        let trace = Trace {
            arrival: vec![0; n].into(),
            prompt_tokens: vec![1; n].into(),
            output_tokens: vec![1; n].into(),
            tenant: Some(tenants.to_vec().into()),
            ..Trace::default()
        };
        let alike = Alike::new(&Rule::FirstOf { rules }, false);
        let kinds: Vec<Kind> = (0..n).map(|row| alike.kind(row, 0, &trace)).collect();
        let mut queue = Queue::new(1);
        (0..).zip(&kinds).for_each(|(row, &kind)| queue.push(row, kind));
        (queue, kinds)
    }

    /// The rows that are asked about if the rule sends these, and holds the others with `blocks`.
    fn asked(tenants: &[u32], sent: &[u32], blocks: Blocks) -> Vec<u32> {
        let (mut queue, _) = queue(tenants, blocks);
        let (mut pass, mut blocked, mut asked) = (Pass::default(), Blocked::default(), Vec::new());
        while let Some((row, kind)) = pass.next(&queue, &blocked) {
            asked.push(row);
            if sent.contains(&row) {
                pass.let_go(row, kind, true, &mut queue);
            } else {
                blocked.add(blocks, &kind);
                pass.hold(row, kind, &queue);
            }
        }
        asked
    }

    #[test]
    fn only_the_first_of_each_kind_is_asked_about_if_none_is_sent() {
        assert_eq!(asked(&[7, 7, 8, 7, 8, 9], &[], Blocks::None), [0, 2, 5]);
    }

    #[test]
    fn after_one_is_sent_the_next_of_each_kind_is_asked_about() {
        // Row 2 is sent: the next of its own kind is 4, and the next of the kind of row 0 is 3, after which none is sent.
        assert_eq!(asked(&[7, 7, 8, 7, 8, 7], &[2], Blocks::None), [0, 2, 3, 4]);
        // Each that is sent has the next asked about, at last the fifth.
        assert_eq!(asked(&[7, 8, 7, 8, 7], &[1, 3], Blocks::None), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn those_behind_a_request_that_blocks_them_are_not_asked_about() {
        assert_eq!(asked(&[7, 7, 8, 7, 8], &[2], Blocks::All), [0]);
        assert_eq!(asked(&[7, 7, 8, 7, 8], &[2], Blocks::Tenant), [0, 2, 4]);
    }

    #[test]
    fn rows_may_leave_from_the_middle_of_their_kind() {
        let (mut queue, kinds) = queue(&[7, 7, 7], Blocks::None);
        assert!(!queue.remove(1, &kinds[1]) && queue.next_alike(0, &kinds[0]) == Some(2));
        assert!(queue.remove(0, &kinds[0]) && queue.first() == Some((2, kinds[2])));
        assert!(queue.remove(2, &kinds[2]) && queue.first().is_none());
        assert_eq!((queue.len(), queue.routers()), (0, 0));
    }
}
