//! Rules that route requests to instances.

use serde::Deserialize;

use super::books::BooksConfig;
use super::expr::Expr;
use super::fields::{InstField, ReqField};
use super::monitor::{Action, Monitor};
use super::rule::{Moment, Pick, Rule, Ties};
use crate::error::Error;

/// The rules that route requests, by the occasion on which each is asked.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Routing {
    /// When a request arrives.
    pub on_arrival: Rule,
    /// When a request has been routed on arrival: picks the instance to which it migrates once its prefill has ended.
    #[serde(default)]
    pub decode_on_arrival: Option<Rule>,
    /// When the prefill of a request has ended.
    #[serde(default)]
    pub on_prefilled: Option<Rule>,
    /// When the reasoning of a request has ended.
    #[serde(default)]
    pub on_answering: Option<Rule>,
    /// Checks that run every so often.
    #[serde(default)]
    pub every: Vec<Monitor>,
    /// The books that routers keep of the requests that they route.
    #[serde(default)]
    pub books: BooksConfig,
    /// A number of each instance that is recorded for each request as it is routed on arrival.
    #[serde(default)]
    pub watch: Option<Expr>,
}

impl Routing {
    /// Whether a rule or a monitor may migrate requests.
    pub(crate) fn may_migrate(&self) -> bool {
        self.rules().count() > 1 || !self.every.is_empty()
    }

    /// Whether requests leave the instance that they were sent to: by a rule, or a monitor that migrates them.
    pub(crate) fn moves_requests(&self) -> bool {
        self.rules().count() > 1 || self.monitors_migrate()
    }

    /// Whether a monitor migrates requests.
    pub(crate) fn monitors_migrate(&self) -> bool {
        let migrates = |action: &Action| matches!(action, Action::Migrate { .. });
        self.every.iter().flat_map(|monitor| &monitor.actions).any(migrates)
    }

    /// Whether requests are sent as they arrive, or rejected, and no more: no rule or monitor holds or migrates one, or
    /// changes a role.
    pub(crate) fn only_sends(&self) -> bool {
        let other = |rule: &Rule| matches!(rule, Rule::Hold { .. } | Rule::Flip(_));
        !self.may_migrate() && !self.on_arrival.has(&other)
    }

