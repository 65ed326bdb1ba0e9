//! Instance fields that are one number for a whole replay, and the parts of rules that are numbers because of them.

use super::evaluate::{Scope, value_now};
use super::expr::Expr;
use super::fields::{Field, InstField, InstanceRef, ReqField};
use super::linear::Linear;
use super::number::Number;
use super::routing::{Flip, Routing, Rule};
use super::validity::Validity;

/// Instance fields that have the same value on every instance and at every moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Constants {
    fields: Vec<(InstField, f64)>,
}

impl Constants {
    /// Those of `fields` that have one value on all `instances`, which is there from the start; `value`: the value of a
    /// field on an instance.
    pub(crate) fn new(
        fields: &[InstField],
        instances: usize,
        value: impl Fn(usize, InstField) -> Option<f64>,
    ) -> Self {
        let same = |&field: &InstField| {
            let first = value(0, field)?;
            let equals = |index| value(index, field).is_some_and(|other| other.to_bits() == first.to_bits());
            (0..instances).all(equals).then_some((field, first))
        };
        Self { fields: fields.iter().filter_map(same).collect() }
    }

    /// Replaces these fields of an expression by numbers, and operations on numbers by their results. `instances`: those
    /// that there are when it is evaluated; a field of any other is 0 then.
    fn fold(&self, expr: &mut Expr, instances: &[InstanceRef]) {
        match expr {
            Expr::Field(Field::Inst(which, field, _)) if instances.contains(which) => {
                let constant = self.fields.iter().find(|(constant, _)| constant == field);
                if let Some(&(_, value)) = constant {
                    *expr = Expr::Const(value);
                }
            }
            Expr::Op(_, arguments) => {
                for argument in &mut *arguments {
                    self.fold(argument, instances);
                }
                if arguments.iter().all(|argument| matches!(argument, Expr::Const(_))) {
                    *expr = Expr::Const(value_now(expr, &mut NoFields));
                }
            }
            Expr::Over(_, of, _) => self.fold(of, instances),
            Expr::Const(_) | Expr::Field(_) => {}
        }
    }

    /// Does so in all expressions of a rule.
    fn fold_rule(&self, rule: &mut Rule, instances: &[InstanceRef]) {
        match rule {
            Rule::Pick(pick) => {
                let conditions = pick.r#where.iter_mut().chain(&mut pick.accept);
                for expr in pick.min.iter_mut().chain(conditions) {
                    self.fold(expr, instances);
                }
            }
            Rule::Stay { when: Some(when) } | Rule::Reject { when: Some(when) } => self.fold(when, instances),
            Rule::When { of, when } => {
                self.fold(when, instances);
                self.fold_rule(of, instances);
            }
            Rule::Unless { of, when } => {
                self.fold(when, &[instances, &[InstanceRef::There]].concat());
                self.fold_rule(of, instances);
            }
            Rule::Flip(Flip { of, .. }) => self.fold_rule(of, instances),
            Rule::FirstOf { rules } => {
                for rule in rules {
                    self.fold_rule(rule, instances);
                }
            }
            _ => {}
        }
    }
}

impl Routing {
    /// Replaces the constants in rules that are asked about requests by numbers.
    pub(crate) fn fold(&mut self, constants: &Constants) {
        constants.fold_rule(&mut self.on_arrival, &[InstanceRef::Candidate]);
        let later = [&mut self.decode_on_arrival, &mut self.on_prefilled, &mut self.on_answering];
        for rule in later.into_iter().flatten() {
            constants.fold_rule(rule, &[InstanceRef::Candidate, InstanceRef::Here]);
        }
    }
}

/// The scope of an expression that reads no field.
struct NoFields;

impl Scope for NoFields {
    fn request(&mut self, _: ReqField, _: &mut Validity) -> Linear {
        debug_assert!(false, "Invariant: no field is read");
        Linear::fixed(0.0)
    }

    fn instance(&mut self, _: InstanceRef, _: InstField, _: u32) -> f64 {
        debug_assert!(false, "Invariant: no field is read");
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Total blocks of 101 everywhere; block sizes that differ.
    fn constants() -> Constants {
        let value = |index: usize, field: InstField| match field {
            InstField::TotalBlocks => Some(101.0),
            InstField::BlockTokens => Some(16.0 * (1 + index) as f64),
            _ => None,
        };
        Constants::new(&[InstField::TotalBlocks, InstField::BlockTokens, InstField::Running], 2, value)
    }

    fn folded(json: &str) -> Routing {
        let mut routing: Routing = serde_json::from_str(json).unwrap();
        routing.fold(&constants());
        routing
    }

    fn routing(json: &str) -> Routing {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn an_operation_on_constants_is_its_result() {
        let blocks = r#"{"field": "inst.total_blocks"}"#;
        let tenth = format!(
            r#"{{"op": "floordiv", "args": [{{"op": "div", "args": [{blocks}, {{"const": 10}}]}}, {{"const": 1}}]}}"#
        );
        let pick = |reserve: &str| {
            format!(
                r#"{{"on_arrival": {{"rule": "pick", "min": [{{"field": "inst.kv_tokens"}}],
                    "where": {{"op": "gt", "args": [{{"field": "inst.free_blocks"}}, {reserve}]}}}}}}"#
            )
        };
        assert_eq!(folded(&pick(&tenth)), routing(&pick(r#"{"const": 10}"#)));
    }

    #[test]
    fn only_what_is_equal_on_all_instances_is_a_number() {
        let differs = r#"{"on_arrival": {"rule": "pick", "min": [{"field": "inst.block_tokens"}, {"field": "inst.running"}]}}"#;
        assert_eq!(folded(differs), routing(differs));
    }

    #[test]
    fn a_field_of_an_instance_that_there_is_not_stays_0() {
        let rule = |here: &str, there: &str, picked: &str| {
            format!(
                r#"{{"rule": "unless",
                    "of": {{"rule": "pick", "min": [{here}], "where": {there}}},
                    "when": {{"op": "lt", "args": [{here}, {picked}]}}}}"#
            )
        };
        let (here, there) = (r#"{"field": "here.total_blocks"}"#, r#"{"field": "there.total_blocks"}"#);
        let both = |arrival: &str, answering: &str| {
            routing(&format!(r#"{{"on_arrival": {arrival}, "on_answering": {answering}}}"#))
        };
        let mut asked = both(&rule(here, there, there), &rule(here, there, there));
        asked.fold(&constants());
        let number = r#"{"const": 101}"#;
        // An arrival is on no instance. A pick is made before there is a picked instance.
        let answering = format!(
            r#"{{"rule": "unless",
                "of": {{"rule": "pick", "min": [{number}], "where": {there}}}, "when": {{"const": 0}}}}"#
        );
        assert_eq!(asked, both(&rule(here, there, number), &answering));
    }
}
