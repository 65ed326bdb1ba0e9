//! How cached blocks are evicted.

use serde::Deserialize;

use crate::policy::{BlockField, Changes, Expr, Field, ReqField};

/// The order in which cached blocks that no request holds are evicted, by expressions over a block and the request that
/// freed it last.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvictionConfig {
    /// The order within a group, evaluated when a block is freed, the smallest first; ties are in the order in which blocks
    /// were freed.
    pub order: Expr,
    /// The groups; `None`: all blocks are in one.
    #[serde(default)]
    pub groups: Option<EvictionGroups>,
}

/// Groups of cached blocks.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EvictionGroups {
    /// The group of a block, evaluated when it is freed.
    pub by: Expr,
    /// Evaluated, when a block is to be evicted, for the first block of each group; the smallest is evicted.
    pub first: Expr,
}

impl EvictionConfig {
    /// Its expressions; the last changes with time, if there are groups.
    fn expressions(&self) -> impl Iterator<Item = (&Expr, bool)> {
        let groups = self.groups.iter().flat_map(|groups| [(&groups.by, false), (&groups.first, true)]);
        std::iter::once((&self.order, false)).chain(groups)
    }

    /// The fields of requests and columns that it reads.
    pub(crate) fn reads(&self) -> Vec<Field> {
        let mut reads = Vec::new();
        for (expr, _) in self.expressions() {
            expr.visit_fields(&mut |field| {
                if matches!(field, Field::Req(_) | Field::Column(_)) && !reads.contains(&field) {
                    reads.push(field);
                }
            });
        }
        reads
    }

    /// The rule that it breaks, if any.
    pub(super) fn broken_rule(&self) -> Option<&'static str> {
        for (expr, moves) in self.expressions() {
            let mut rule = None;
            if expr.aggregates() {
                rule = Some("must not have aggregates over instances");
            }
            expr.visit_fields(&mut |field| match field {
                Field::Block(BlockField::IdleS) if !moves => {
                    rule = Some(
                        "must read block.idle only in `first`, which is evaluated as blocks are evicted",
                    );
                }
                Field::Block(_) | Field::Column(_) => {}
                Field::Req(field) if field.changes() == Changes::NEVER && field != ReqField::PrefillS => {}
                _ => {
                    rule = Some("must read fields of the block, and of its request those that the trace has");
                }
            });
            if rule.is_some() {
                return rule;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(order: &str, groups: &str) -> EvictionConfig {
        serde_json::from_str(&format!(r#"{{"order": {order}, "groups": {groups}}}"#)).unwrap()
    }

    #[test]
    fn only_what_stays_known_of_a_block_is_read() {
        let field = |name: &str| format!(r#"{{"field": "{name}"}}"#);
        let groups = |by: &str, first: &str| format!(r#"{{"by": {}, "first": {}}}"#, field(by), field(first));
        for name in ["block.used_s", "block.uses", "block.position", "req.arrival_s", "oracle.output_tokens"]
        {
            assert_eq!(read(&field(name), "null").broken_rule(), None, "{name}");
        }
        for name in ["block.idle_s", "req.age_s", "req.prefill_s", "inst.free_blocks", "group.accumulated"] {
            assert!(read(&field(name), "null").broken_rule().is_some(), "{name}");
        }
        let order = field("block.used_s");
        assert_eq!(read(&order, &groups("req.priority", "block.idle_s")).broken_rule(), None);
        assert!(read(&order, &groups("block.idle_s", "block.idle_s")).broken_rule().is_some());
    }

    #[test]
    fn fields_of_requests_are_listed_once() {
        let field = |name: &str| format!(r#"{{"field": "{name}"}}"#);
        let groups = format!(r#"{{"by": {}, "first": {}}}"#, field("req.priority"), field("req.priority"));
        let reads = read(&field("block.uses"), &groups).reads();
        assert_eq!(reads, [Field::Req(ReqField::Priority)]);
    }
}
