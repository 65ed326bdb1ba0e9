//! The view of a rule: a request, and every instance with its tokens as of its last finished step, its batch, queues and
//! blocks as of now. If instances report, rules see them as of the latest report.

use super::books::Books;
use super::pick::Candidates;
use crate::engine::cluster::Cluster;
use crate::engine::known::Knowledge;
use crate::engine::roles::{Cause, Flipping};
use crate::instance::{Asking, Instance};
use crate::metrics::Reason;
use crate::policy::{
    Expr, Field, Flip, InstField, InstanceRef, Linear, Moment, Number, ReqField, Scope, Validity, holds_now,
};
use crate::time::Ticks;
use crate::trace::{ANY_MODEL, RequestNumber};

/// The request and the instances that a rule sees.
pub(in crate::engine) struct RouterView<'a> {
    /// The instances.
    cluster: &'a mut Cluster,
    /// The moment at which the rule is asked.
    now: Ticks,
    /// The request for which it is asked.
    request: &'a Asking<'a>,
    /// The instance under consideration.
    candidate: usize,
    /// The instance of the request, or the source of a pair.
    here: Option<usize>,
    /// The instance that was picked, or the target of a pair.
    there: Option<usize>,
    /// The router that is asked; `None`: a monitor, which sees what all routers keep.
    router: Option<usize>,
    /// The books that the router keeps of the requests that it routed.
    books: Option<&'a Books>,
    /// Whether the rule picks the decode instance of a request that arrives.
    decode: bool,
    /// Whether the rule is asked about a request.
    asks: bool,
}

impl<'a> RouterView<'a> {
    /// The view of a rule that picks an instance for `request`.
    pub(super) fn of_request(cluster: &'a mut Cluster, request: &'a Asking<'a>, now: Ticks) -> Self {
        let here = request.place.map(|(index, _)| index);
        let router = Some(cluster.known().router_of(request.view.request.index()));
        Self {
            cluster,
            now,
            request,
            candidate: 0,
            here,
            there: None,
            router,
            books: None,
            decode: false,
            asks: true,
        }
    }

    /// The view of a monitor that considers a pair of instances, `here` and `there`, for `request`.
    pub(in crate::engine) fn of_pair(
        cluster: &'a mut Cluster,
        request: &'a Asking<'a>,
        (here, there): (usize, usize),
        now: Ticks,
    ) -> Self {
        let (here, there) = (Some(here), Some(there));
        let candidate = here.unwrap_or(0);
        Self {
            cluster,
            now,
            request,
            candidate,
            here,
            there,
            router: None,
            books: None,
            decode: false,
            asks: true,
        }
    }

    /// The same view, with what the router keeps, if anything.
    pub(super) fn with_books(mut self, books: Option<&'a Books>) -> Self {
        self.books = books;
        self
    }

    /// The owner of the last node that the request's prompt touches in the router's tree of these pools, if the tree has
    /// more than the share `above` of the prompt, and the owner is in these pools.
    pub(super) fn prompt_owner(&self, above: f64, within: Option<&[u32]>) -> Option<usize> {
        let matched = self.books?.matched(self.asked().0, within, self.cluster.trace())?;
        let owner = Some(matched.owner).filter(|_| matched.share > above)?;
        within.is_none_or(|roles| self.cluster.roles().is_in(owner, roles)).then_some(owner)
    }

    /// The same view, of a rule that is asked about no request.
    pub(super) fn of_none(mut self) -> Self {
        self.asks = false;
        self
    }

    /// The model that the request names.
    pub(super) fn model(&self) -> u32 {
        if self.asks { self.cluster.trace().model_of(self.asked().index()) } else { ANY_MODEL }
    }

    /// The number of instances.
    pub(super) fn len(&self) -> usize {
        self.cluster.len()
    }

    /// The instances.
    pub(super) fn cluster(&self) -> &Cluster {
        self.cluster
    }

    /// The moment at which the rule is asked.
    pub(super) fn now(&self) -> Ticks {
        self.now
    }

    /// The tokens of the request's prompt and output.
    pub(super) fn lengths(&self) -> (u32, u32) {
        (self.request.view.prompt, self.request.view.output)
    }

    /// The router that is asked.
    pub(super) fn router(&self) -> usize {
        self.router.unwrap_or(0)
    }

    /// Whether routers see reports, and not the instances as they are.
    pub(super) fn is_reported(&self) -> bool {
        self.cluster.known().is_reported()
    }

    /// The request that is asked about.
    pub(super) fn asked(&self) -> RequestNumber {
        self.request.view.request
    }

    /// The instance of the request, or the source of a pair.
    pub(super) fn here(&self) -> Option<usize> {
        self.here
    }

