//! Replays in which routers hold requests.

use super::*;
use crate::engine::event_loop::{Outcome, Simulation};
use crate::engine::fixtures::{config, row, trace};
use crate::metrics::Status;

/// Picks the first idle instance, or holds the request.
const ONE_EACH: &str = r#"{"on_arrival": {"rule": "first_of", "rules": [
    {"rule": "pick", "min": [], "where": {"op": "lt", "args": [{"field": "inst.requests"}, {"const": 1}]}},
    {"rule": "hold"}]}}"#;

fn replay(rows: &[(Ticks, u32, u32)], change: impl Fn(&mut crate::Config)) -> Result<Outcome, Error> {
    let outcomes = [true, false].map(|leap| {
        let mut config = config(&[10], ONE_EACH);
        config.leap = leap;
        change(&mut config);
        let mut simulation = Simulation::new(&config, trace(rows)).unwrap();
        while !simulation.advance(1)? {}
        Ok(simulation.into_outcome())
    });
    let [leaping, stepping] = outcomes;
    let (leaping, stepping) = (leaping?, stepping?);
    assert_eq!(format!("{:?}", leaping.columns), format!("{:?}", stepping.columns));
    Ok(leaping)
}

#[test]
fn requests_that_are_held_follow_one_another_as_each_finishes() {
    // A step takes 100 ticks and one more a token: each request takes 120 for its prompt and 101 for its decode.
    let columns = replay(&[row(0, 20, 2), row(10, 20, 2), row(20, 20, 2)], |_| ()).unwrap().columns;
    assert_eq!(columns.finish, [221, 442, 663]);
    assert_eq!(columns.held, [0, 221 - 10, 442 - 20]);
    assert_eq!(columns.scheduled, [0, 221, 442]);
    assert_eq!(columns.instance, [0, 0, 0]);
}

/// As [`ONE_EACH`], but prompts of fewer than 30 tokens go at once.
fn short_ones_at_once(blocks: &str) -> crate::policy::Routing {
    let idle = r#"{"op": "lt", "args": [{"field": "inst.requests"}, {"const": 1}]}"#;
    let short = r#"{"op": "or", "args": [{"op": "lt", "args": [{"field": "req.prompt_tokens"}, {"const": 30}]},
        {"op": "lt", "args": [{"field": "inst.requests"}, {"const": 1}]}]}"#;
    let hold = format!(r#""rule": "hold", "blocks": "{blocks}""#);
    let text = ONE_EACH.replace(idle, short).replace(r#""rule": "hold""#, &hold);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn a_request_that_could_go_waits_only_behind_those_that_block_it() {
    // The first runs until 221. With two routers, the second and the fourth request are of another than the first and the
    // third. Then the third joins the first in the step from 120 to 241, and has its second token at 342. If nothing
    // blocks, the third and the fourth go as they arrive: their 40 tokens of prompts and the first's decode take 141, until
    // 261, and their decodes 102, until 363.
    let all = [(1, [0, 211, 201, 191]), (2, [0, 332, 0, 312])].map(|(routers, held)| ("all", routers, held));
    for (blocks, routers, held) in [all[0], all[1], ("none", 1, [0, 353, 0, 0])] {
        let change = |config: &mut crate::Config| {
            config.routing = short_ones_at_once(blocks);
            config.routers.count = routers;
        };
        let rows = [row(0, 20, 2), row(10, 40, 2), row(20, 20, 2), row(30, 20, 2)];
        let columns = replay(&rows, change).unwrap().columns;
        assert_eq!(columns.held, held, "{blocks} {routers}");
    }
}

#[test]
fn those_behind_a_request_that_gives_up_are_asked_about_at_once() {
    // Prompts of 40 tokens never go. The others wait behind the first until it gives up at 10 + 500.
    let never = r#"{"on_arrival": {"rule": "first_of", "rules": [
        {"rule": "pick", "min": [], "where": {"op": "lt", "args": [{"field": "req.prompt_tokens"}, {"const": 30}]}},
        {"rule": "hold", "blocks": "all"}]}}"#;
    let change = |config: &mut crate::Config| {
        config.routing = serde_json::from_str(never).unwrap();
        config.routers.give_up_after = Some(500);
    };
    let columns = replay(&[row(10, 40, 2), row(20, 20, 2), row(510, 20, 2)], change).unwrap().columns;
    let (done, gave_up) = (Status::Finished as u8, Status::GaveUp as u8);
    assert_eq!(columns.status, [gave_up, done, done]);
    assert_eq!(columns.held, [500, 490, 0]);
}

#[test]
fn a_request_gives_up_when_its_time_is_up_unless_it_may_go_at_that_moment() {
    let give_up = |after| {
        let rows = [row(0, 20, 2), row(10, 20, 2), row(20, 20, 2)];
        replay(&rows, |config| config.routers.give_up_after = Some(after)).unwrap().columns
    };
    // The second may go at 221, the third at 442 if the second went, and at 221 if not.
    let columns = give_up(211);
    let (done, gave_up) = (Status::Finished as u8, Status::GaveUp as u8);
    assert_eq!(columns.status, [done, done, gave_up]);
    assert_eq!(columns.held, [0, 211, 211]);
    let columns = give_up(210);
    assert_eq!(columns.status, [done, gave_up, done]);
    assert_eq!(columns.finish[2], 221 + 221);
}

#[test]
fn a_replay_that_stops_says_which_requests_are_held() {
    let stop = |config: &mut crate::Config| config.until = Some(100);
    let columns = replay(&[row(0, 20, 2), row(10, 20, 2)], stop).unwrap().columns;
    assert_eq!(columns.status, [Status::Running as u8, Status::Held as u8]);
    assert_eq!(columns.held, [0, 90]);
}

#[test]
fn a_request_is_sent_on_by_the_report_that_shows_an_idle_instance() {
    let reported = |config: &mut crate::Config| config.routers.report_every = Some(100);
    let columns = replay(&[row(0, 20, 2), row(110, 20, 2)], reported).unwrap().columns;
    // The report at 300 is the first after the finish at 221. The one at 100 shows the first request.
    assert_eq!((columns.held[1], columns.scheduled[1]), (190, 300));
}

#[test]
fn a_request_that_nothing_can_let_go_is_an_error() {
    // A monitor that finds nothing to do is no news for a report.
    let looks = r#"[{"period": 10, "actions": [{"action": "migrate", "source": {"min": []}, "target": {"min": []},
        "choose": {"min": []}}]}]"#;
    for (every, monitors) in [(None, "[]"), (Some(70), "[]"), (None, looks), (Some(70), looks)] {
        let never = |config: &mut crate::Config| {
            let text = ONE_EACH.replace(r#""const": 1"#, r#""const": 0"#);
            config.routing = serde_json::from_str(&text).unwrap();
            config.routers.report_every = every;
            config.routing.every = serde_json::from_str(monitors).unwrap();
        };
        let error = replay(&[row(5, 20, 2)], never).unwrap_err();
        assert!(error.to_string().contains("the router holds 1 requests"), "{error}");
    }
}
