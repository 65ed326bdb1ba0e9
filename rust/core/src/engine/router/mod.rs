//! Picks the instance for a request by a rule.
//!
//! A rule sees the tokens of each instance as of its last finished step, and its batch, queues and blocks as of now; or,
//! if instances report, all of these as of the latest report ([`reports`]). It sees what its own router keeps as of the
//! latest decision ([`kept`]). It picks only instances that could serve the request.

mod affinity;
mod books;
mod callback;
mod choose;
mod decision;
mod draws;
mod equals;
mod least_loaded;
mod pick;
mod random;
mod softmax;
mod turns;
mod view;

pub use callback::{CALLBACK_INSTANCE_FIELDS, CALLBACK_REQUEST_FIELDS, CallbackView, Decide};
pub(super) use decision::Decision;
pub(super) use pick::{Best, Candidates};
pub(super) use view::RouterView;

use books::Books;
use draws::Draws;
pub(super) use draws::mix;
use pick::LowerBound;
use random::WyRand;

use super::cluster::Cluster;
use crate::config::Routers;
use crate::error::Error;
use crate::hint::rare;
use crate::instance::{Asking, Instance, RequestView};
use crate::metrics::Reason;
use crate::policy::{Alike, Expr, Routing, Rule, Ties, value_now};
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};

/// The memory of the rules of one router.
#[derive(Debug)]
struct Desk {
    /// By rule that remembers an instance: the instance that is next.
    turns: Vec<usize>,
    /// The router's random numbers: those of the rule that picks the decode instance of an arrival, and of all others.
    draws: [Draws; 2],
    /// The books of the requests that it routed, if the policy reads them.
    books: Option<Box<Books>>,
    /// The random numbers of each pick that draws by weights.
    random: Vec<WyRand>,
}

crate::checkpoint::checkpointed!(Desk {
    values: turns, draws, random;
    absent: books;
});

/// The memory of rules between two requests, and the resources that they share.
pub(super) struct Router {
    /// By router.
    desks: Vec<Desk>,
    /// Whether every instance refuses the same requests.
    uniform: bool,
    /// Whether routers keep books.
    keeps_books: bool,
    /// All instances, by index.
    all: Vec<usize>,
    /// The instances that may be picked: kept for its memory.
    able: Vec<usize>,
    /// Of each of them, a bound of the field by which a pick compares.
    bounds: Vec<LowerBound>,
    /// The callbacks of the policy.
    callbacks: Option<Box<dyn Decide>>,
    /// A number of each instance that is recorded as requests arrive.
    watch: Option<Expr>,
    /// Its values, of all instances for one request after another.
    watched: Vec<f64>,
}

crate::checkpoint::checkpointed!(Router {
    values: all, able, bounds, watched;
    parts: desks;
    fixed: uniform, keeps_books;
    absent: callbacks, watch;
});

impl std::fmt::Debug for Router {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Router").field("desks", &self.desks).finish_non_exhaustive()
    }
}

impl Router {
    /// Routers for the rules of `routing`, whose rules that remember an instance are numbered.
    pub(super) fn new(
        instances: &[Instance],
        routing: &Routing,
        routers: Routers,
        callbacks: Option<Box<dyn Decide>>,
    ) -> Self {
        let (n, count) = (instances.len(), u64::from(routers.count));
        let desk = |router: u64| {
            let from = (n as u64 * router / count) as usize;
            let mut turns = Vec::new();
            routing.visit_turns(&mut |turn, ties| {
                turns.resize(turns.len().max(turn + 1), 0);
                turns[turn] = if matches!(ties, Some(Ties::Rotate | Ties::Spread)) { from } else { 0 };
            });
            Desk {
                turns,
                draws: [0; 2].map(|_| Draws::new(routers.seed, router)),
                books: None,
                random: Vec::new(),
            }
        };
        Self {
            desks: (0..count).map(desk).collect(),
            uniform: instances
                .iter()
                .all(|instance| instance.settings().refuses_like(instances[0].settings())),
            keeps_books: false,
            all: (0..n).collect(),
            able: Vec::new(),
            bounds: Vec::new(),
            callbacks,
            watch: None,
            watched: Vec::new(),
        }
    }