    /// Sets the instance that is to compute the request's prompt: the rule picks the one on which it is to decode.
    pub(super) fn set_prefill(&mut self, prefill: usize) {
        (self.here, self.decode) = (Some(prefill), true);
    }

    /// Whether the rule picks the decode instance of a request that arrives.
    pub(super) fn is_decode(&self) -> bool {
        self.decode
    }

    /// Has an instance change its pool, as a rule says. Returns whether it is in that pool then, or on its way.
    pub(super) fn flip(&mut self, index: usize, flip: &Flip) -> bool {
        let request = (flip.moment != Moment::Monitor).then_some(self.asked().0);
        let cause = Cause::Rule(flip.moment, request);
        self.cluster.flip(index, Flipping { to: flip.to, keep: flip.keep, cause }, self.now)
    }

    /// Sets the instance that was picked.
    pub(super) fn set_there(&mut self, there: Option<usize>) {
        self.there = there;
    }

    /// Sets the instance under consideration.
    pub(in crate::engine) fn set_candidate(&mut self, candidate: usize) {
        self.candidate = candidate;
    }
}

impl RouterView<'_> {
    /// A field that routers keep, know from a report, or see as the instance has it now.
    #[inline(never)]
    fn known_field(&mut self, index: usize, field: InstField, class: u32) -> f64 {
        if field.is_booked() {
            return self.books.map_or(0.0, |books| books.field(index, field, self.request.view.prompt));
        }
        let known = self.cluster.known().field(index, (field, class), self.router);
        match known {
            Knowledge::AsIs => self.cluster.field(index, (field, class), self.request, self.now),
            Knowledge::Value(value) => value,
            Knowledge::FreeBlocks(free) => {
                let lacking = self.cluster.instance(index).lacking_blocks(self.request);
                f64::from(u8::from(lacking == 0 || lacking as f64 <= free))
            }
        }
    }
}

impl Candidates for RouterView<'_> {
    fn members(&self, within: Option<&[u32]>, into: &mut Vec<usize>) {
        match within {
            Some(roles) => self.cluster.roles().list(roles, into),
            None => into.extend(0..self.cluster.len()),
        }
    }

    fn serves(&self, index: usize) -> bool {
        let view = self.request.view;
        let settings = self.cluster.instance(index).settings();
        settings.refuses(view.prompt, view.output, self.model()) == Reason::None
    }

    fn has_bound(&self, field: InstField) -> bool {
        Instance::has_bound(field) && !self.cluster.known().is_reported()
    }

    fn lower_bound(&self, index: usize, field: InstField) -> Option<f64> {
        self.cluster.instance(index).at_least(field)
    }

    #[inline(never)]
    fn field(&mut self, index: usize, field: InstField, class: u32) -> f64 {
        if !self.cluster.known().is_reported()
            && let Some(value) = self.cluster.field_at_once(index, (field, class), self.now)
        {
            return value;
        }
        self.known_field(index, field, class)
    }

    fn each_field(&mut self, indices: &[usize], (field, class): (InstField, u32), f: &mut impl FnMut(f64)) {
        let at_once = field == InstField::ClassRequests && !self.is_reported();
        for &index in indices {
            let known =
                if at_once { self.cluster.instance(index).in_class_at_once(class, self.now) } else { None };
            f(known.unwrap_or_else(|| self.field(index, field, class)));
        }
    }

    fn holds(&mut self, condition: &Expr) -> bool {
        match *condition {
            Expr::Field(Field::Inst(InstanceRef::Candidate, field, class)) => {
                self.field(self.candidate, field, class) != 0.0
            }
            _ => holds_now(condition, self),
        }
    }
}

impl Scope for RouterView<'_> {
    fn request(&mut self, field: ReqField, validity: &mut Validity) -> Linear {
        if field == ReqField::PrefillS {
            let prompt = self.request.view.prompt;
            let ticks = self.cluster.instance(self.candidate).settings().predicted_prefill(prompt);
            return Linear::fixed(crate::instance::seconds(ticks));
        }
        self.request.view.field(field, self.cluster.trace(), validity)
    }

    fn instance(&mut self, which: InstanceRef, field: InstField, class: u32) -> f64 {
        let index = match which {
            InstanceRef::Candidate => Some(self.candidate),
            InstanceRef::Here => self.here,
            InstanceRef::There => self.there,
        };
        index.map_or(0.0, |index| self.field(index, field, class))
    }

    fn column(&self, index: u32) -> f64 {
        self.cluster.trace().number(index, self.asked().index())
    }

    fn instances(&self) -> usize {
        self.cluster.len()
    }

    fn has_role(&self, index: usize, roles: &[u32]) -> bool {
        self.cluster.roles().is_in(index, roles)
    }

    fn consider(&mut self, index: usize) -> usize {
        std::mem::replace(&mut self.candidate, index)
    }
}
