//! Asking the rules where a request goes on, and moving it there.

use super::Simulation;
use super::route::Best;
use super::sight::RouterView;
use super::transfers::{Migration, Payload, Transfer};
use crate::error::Error;
use crate::instance::{Asking, Occasion, RequestView};
use crate::metrics::{Reason, Status};
use crate::policy::{Action, Choice, Live, Rule, Scope, sort_key_now};
use crate::time::{NEVER, Ticks};

/// Where requests go.
#[derive(Debug)]
#[expect(clippy::struct_field_names, reason = "named as in the configuration")]
pub(super) struct Rules {
    pub(super) on_arrival: Rule,
    pub(super) on_prefilled: Option<Rule>,
    pub(super) on_answering: Option<Rule>,
}

/// When a rule is asked.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
    Arrival,
    Prefilled,
    Answering,
}

impl Rules {
    fn of(&self, question: Question) -> Option<&Rule> {
        match question {
            Question::Arrival => Some(&self.on_arrival),
            Question::Prefilled => self.on_prefilled.as_ref(),
            Question::Answering => self.on_answering.as_ref(),
        }
    }
}

/// Something that is looked at every so often.
#[derive(Debug)]
pub(super) struct MonitorTimer {
    pub(super) next: Ticks,
    pub(super) period: Ticks,
    pub(super) actions: Vec<Action>,
}

impl Simulation {
    /// Asks about those for whom the step that ended was a turning point.
    #[inline(never)]
    pub(super) fn ask_rules(&mut self, now: Ticks) -> Result<(), Error> {
        self.starting.sort_unstable();
        for i in 0..self.starting.len() {
            let index = self.starting[i];
            if !self.instances[index].is_turning() {
                continue;
            }
            self.instances[index].sort_turning();
            while let Some((occasion, slot)) = self.instances[index].pop_turning() {
                let request = self.instances[index].request_in(slot);
                if !self.instances[index].still_runs(slot, request) {
                    continue;
                }
                let question = match occasion {
                    Occasion::Prefilled => Question::Prefilled,
                    Occasion::Answering => Question::Answering,
                    Occasion::Told => {
                        let at = self.transfers.migrations.iter().position(|m| m.request == request);
                        if let Some(at) = at {
                            let migration = self.transfers.migrations.swap_remove(at);
                            self.leave(slot, &migration, now);
                        }
                        continue;
                    }
                };
                let view = self.instances[index].view(slot, now);
                let asking = Asking { view, place: Some((index, slot)) };
                let target = self.choose(question, &asking, now)?;
                if let Some(target) = target.filter(|&target| target != index) {
                    for migration in &mut self.transfers.migrations {
                        migration.void |= migration.request == request;
                    }
                    let migration = Migration { request, source: index, target, copied: 0, void: false };
                    self.leave(slot, &migration, now);
                }
            }
        }
        Ok(())
    }

    /// Has a request leave at once, with what is not at its target yet.
    fn leave(&mut self, slot: u32, migration: &Migration, now: Ticks) {
        let &Migration { source, target, copied, .. } = migration;
        let parcel = self.depart(source, slot, now);
        let bytes = self.instances[source].kv_bytes(parcel.kv_tokens.saturating_sub(copied));
        self.router.left(source);
        self.transfers.send(Transfer { source, slot, target, payload: Payload::Move(parcel) }, bytes, now);
    }

    fn depart(&mut self, index: usize, slot: u32, now: Ticks) -> crate::instance::Parcel {
        self.instances[index].depart(slot, now, &mut self.world)
    }

    /// What the rule says that is asked.
    #[inline(never)]
    pub(super) fn choose(
        &mut self,
        question: Question,
        asking: &Asking,
        now: Ticks,
    ) -> Result<Option<usize>, Error> {
        let Self { rules, router, instances, world, .. } = self;
        let Some(rule) = rules.of(question) else { return Ok(None) };
        let here = asking.place.map(|(index, _)| index);
        let mut router_view = RouterView { instances, world, now, asking, candidate: 0, there: None, here };
        router.choose(rule, &mut router_view)
    }