    /// Has each router keep the books that the rules read, and seeds the generators of those that draw.
    pub(super) fn keep_books(
        &mut self,
        routing: &mut Routing,
        instances: usize,
        trace: &Trace,
    ) -> Result<(), Error> {
        self.watch.clone_from(&routing.watch);
        self.keeps_books = routing.books.exist();
        let seeds = routing.number_draws();
        for (router, desk) in (0..).zip(&mut self.desks) {
            if routing.books.exist() {
                desk.books =
                    Some(Box::new(Books::new(&routing.books, &routing.prompt_pools(), instances, trace)?));
            }
            let seed = |&seed: &u64| if router == 0 { seed } else { seed ^ mix(router) };
            desk.random = seeds.iter().map(|one| WyRand::new(seed(one))).collect();
        }
        Ok(())
    }

    /// The columns of a request that a rule for arrivals reads.
    pub(super) fn alike(&self, rule: &Rule) -> Alike {
        Alike::new(rule, !self.uniform).each_alone(self.keeps_books || self.watch.is_some())
    }

    /// Books a request that was routed to an instance.
    pub(super) fn book(&mut self, row: u32, instance: usize, cluster: &Cluster) {
        if !self.keeps_books {
            return;
        }
        rare();
        let router = cluster.known().router_of(row as usize);
        if let Some(books) = &mut self.desks[router].books {
            books.route(row, instance, cluster);
        }
    }

    /// Books a request that arrives, which is to decode on an instance.
    pub(super) fn book_decode(&mut self, row: u32, instance: usize, cluster: &Cluster) {
        let router = cluster.known().router_of(row as usize);
        if let Some(books) = &mut self.desks[router].books {
            books.insert_prompt(row, instance, cluster);
        }
    }

    /// Books what happened to requests in steps that have ended.
    pub(super) fn hear(&mut self, cluster: &mut Cluster, now: Ticks) {
        if cluster.has_notices() {
            rare();
            let notices = cluster.take_notices();
            for books in self.desks.iter_mut().filter_map(|desk| desk.books.as_mut()) {
                books.hear(&notices, cluster, now);
            }
        }
    }

    /// Why no instance could ever serve a request; [`Reason::None`] if one could.
    pub(super) fn rejects(&self, row: usize, cluster: &Cluster) -> Reason {
        let (trace, instances) = (cluster.trace(), cluster.instances());
        let (prompt, output, model) =
            (trace.prompt_tokens[row], trace.output_tokens[row], trace.model_of(row));
        let reason = instances[0].settings().refuses(prompt, output, model);
        if self.uniform || reason == Reason::None {
            return reason;
        }
        let all = || instances.iter().map(|instance| instance.settings().refuses(prompt, output, model));
        if all().any(|reason| reason == Reason::None) {
            return Reason::None;
        }
        // The last reason is the least: if the blocks of an instance are exceeded, its context is not. An instance that
        // does not serve the model has none of these.
        all().filter(|reason| *reason != Reason::NoModel).max_by_key(|reason| *reason as u8).unwrap_or(reason)
    }

