//! The rule that says which replays can be taken apart.

use crate::collections::Column;
use crate::config::{Config, Entrance, Routers};
use crate::policy::{AffinityKey, Expr, InstField, Routing, Rule};
use crate::trace::Trace;

/// The setting, or the columns of the trace, by which instances of a replay influence each other, or something needs them at
/// the same moment; `None` if there is none, so that each may be replayed on its own.
///
/// The rules for arrivals are then asked about all requests before any is served. So they may read what is fixed of an
/// instance, and nothing that changes.
pub fn coupling(config: &Config, trace: &Trace) -> Option<&'static str> {
    // Each setting is named: a new one is to be judged here.
    let Config {
        instances,
        routing,
        roles: _,
        leaving,
        entrance: Entrance { frontend: _, prediction },
        clients,
        routers: Routers { count: _, report_every, relay, give_up_after: _, seed: _ },
        links: _,
        handover,
        pace: _,
        lockstep,
        until: _,
        leap: _,
        record_decisions,
        record_between: _,
        record_most: _,
        sample,
        stores: _, // below tiers
    } = config;
    let couples = [
        ("instances", instances.len() == 1),
        ("instances.tier", instances.iter().any(|instance| instance.tier.is_some())),
        ("leaving", !leaving.is_empty()),
        ("entrance.prediction", prediction.is_some()),
        ("clients", clients.is_some()),
        ("routers.report_every", report_every.is_some()),
        ("routers.relay", relay.is_some()),
        ("handover", handover.is_some()),
        ("lockstep", lockstep.as_ref().is_some_and(|groups| !groups.is_empty())),
        ("record_decisions", *record_decisions),
        ("sample", sample.is_some()),
        ("waits", !trace.waits.is_empty() || !trace.waits.cancels.is_empty()),
    ];
    let found = couples.into_iter().find(|(_, couples)| *couples).map(|(name, _)| name);
    found.or_else(|| of_routing(routing, trace))
}

/// The part of the rules that reads instances as they change, or acts on them once requests have been sent.
fn of_routing(routing: &Routing, trace: &Trace) -> Option<&'static str> {
    let Routing { on_arrival, decode_on_arrival, on_prefilled, on_answering, every, books, watch } = routing;
    let couples = [
        ("routing.decode_on_arrival", decode_on_arrival.is_some()),
        ("routing.on_prefilled", on_prefilled.is_some()),
        ("routing.on_answering", on_answering.is_some()),
        ("routing.every", !every.is_empty()),
        ("routing.books", books.exist()),
        ("routing.watch", watch.is_some()),
        ("routing.on_arrival", on_arrival.holds() || decides_by_state(on_arrival, trace)),
    ];
    couples.into_iter().find(|(_, couples)| *couples).map(|(name, _)| name)
}

