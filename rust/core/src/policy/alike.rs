//! Which requests that arrive a rule decides alike: those with equal values of all that it reads of a request.

use serde::{Deserialize, Serialize};

use super::expr::Expr;
use super::fields::{Field, InstField, ReqField};
use super::rule::{AffinityKey, Blocks, Rule, Ties};
use crate::collections::Column;
use crate::trace::Trace;

/// A value of the trace that a rule may read of a request that arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The tokens of its prompt.
    Prompt,
    /// The tokens of its output.
    Output,
    /// Those of them that are reasoning.
    Reasoning,
    /// Its priority.
    Priority,
    /// Its score.
    Score,
    /// Its tenant.
    Tenant,
    /// Its session.
    Session,
    /// The model that it names.
    Model,
}

/// How many parts there are.
const PARTS: usize = 8;

/// Means that a request has no tenant or no session, and that it is alike others.
const NONE: u32 = u32::MAX;

/// The columns of an arriving request that a rule reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Alike {
    /// Whether no two requests are decided alike: the rule draws, remembers or changes something, or reads what differs
    /// by request and moment.
    alone: bool,
    /// The values that it reads.
    parts: Vec<Part>,
}

/// Equal for two requests that a router decides alike as long as no other request is sent. Ordered without a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Kind {
    /// The router.
    router: u32,
    /// The row of a request that is decided on its own; [`NONE`] if there may be others.
    alone: u32,
    /// The values that the rule reads, 0 where it reads none.
    values: [u64; PARTS],
}

impl Alike {
    /// The columns that a rule reads; `differ`: instances differ in the requests that they can serve.
    pub(crate) fn new(rule: &Rule, differ: bool) -> Self {
        let mut alike = Self::default();
        if differ {
            alike.add(Part::Prompt);
            alike.add(Part::Output);
            alike.add(Part::Model);
        }
        rule.each(&mut |rule| alike.read_rule(rule));
        rule.visit(&mut |expr| alike.read(expr));
        alike
    }

    /// The same, but no two requests are decided alike.
    pub(crate) fn each_alone(self, alone: bool) -> Self {
        Self { alone: self.alone || alone, ..self }
    }

    /// The kind of a request of a router.
    pub(crate) fn kind(&self, row: usize, router: usize, trace: &Trace) -> Kind {
        let mut values = [0; PARTS];
        for &part in &self.parts {
            values[part as usize] = part.of(row, trace);
        }
        Kind { router: router as u32, alone: if self.alone { row as u32 } else { NONE }, values }
    }

    fn add(&mut self, part: Part) {
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }

    /// Notes what a rule reads or does beside its expressions.
    fn read_rule(&mut self, rule: &Rule) {
        match rule {
            Rule::RoundRobin { .. } | Rule::Call { .. } | Rule::Flip(_) | Rule::Owner { .. } => {
                self.alone = true;
            }
            Rule::Pick(pick) => {
                let remembers = !matches!(pick.ties, Ties::First | Ties::Last);
                self.alone |= remembers || pick.among.is_some() || pick.softmax.is_some();
            }
            Rule::Affinity { key: AffinityKey::Session, .. } | Rule::Hold { blocks: Blocks::Session } => {
                self.add(Part::Session);
            }
            Rule::Affinity { key: AffinityKey::Tenant, .. } | Rule::Hold { blocks: Blocks::Tenant } => {
                self.add(Part::Tenant);
            }
            Rule::Affinity { key: AffinityKey::Prefix(_), .. } => self.alone = true,
            _ => {}
        }
    }

    /// Notes what an expression reads.
    fn read(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(_) | Expr::Field(Field::Accumulator(_)) => {}
            Expr::Field(Field::Req(field)) => match Part::read_by(*field) {
                Some(part) => self.add(part),
                None => self.alone = true,
            },
            Expr::Field(Field::Column(_) | Field::Block(_)) => self.alone = true,
            Expr::Field(Field::Inst(_, field, _)) => {
                if matches!(field, InstField::Fits | InstField::PrefillS) {
                    self.add(Part::Prompt);
                }
                self.alone |= *field == InstField::PrefixTokens || field.is_booked();
            }
            Expr::Op(_, arguments) => arguments.iter().for_each(|argument| self.read(argument)),
            Expr::Over(_, of, _) => self.read(of),
        }
    }
}

