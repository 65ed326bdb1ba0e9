use super::*;
use crate::engine::fixtures::{cluster, row};
use crate::time::{NEVER, TICKS_PER_SECOND};

/// One request that decodes on instance 0, whose next step ends at 221; a byte a tick and a latency of 7 ticks.
fn decoding() -> (Cluster, Migrations) {
    let mut cluster = cluster(&[10, 10], &[row(0, 20, 50)]);
    cluster.send(0, 0, 0);
    cluster.start_steps(0).unwrap();
    cluster.end_steps(120);
    cluster.start_steps(120).unwrap();
    let links = Links::ports(TICKS_PER_SECOND as f64, 7);
    (cluster, Migrations::new(Some(&links), None, 2))
}

fn begin(cluster: &mut Cluster, migrations: &mut Migrations, live: Option<Live>, now: Ticks) {
    let slot = cluster.instance(0).decoding()[0];
    cluster.catch_up(0, now);
    let view = cluster.view(0, slot, now);
    migrations.begin(Migration::new(RequestNumber(0), slot, 0, 1), &view, live, cluster, now);
}

/// Ends the step of instance 0 and lets a request that was asked to leave do so.
fn leave(cluster: &mut Cluster, migrations: &mut Migrations, now: Ticks) {
    cluster.end_steps(now);
    let mut changed = Vec::new();
    cluster.list_phase_changes(&mut changed);
    for source in changed {
        while let Some((_, slot, request)) = cluster.next_phase_change(source) {
            migrations.leave_as_asked(slot, request, cluster, now);
        }
    }
}

#[test]
fn a_request_leaves_after_its_step_with_all_its_kv() {
    let (mut cluster, mut migrations) = decoding();
    begin(&mut cluster, &mut migrations, None, 200);
    assert_eq!(cluster.next_end(), (221, 0));
    leave(&mut cluster, &mut migrations, 221);
    assert!(!migrations.is_under_way(RequestNumber(0)));
    // 20 tokens of the prompt and one that was decoded, a byte each, and the latency.
    assert_eq!(migrations.next_delivery(), 221 + 21 + 7);
    assert_eq!(cluster.outstanding(0), 0);
    migrations.deliver(&mut cluster, 248);
    assert_eq!(cluster.outstanding(1), 0, "nothing is delivered early");
    migrations.deliver(&mut cluster, 249);
    assert_eq!((cluster.outstanding(1), migrations.next_delivery()), (1, NEVER));
}

#[test]
fn a_live_migration_transfers_at_last_only_what_was_not_copied() {
    let (mut cluster, mut migrations) = decoding();
    begin(&mut cluster, &mut migrations, Some(Live { stages: 1, last_blocks: 0 }), 200);
    assert_eq!(migrations.next_delivery(), 200 + 20 + 7);
    // By then the first decode has ended; the second ends at 322.
    migrations.deliver(&mut cluster, 227);
    assert_eq!(cluster.next_end(), (322, 0));
    leave(&mut cluster, &mut migrations, 322);
    assert_eq!(migrations.next_delivery(), 322 + 2 + 7, "two tokens were decoded since the copy");
}

#[test]
fn stages_follow_until_few_blocks_are_left() {
    let (mut cluster, mut migrations) = decoding();
    begin(&mut cluster, &mut migrations, Some(Live { stages: 3, last_blocks: 0 }), 200);
    migrations.deliver(&mut cluster, 227);
    // One token was decoded, so one block is left to copy: more than none, and a second stage follows.
    assert_eq!(migrations.next_delivery(), 227 + 1 + 7);
    let (mut cluster, mut migrations) = decoding();
    begin(&mut cluster, &mut migrations, Some(Live { stages: 3, last_blocks: 1 }), 200);
    migrations.deliver(&mut cluster, 227);
    assert_eq!(migrations.next_delivery(), NEVER, "one block is few enough: the request is asked to leave");
}

#[test]
fn a_request_that_migrates_elsewhere_voids_its_live_migration() {
    let (mut cluster, mut migrations) = decoding();
    begin(&mut cluster, &mut migrations, Some(Live { stages: 2, last_blocks: 0 }), 200);
    cluster.truncate_run(0, 200);
    cluster.end_steps(221);
    let slot = cluster.instance(0).decoding()[0];
    migrations.leave_at_once(&Migration::new(RequestNumber(0), slot, 0, 1), &mut cluster, 221);
    migrations.deliver(&mut cluster, 227);
    assert!(!migrations.is_under_way(RequestNumber(0)));
    // The sender's port was busy until 220: only the request itself is in transfer.
    assert_eq!(migrations.next_delivery(), 221 + 21 + 7);
}