    /// Takes in what has come by `now`.
    #[inline]
    pub(super) fn land(&mut self, now: Ticks) {
        if self.transfers.next() <= now {
            self.deliver(now);
        }
    }

    #[inline(never)]
    fn deliver(&mut self, now: Ticks) {
        while let Some(Transfer { source, slot, target, payload }) = self.transfers.pop(now) {
            self.events += 1;
            match payload {
                Payload::Move(parcel) => {
                    let end = self.instances[source].sent(slot, now, &mut self.world);
                    self.recut(source, end, now);
                    let end = self.instances[target].land(&parcel, now, &mut self.world);
                    self.router.sent(target);
                    self.recut(target, end, now);
                }
                Payload::Copy { request, preemptions, copied, stage, live } => {
                    self.copied(
                        Migration { request, source, target, copied, void: false },
                        slot,
                        preemptions,
                        stage,
                        live,
                        now,
                    );
                }
            }
        }
    }

    /// A copy is there: the rest follows, as another copy or with the request.
    #[inline(never)]
    fn copied(
        &mut self,
        migration: Migration,
        slot: u32,
        preemptions: u32,
        stage: u32,
        live: Live,
        now: Ticks,
    ) {
        let Migration { request, source, target, copied, .. } = migration;
        self.catch_up(source, now);
        let instance = &mut self.instances[source];
        let view = instance.view(slot, now);
        let void = self.transfers.migrations.iter().any(|it| it.request == request && it.void);
        if void || view.row != request || !view.running || view.preemptions != preemptions {
            self.transfers.migrations.retain(|migration| migration.request != request);
            return;
        }
        let since = view.computed - copied;
        if stage >= live.stages || instance.blocks_of(since) <= live.last_blocks {
            self.transfers.migrations.retain(|migration| migration.request != request);
            self.tell(slot, migration, now);
            return;
        }
        let bytes = instance.kv_bytes(since);
        let payload = Payload::Copy { request, preemptions, copied: view.computed, stage: stage + 1, live };
        self.transfers.send(Transfer { source, slot, target, payload }, bytes, now);
    }

    /// Tells a request to leave once the step in progress has ended: at once if
    /// there is none.
    fn tell(&mut self, slot: u32, migration: Migration, now: Ticks) {
        let source = migration.source;
        let end = self.instances[source].cut(now);
        self.recut(source, end, now);
        if self.instances[source].is_idle() {
            self.leave(slot, &migration, now);
        } else {
            self.instances[source].tell_to_leave(slot);
            self.transfers.migrations.push(migration);
        }
    }

    fn catch_up(&mut self, index: usize, now: Ticks) {
        self.instances[index].catch_up_with(now, &mut self.world);
    }

    /// Books that something came to an instance whose run now ends at `end`.
    pub(super) fn recut(&mut self, index: usize, end: Option<Ticks>, now: Ticks) {
        match end {
            Some(end) if end > now => self.calendar.set(index, end),
            Some(_) => {
                // The run had a step that ends at this very moment.
                self.end_step(index, now);
                self.free(index);
            }
            None => {
                if self.instances[index].is_idle() && !self.starting.contains(&index) {
                    self.starting.push(index);
                }
            }
        }
    }

    /// When something is to be looked at next.
    #[inline]
    pub(super) fn next_monitor(&self) -> Ticks {
        self.monitors.iter().map(|timer| timer.next).min().unwrap_or(NEVER)
    }