impl Part {
    /// The value on which a field of a request that arrives depends; `None` if it depends on others, or on time.
    fn read_by(field: ReqField) -> Option<Self> {
        Some(match field {
            ReqField::PromptTokens | ReqField::ContextTokens | ReqField::PrefillS => Self::Prompt,
            ReqField::OutputTokens | ReqField::RemainingTokens => Self::Output,
            ReqField::ReasoningTokens => Self::Reasoning,
            ReqField::Priority => Self::Priority,
            ReqField::Score => Self::Score,
            ReqField::Tenant => Self::Tenant,
            _ => return None,
        })
    }

    /// The value of a request, as bits.
    fn of(self, row: usize, trace: &Trace) -> u64 {
        let code = |column: &Option<Column<u32>>| column.as_ref().map_or(NONE, |codes| codes[row]).into();
        match self {
            Self::Prompt => trace.prompt_tokens[row].into(),
            Self::Output => trace.output_tokens[row].into(),
            Self::Reasoning => trace.reasoning_tokens.as_ref().map_or(0, |column| column[row]).into(),
            Self::Priority => trace.priority.as_ref().map_or(0, |column| column[row].cast_unsigned()),
            Self::Score => trace.score.as_ref().map_or(0, |column| column[row].to_bits()),
            Self::Tenant => code(&trace.tenant),
            Self::Session => code(&trace.session),
            Self::Model => trace.model_of(row).into(),
        }
    }
}

impl Kind {
    /// The router.
    pub(crate) fn router(&self) -> usize {
        self.router as usize
    }

    /// The tenant or the session behind which requests wait that are held with `blocks`, if the request has one.
    pub(crate) fn group(&self, blocks: Blocks) -> Option<u64> {
        let part = match blocks {
            Blocks::None | Blocks::All => return None,
            Blocks::Tenant => Part::Tenant,
            Blocks::Session => Part::Session,
        };
        Some(self.values[part as usize]).filter(|&code| code != u64::from(NONE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a rule decides the two requests of a trace alike, which differ in all but the tenant.
    fn alike(rule: &str) -> bool {
        let rule: Rule = serde_json::from_str(rule).unwrap();
        let trace = Trace {
            arrival: vec![0, 5].into(),
            prompt_tokens: vec![10, 20].into(),
            output_tokens: vec![1, 2].into(),
            priority: Some(vec![-1, 3].into()),
            tenant: Some(vec![4, 4].into()),
            session: Some(vec![0, 1].into()),
            ..Trace::default()
        };
        let alike = Alike::new(&rule, false);
        alike.kind(0, 0, &trace) == alike.kind(1, 0, &trace)
    }

    #[test]
    fn requests_are_alike_that_agree_in_all_that_a_rule_reads() {
        let pick = |field: &str| format!(r#"{{"rule": "pick", "min": [{{"field": "{field}"}}]}}"#);
        for field in ["req.tenant", "inst.requests", "inst.free_blocks", "req.score"] {
            assert!(alike(&pick(field)), "{field}");
        }
        for field in ["req.prompt_tokens", "inst.fits", "oracle.output_tokens", "req.priority", "req.age_s"] {
            assert!(!alike(&pick(field)), "{field}");
        }
        assert!(alike(r#"{"rule": "affinity", "key": "tenant"}"#));
        assert!(!alike(r#"{"rule": "affinity", "key": "session"}"#));
        assert!(alike(r#"{"rule": "hold", "blocks": "tenant"}"#));
        assert!(!alike(r#"{"rule": "round_robin"}"#), "it remembers an instance");
        assert!(!alike(r#"{"rule": "pick", "min": [], "among": 2}"#), "it draws");
    }

    #[test]
    fn instances_that_differ_make_lengths_matter() {
        let trace = Trace {
            arrival: vec![0, 0].into(),
            prompt_tokens: vec![10, 20].into(),
            output_tokens: vec![1, 1].into(),
            ..Trace::default()
        };
        let kinds = |lengths| {
            let alike = Alike::new(&Rule::FewestRequests { within: None }, lengths);
            [0, 1].map(|row| alike.kind(row, 0, &trace))
        };
        assert_eq!(kinds(false)[0], kinds(false)[1]);
        assert_ne!(kinds(true)[0], kinds(true)[1]);
    }
}