/// Whether a rule for arrivals decides by the state of instances, holds requests or changes roles.
fn decides_by_state(rule: &Rule, trace: &Trace) -> bool {
    let reads = |expr: &Expr| expr.looks_at(&|field| !is_fixed(field));
    match rule {
        Rule::RoundRobin { .. } | Rule::Affinity { .. } => false,
        Rule::Pick(pick) => pick.min.iter().chain(&pick.r#where).chain(&pick.accept).any(reads),
        Rule::Stay { when } | Rule::Reject { when } => when.as_ref().is_some_and(reads),
        Rule::Unless { of, when } | Rule::When { of, when } => reads(when) || decides_by_state(of, trace),
        Rule::FirstOf { rules } => {
            // Rules after one that always picks are never asked.
            let last = rules.iter().position(|rule| always_picks(rule, trace));
            let asked = last.map_or(&rules[..], |last| &rules[..=last]);
            asked.iter().any(|rule| decides_by_state(rule, trace))
        }
        Rule::FewestRequests { .. }
        | Rule::FewestTokens { .. }
        | Rule::Flip(_)
        | Rule::Call { .. }
        | Rule::Hold { .. }
        | Rule::Owner { .. } => true,
    }
}

/// Whether a rule picks an instance for each request of the trace that one could serve.
fn always_picks(rule: &Rule, trace: &Trace) -> bool {
    let whole = |codes: &Option<Column<u32>>| {
        codes.as_ref().is_some_and(|codes| !codes.iter().any(|&code| code == u32::MAX))
    };
    match rule {
        Rule::RoundRobin { within: None, .. } => true,
        Rule::Affinity { key: AffinityKey::Session, within: None } => whole(&trace.session),
        Rule::Affinity { key: AffinityKey::Tenant, within: None } => whole(&trace.tenant),
        _ => false,
    }
}

/// Whether a field of an instance never changes where no rule changes roles.
fn is_fixed(field: InstField) -> bool {
    use InstField::{BlockTokens, Index, PrefillS, Role, TotalBlocks};
    matches!(field, TotalBlocks | BlockTokens | PrefillS | Role | Index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{config, row, trace};
    use crate::trace::{Cancels, Waits};

    /// The coupling of instances that a rule routes to.
    fn of_rule(on_arrival: &str) -> Option<&'static str> {
        let routing = format!(r#"{{"on_arrival": {on_arrival}}}"#);
        coupling(&config(&[10, 10], &routing), &trace(&[row(0, 8, 8)]))
    }

    /// The coupling of instances with a round robin and one more rule or setting of routing.
    fn of_routing_with(other: &str) -> Option<&'static str> {
        let routing = format!(r#"{{"on_arrival": {{"rule": "round_robin"}}, {other}}}"#);
        coupling(&config(&[10, 10], &routing), &trace(&[row(0, 8, 8)]))
    }

    #[test]
    fn rules_that_read_no_state_couple_nothing() {
        let short = r#"{"op": "lt", "args": [{"field": "req.prompt_tokens"}, {"const": 9}]}"#;
        let random = r#"{"rule": "pick", "min": [], "ties": "random"}"#;
        for rule in [
            r#"{"rule": "round_robin"}"#.to_owned(),
            r#"{"rule": "affinity", "key": "session"}"#.to_owned(),
            random.to_owned(),
            r#"{"rule": "pick", "min": [{"field": "inst.total_blocks"}], "ties": "next", "among": 1}"#
                .to_owned(),
            format!(
                r#"{{"rule": "first_of", "rules": [
                    {{"rule": "reject", "when": {short}}}, {{"rule": "when", "of": {random}, "when": {short}}},
                    {{"rule": "affinity", "key": "tenant"}}, {{"rule": "round_robin"}}
                ]}}"#
            ),
        ] {
            assert_eq!(of_rule(&rule), None, "{rule}");
        }
    }

    #[test]
    fn rules_that_read_state_couple_instances_however_deep_they_are() {
        let full =
            r#"{"op": "lt", "args": [{"const": 0.5}, {"over": "max", "of": {"field": "inst.kv_usage"}}]}"#;
        for rule in [
            r#"{"rule": "fewest_requests"}"#.to_owned(),
            r#"{"rule": "first_of", "rules": [{"rule": "affinity", "key": "session"}, {"rule": "fewest_tokens"}]}"#
                .to_owned(),
            r#"{"rule": "call", "index": 0}"#.to_owned(),
            r#"{"rule": "first_of", "rules": [{"rule": "round_robin"}, {"rule": "hold"}]}"#.to_owned(),
            r#"{"rule": "pick", "min": [{"field": "inst.running"}]}"#.to_owned(),
            r#"{"rule": "pick", "min": [], "ties": "random", "accept": {"field": "inst.fits"}}"#.to_owned(),
            format!(r#"{{"rule": "unless", "of": {{"rule": "round_robin"}}, "when": {full}}}"#),
        ] {
            assert_eq!(of_rule(&rule), Some("routing.on_arrival"), "{rule}");
        }
    }

    #[test]
    fn rules_that_are_never_asked_couple_nothing() {
        let sessions = r#"{"on_arrival": {"rule": "first_of", "rules": [
            {"rule": "affinity", "key": "session"}, {"rule": "fewest_requests"}
        ]}}"#;
        let of = |sessions_of: Vec<u32>| Trace {
            session: Some(sessions_of.into()),
            ..trace(&[row(0, 8, 8), row(0, 8, 8)])
        };
        assert_eq!(coupling(&config(&[10, 10], sessions), &of(vec![0, 1])), None);
        // The second request has no session.
        assert_eq!(
            coupling(&config(&[10, 10], sessions), &of(vec![0, u32::MAX])),
            Some("routing.on_arrival")
        );
    }

    #[test]
    fn what_acts_after_arrivals_couples_instances() {
        let stay = r#"{"rule": "stay"}"#;
        for name in ["decode_on_arrival", "on_prefilled", "on_answering"] {
            let found = of_routing_with(&format!(r#""{name}": {stay}"#));
            assert_eq!(found, Some(format!("routing.{name}").as_str()));
        }
        assert_eq!(of_routing_with(r#""watch": {"field": "inst.running"}"#), Some("routing.watch"));
        assert_eq!(
            of_routing_with(
                r#""books": {"index": {"block_tokens": 16, "capacity": null, "longest": null, "learns": "routed"}}"#
            ),
            Some("routing.books")
        );
    }

    #[test]
    fn settings_of_all_instances_couple_them() {
        let plain = || config(&[10, 10], r#"{"on_arrival": {"rule": "round_robin"}}"#);
        let requests = trace(&[row(0, 8, 8)]);
        let cases = [
            (
                "routers.report_every",
                Config { routers: Routers { report_every: Some(5), ..plain().routers }, ..plain() },
            ),
            ("record_decisions", Config { record_decisions: true, ..plain() }),
            ("instances", config(&[10], r#"{"on_arrival": {"rule": "round_robin"}}"#)),
        ];
        for (name, config) in cases {
            assert_eq!(coupling(&config, &requests), Some(name));
        }
        let cancels = Cancels { after: Some(vec![3].into()), tokens: None };
        let waits = Waits { cancels, ..Waits::default() };
        assert_eq!(coupling(&plain(), &Trace { waits, ..requests }), Some("waits"));
    }
}