    /// Looks at what is to be looked at now.
    #[inline(never)]
    pub(super) fn run_monitors(&mut self, now: Ticks) {
        let status = &self.world.columns.status;
        let finished = |row: u32| status[row as usize] == Status::Finished as u8;
        self.transfers.migrations.retain(|migration| !finished(migration.request));
        let mut monitors = std::mem::take(&mut self.monitors);
        for timer in monitors.iter_mut().filter(|timer| timer.next <= now) {
            self.events += 1;
            timer.next = timer.next.saturating_add(timer.period);
            for Action::Migrate { source, target, choose, when, live } in &timer.actions {
                let sources = self.ranked(source, now);
                // Mostly there is nobody to relieve.
                let targets = if sources.is_empty() { Vec::new() } else { self.ranked(target, now) };
                for (here, there) in sources.into_iter().zip(targets) {
                    if here == there {
                        continue;
                    }
                    let nobody = self.nobody(now);
                    let mut router_view = self.pair(here, there, &nobody, now);
                    if when.as_ref().is_none_or(|when| router_view.holds(when)) {
                        self.migrate(here, there, choose, *live, now);
                    }
                }
            }
        }
        self.monitors = monitors;
    }

    /// A pair of instances, or each of them, is looked at, for `asking`.
    fn pair<'a>(&'a mut self, here: usize, there: usize, asking: &'a Asking, now: Ticks) -> RouterView<'a> {
        let Self { instances, world, .. } = self;
        RouterView { instances, world, now, asking, candidate: here, there: Some(there), here: Some(here) }
    }

    /// Nobody asks.
    fn nobody(&self, now: Ticks) -> Asking {
        Asking { view: RequestView::arriving(0, now, &self.world.trace), place: None }
    }

    /// The instances that a choice considers, the lowest first.
    fn ranked(&mut self, choice: &Choice, now: Ticks) -> Vec<usize> {
        let n = self.instances.len();
        let nobody = self.nobody(now);
        let mut router_view = self.pair(0, 0, &nobody, now);
        let mut found: Vec<(Vec<i64>, usize)> = Vec::new();
        for index in 0..n {
            router_view.candidate = index;
            if choice.within.as_ref().is_some_and(|roles| !router_view.has_role(index, roles)) {
                continue;
            }
            if choice.r#where.as_ref().is_some_and(|condition| !router_view.holds(condition)) {
                continue;
            }
            let keys = choice.min.iter().map(|key| sort_key_now(key, &mut router_view)).collect();
            found.push((keys, index));
        }
        found.sort_unstable();
        found.into_iter().map(|(_, index)| index).collect()
    }

    /// Has one request go from `source` to `target`, if there is one to go.
    fn migrate(&mut self, source: usize, target: usize, choose: &Choice, live: Option<Live>, now: Ticks) {
        self.catch_up(source, now);
        let mut best: Best<(u32, RequestView)> = Best::default();
        for slot in self.instances[source].decoding() {
            let view = self.instances[source].view(slot, now);
            let busy = self.transfers.migrations.iter().any(|migration| migration.request == view.row);
            if busy || self.instances[target].refuses(view.prompt, view.output) != Reason::None {
                continue;
            }
            let asking = Asking { view, place: Some((source, slot)) };
            let mut router_view = self.pair(source, target, &asking, now);
            if choose.r#where.as_ref().is_some_and(|condition| !router_view.holds(condition)) {
                continue;
            }
            if best.is_beaten(&choose.min, &mut router_view) {
                best.take((slot, view));
            }
        }
        let Some((slot, view)) = best.found else { return };
        let migration = Migration { request: view.row, source, target, copied: 0, void: false };
        let Some(live) = live.filter(|live| live.stages > 0) else {
            self.tell(slot, migration, now);
            return;
        };
        self.transfers.migrations.push(migration);
        let bytes = self.instances[source].kv_bytes(view.computed);
        let payload = Payload::Copy {
            request: view.row,
            preemptions: view.preemptions,
            copied: view.computed,
            stage: 1,
            live,
        };
        self.transfers.send(Transfer { source, slot, target, payload }, bytes, now);
    }
}