    /// Asks a rule about a request that arrives, or that a router holds.
    pub(super) fn decide_on_arrival(
        &mut self,
        rule: &Rule,
        row: usize,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Decision, Error> {
        let counts = matches!(rule, Rule::FewestRequests { within: None }) && self.uniform;
        if counts && !cluster.known().is_reported() && self.watch.is_none() {
            return Ok(Decision::of(cluster.fewest_outstanding()));
        }
        self.decide_by_rule(rule, row, cluster, now)
    }

    /// See [`Self::decide_on_arrival`].
    #[inline(never)]
    fn decide_by_rule(
        &mut self,
        rule: &Rule,
        row: usize,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Decision, Error> {
        if rule.counts() && !cluster.known().is_reported() && self.watch.is_none() {
            let trace = cluster.trace();
            let (prompt, output) = (trace.prompt_tokens[row], trace.output_tokens[row]);
            let asked = (prompt, output, trace.model_of(row));
            return Ok(Decision::of(self.fewest(rule, asked, cluster, now)));
        }
        let view = RequestView::arriving(RequestNumber(row as u32), now, cluster.trace());
        self.ask(rule, &Asking { view: &view, place: None }, None, cluster, now)
    }

    /// The instance that a rule picks for a request that arrives, whose prompt an instance is to compute: (row, that
    /// instance, which is `here`).
    #[inline(never)]
    pub(super) fn pick_with_prefill(
        &mut self,
        rule: &Rule,
        (row, prefill): (usize, usize),
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Option<usize>, Error> {
        let view = RequestView::arriving(RequestNumber(row as u32), now, cluster.trace());
        Ok(self.ask(rule, &Asking { view: &view, place: None }, Some(prefill), cluster, now)?.picked())
    }

    /// The instance that a rule picks for a request on an instance.
    pub(super) fn pick(
        &mut self,
        rule: &Rule,
        request: &Asking,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Option<usize>, Error> {
        Ok(self.ask(rule, request, None, cluster, now)?.picked())
    }

    /// The decision of a rule about a request; `prefill`: the instance that is to compute its prompt, where the rule picks the
    /// one on which it decodes.
    #[inline(never)]
    fn ask(
        &mut self,
        rule: &Rule,
        request: &Asking,
        prefill: Option<usize>,
        cluster: &mut Cluster,
        now: Ticks,
    ) -> Result<Decision, Error> {
        let router = cluster.known().router_of(request.view.request.index());
        let mut books = self.desks[router].books.take();
        if let Some(books) = &mut books {
            rare();
            books.catch_up(cluster, now);
            books.look_up(request.view.request.0, cluster.trace());
        }
        let mut view = RouterView::of_request(cluster, request, now).with_books(books.as_deref());
        if let Some(prefill) = prefill {
            rare();
            view.set_prefill(prefill);
        }
        let decision = self.choose_and_record(rule, &mut view);
        if books.is_some() {
            rare();
            self.desks[router].books = books;
        }
        decision
    }

    /// Asks a rule in a view. Records the watched number as the request arrives.
    fn choose_and_record(&mut self, rule: &Rule, view: &mut RouterView) -> Result<Decision, Error> {
        if let Some(watch) = &self.watch
            && view.here().is_none()
        {
            rare();
            for index in 0..view.len() {
                view.set_candidate(index);
                self.watched.push(value_now(watch, view));
            }
        }
        self.choose(rule, view)
    }

    /// The values that were watched, of all instances for one request after another.
    pub(super) fn into_watched(self) -> Vec<f64> {
        self.watched
    }

    /// Asks a rule that changes roles, for a monitor: about no request.
    pub(super) fn flip(&mut self, rule: &Rule, cluster: &mut Cluster, now: Ticks) -> Result<(), Error> {
        // A rule sees a request of one token, which any instance can serve.
        let view = RequestView { now, prompt: 1, ..RequestView::default() };
        let asking = Asking { view: &view, place: None };
        self.choose(rule, &mut RouterView::of_request(cluster, &asking, now).of_none()).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::fixtures::{cluster, router, row};

    #[test]
    fn a_request_is_refused_only_if_every_instance_refuses_it() {
        // Blocks of 16 tokens: 160 fit into the first instance, 640 into the second.
        let cluster = cluster(&[10, 40], &[row(0, 100, 8), row(0, 500, 8), row(0, 700, 8)]);
        let router = router(&cluster);
        let reasons = [0, 1, 2].map(|row| router.rejects(row, &cluster));
        assert_eq!(reasons, [Reason::None, Reason::None, Reason::ExceedsMemory]);
    }

    #[test]
    fn fewest_requests_counts_what_was_sent_and_first_of_falls_through() {
        let mut cluster = cluster(&[10, 40], &[row(0, 8, 8), row(0, 8, 8), row(0, 500, 8)]);
        let mut router = router(&cluster);
        let fewest = Rule::FewestRequests { within: None };
        let mut picked = |rule: &Rule, row: usize, cluster: &mut Cluster| {
            let decision = router.decide_on_arrival(rule, row, cluster, 0).unwrap();
            let Decision::Send(index) = decision else { return None };
            cluster.send(row, index, 0);
            Some(index)
        };
        assert_eq!(picked(&fewest, 0, &mut cluster), Some(0));
        assert_eq!(picked(&fewest, 1, &mut cluster), Some(1));
        let rules = vec![Rule::Stay { when: None }, Rule::RoundRobin { turn: 0, within: None }];
        // The request is on no instance to stay on, and only the second instance holds its context.
        assert_eq!(picked(&Rule::FirstOf { rules }, 2, &mut cluster), Some(1));
    }

    #[test]
    fn a_callback_must_pick_an_instance_that_serves_the_request() {
        struct Always(usize);
        impl Decide for Always {
            fn decide(&mut self, _: usize, view: &CallbackView) -> Result<Option<usize>, Error> {
                assert_eq!((view.instances.len(), view.here), (2, None));
                Ok(Some(self.0))
            }
        }
        let mut cluster = cluster(&[10, 40], &[row(0, 500, 8)]);
        let rule = Rule::Call { index: 0 };
        for (index, fits) in [(0, false), (1, true), (2, false)] {
            let mut router = Router { callbacks: Some(Box::new(Always(index))), ..router(&cluster) };
            let picked = router.decide_on_arrival(&rule, 0, &mut cluster, 0);
            assert_eq!(picked.is_ok(), fits, "{picked:?}");
        }
    }
}