    /// All rules.
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        let later = [&self.decode_on_arrival, &self.on_prefilled, &self.on_answering];
        std::iter::once(&self.on_arrival).chain(later.into_iter().flatten())
    }

    /// Numbers the rules that remember an instance, and tells flips their moments.
    pub(crate) fn prepare(&mut self) {
        let mut turns = 0;
        self.on_arrival.prepare(&mut turns, Moment::Arrival);
        for (rule, asked) in [
            (&mut self.decode_on_arrival, Moment::Arrival),
            (&mut self.on_prefilled, Moment::Prefilled),
            (&mut self.on_answering, Moment::Answering),
        ] {
            if let Some(rule) = rule {
                rule.prepare(&mut turns, asked);
            }
        }
        for action in self.every.iter_mut().flat_map(|monitor| &mut monitor.actions) {
            if let Action::Flip { rule } = action {
                rule.prepare(&mut turns, Moment::Monitor);
            }
        }
    }

    /// Whether the rule for arrivals may hold requests, about which it is asked again.
    pub(crate) fn holds(&self) -> bool {
        self.on_arrival.holds()
    }

    /// Calls `f` with each instance field that a rule or monitor reads or that is watched, and the class; callbacks read
    /// `shown`.
    pub(crate) fn visit_instance_fields(&self, shown: &[InstField], f: &mut dyn FnMut(InstField, u32)) {
        for rule in self.rules() {
            rule.visit(&mut |expr| expr.visit_instance_fields(f));
            if rule.has(&|rule| matches!(rule, Rule::FewestRequests { .. })) {
                f(InstField::Requests, 0);
            }
            if rule.has(&|rule| matches!(rule, Rule::FewestTokens { .. })) {
                f(InstField::OutstandingTokens, 0);
            }
            if rule.calls() {
                for &field in shown {
                    f(field, 0);
                }
            }
        }
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            action.visit(&mut |expr| expr.visit_instance_fields(f));
        }
        if let Some(watch) = &self.watch {
            watch.visit_instance_fields(f);
        }
    }

    /// Calls `f` with the number of each gauge that is read, and whether a monitor reads it.
    pub(crate) fn visit_gauges(&self, f: &mut dyn FnMut(u32, bool)) {
        let mut read = |expr: &Expr, monitored: bool| {
            expr.visit_instance_fields(&mut |field, number| {
                if field == InstField::Gauge {
                    f(number, monitored);
                }
            });
        };
        self.rules().for_each(|rule| rule.visit(&mut |expr| read(expr, false)));
        self.watch.iter().for_each(|expr| read(expr, false));
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            action.visit(&mut |expr| read(expr, true));
        }
    }

    /// Calls `f` with the number of each rule that remembers an instance, and where its ties go.
    pub(crate) fn visit_turns(&self, f: &mut dyn FnMut(usize, Option<&Ties>)) {
        self.each_rule(&mut |rule| match rule {
            Rule::RoundRobin { turn, .. } => f(*turn, None),
            Rule::Pick(pick) => f(pick.turn, Some(&pick.ties)),
            _ => {}
        });
    }

    /// Calls `f` with each rule and each rule in it, those of monitors included.
    pub(crate) fn each_rule(&self, f: &mut dyn FnMut(&Rule)) {
        self.rules().for_each(|rule| rule.each(f));
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            if let Action::Flip { rule } = action {
                rule.each(f);
            }
        }
    }

    /// The pools that rules name which ask for the owner of a prompt; `None`: all instances.
    pub(crate) fn prompt_pools(&self) -> Vec<Option<Vec<u32>>> {
        let mut pools = Vec::new();
        self.each_rule(&mut |rule| {
            if let Rule::Owner { within, .. } = rule
                && !pools.contains(within)
            {
                pools.push(within.clone());
            }
        });
        pools
    }

    /// Numbers the picks that draw. Returns their seeds.
    pub(crate) fn number_draws(&mut self) -> Vec<u64> {
        let mut seeds = Vec::new();
        self.on_arrival.number_draws(&mut seeds);
        let later = [&mut self.decode_on_arrival, &mut self.on_prefilled, &mut self.on_answering];
        later.into_iter().flatten().for_each(|rule| rule.number_draws(&mut seeds));
        for action in self.every.iter_mut().flat_map(|monitor| &mut monitor.actions) {
            if let Action::Flip { rule } = action {
                rule.number_draws(&mut seeds);
            }
        }
        seeds
    }

    /// Refuses rules that read what routers do not keep, monitors that read what routers keep, and books and picks with
    /// numbers out of range.
    pub(crate) fn check_books(&self) -> Result<(), Error> {
        let rules = || self.rules();
        let mut read: Vec<InstField> = Vec::new();
        rules().for_each(|rule| {
            rule.visit(&mut |expr| expr.visit_instance_fields(&mut |field, _| read.push(field)));
        });
        let missing = read.into_iter().find(|field| match field {
            InstField::IndexBlocks | InstField::IndexTokens => self.books.index.is_none(),
            InstField::ActiveBlocks | InstField::ActiveNewBlocks | InstField::ActivePrefillTokens => {
                self.books.active.is_none()
            }
            _ => false,
        });
        if let Some(field) = missing {
            return Err(Error::config(
                "routing.books",
                format!("must have what rules read, lacked {field:?}"),
            ));
        }
        if self.books.tree.is_none()
            && rules().any(|rule| rule.has(&|rule| matches!(rule, Rule::Owner { .. })))
        {
            return Err(Error::config(
                "routing.books.tree",
                "must be given for a rule that asks for an owner",
            ));
        }
        let mut monitored = false;
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            action.visit(&mut |expr| monitored |= expr.looks_at(&InstField::is_booked));
        }
        if monitored {
            return Err(Error::config("routing.every", "must not read what routers keep in books"));
        }
        let mut error = self.books.check();
        rules().for_each(|rule| {
            rule.has(&|rule| {
                let Rule::Pick(Pick { softmax: Some(softmax), min, .. }) = rule else { return false };
                !(softmax.temperature >= 0.0 && softmax.temperature.is_finite()) || min.len() != 1
            })
            .then(|| {
                let rule = "must have a temperature of 0 or more that is finite, and a single key";
                error = Err(Error::config("routing.softmax", rule));
            });
        });
        error
    }

    /// Whether a rule or monitor reads a request field for which `test` holds.
    pub(crate) fn looks_at_request(&self, test: &dyn Fn(ReqField) -> bool) -> bool {
        self.any(&|expr| expr.looks_at_request(test))
    }

    /// Whether a rule or monitor reads an instance field for which `test` holds, or it is watched.
    pub(crate) fn looks_at(&self, test: &dyn Fn(InstField) -> bool) -> bool {
        self.any(&|expr| expr.looks_at(test))
    }

    /// Whether a rule or monitor reads an accumulator, which no router has.
    pub(crate) fn reads_accumulators(&self) -> bool {
        self.any_expr(&Expr::reads_accumulators)
    }

    /// Whether `test` holds of an expression in it, or a callback may read any field.
    fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        self.any_expr(test) || self.rules().any(Rule::calls)
    }

    /// Whether `test` holds of an expression in it.
    fn any_expr(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        let mut found = false;
        let mut visit = |expr: &Expr| found |= test(expr);
        self.rules().for_each(|rule| rule.visit(&mut visit));
        for action in self.every.iter().flat_map(|monitor| &monitor.actions) {
            action.visit(&mut visit);
        }
        self.watch.iter().for_each(visit);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_is_read() {
        let json = r#"{"on_arrival": {"rule": "fewest_requests"}, "watch": {"field": "inst.kv_usage"}}"#;
        let routing: Routing = serde_json::from_str(json).unwrap();
        assert!(routing.looks_at(&|field| field == InstField::KvUsage));
        assert!(!routing.looks_at(&|field| field == InstField::Swapped));
        let mut read = Vec::new();
        routing.visit_instance_fields(&[], &mut |field, _| read.push(field));
        assert_eq!(read, [InstField::Requests, InstField::KvUsage]);
    }
}
