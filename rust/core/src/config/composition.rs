//! Which stages and settings may be combined in a scheduler.
//!
//! Each check refuses a combination that has no meaning, and says why. Every other combination is simulated as it is
//! written: stages may be in any order, and a request that is scheduled by one stage is skipped by later ones.

use super::{Admission, Allocation, Preemption, QueueOrder, Ranking, SchedulerConfig, Stage};
use crate::policy::{Changes, Expr, InstField, ReqField};

/// A setting of the scheduler, and the rule that it breaks.
pub(super) type Breach = (&'static str, &'static str);

/// The most keys of a class.
pub(crate) const MOST_KEYS: usize = 3;

impl SchedulerConfig {
    /// Refuses combinations without a meaning.
    pub(super) fn check_composition(&self) -> Result<(), Breach> {
        self.check_stages()?;
        self.check_layers()?;
        self.check_exclusive()?;
        self.check_memory()?;
        self.check_scopes()?;
        self.check_varying()?;
        self.check_joining()?;
        self.check_reserve()?;
        self.check_prefix_tree()?;
        self.check_drop_unseen()?;
        self.check_unseen_ends()?;
        self.check_prompt_batch()?;
        match &self.order {
            QueueOrder::Ranked(ranking) => self.check_ranked(ranking),
            _ => self.check_unranked(),
        }
    }

    /// The position of the first stage of a kind.
    fn place(&self, kind: impl Fn(&Stage) -> bool) -> Option<usize> {
        self.stages.iter().position(kind)
    }

    /// Stages admit once, run decodes once, and run prefills in one stage.
    fn check_stages(&self) -> Result<(), Breach> {
        if self.selects() {
            return self.check_selecting();
        }
        let count = |kind: fn(&Stage) -> bool| self.stages.iter().filter(|stage| kind(stage)).count();
        if count(|stage| matches!(stage, Stage::Admit { .. } | Stage::Layered { .. })) != 1 {
            return Err(("stages", "must admit in exactly one stage"));
        }
        if count(|stage| matches!(stage, Stage::Running | Stage::Decodes { .. })) != 1 {
            return Err(("stages", "must run decodes in exactly one stage"));
        }
        if count(|stage| matches!(stage, Stage::Prefills)) > 1
            || count(|stage| matches!(stage, Stage::SwapIn { .. })) > 1
        {
            return Err(("stages", "must have each stage at most once"));
        }
        let runs_all = self.stages.contains(&Stage::Running);
        let prefills = self.stages.contains(&Stage::Prefills);
        if runs_all && prefills {
            return Err(("stages", "must not run prefills in two stages, running and prefills"));
        }
        let cuts = self.stages.iter().any(|stage| matches!(stage, Stage::Admit { chunked: true, .. }));
        if cuts && !runs_all && !prefills {
            let rule = "must schedule the rest of chunked prompts in a stage running or prefills, or admit prompts whole";
            return Err(("stages", rule));
        }
        Ok(())
    }

    /// A stage that selects forms the whole step, by rank, and holds no blocks for others.
    fn check_selecting(&self) -> Result<(), Breach> {
        if self.stages.len() != 1 {
            return Err(("stages", "must be select alone, which schedules and admits all requests"));
        }
        if !matches!(self.order, QueueOrder::Ranked(_)) {
            return Err(("order", "must rank requests if a stage selects them by rank"));
        }
        if self.admission != Admission::Wait {
            return Err(("admission", "must be to wait if a stage selects: ranks decide already"));
        }
        let space = match self.preemption {
            Preemption::Swap { blocks, .. } => blocks,
            Preemption::Recompute => 0,
        };
        if self.selection_reserves().1 > space {
            return Err(("stages", "must not reserve more blocks of the swap space than it has"));
        }
        if self.prefix_cache.is_some() {
            return Err(("prefix_cache", "must be none if a stage selects requests before their blocks"));
        }
        Ok(())
    }

    /// Groups of layers, and the settings that they exclude.
    fn check_layers(&self) -> Result<(), Breach> {
        for stage in &self.stages {
            let Stage::Layered { layers, groups } = stage else { continue };
            if *layers == 0 || groups.most == 0 || groups.most > *layers {
                let rule =
                    "must divide the layers into at least 1 group, and at most as many groups as layers";
                return Err(("stages", rule));
            }
            if self.stages.contains(&Stage::Running) || self.stages.contains(&Stage::Prefills) {
                let rule = "must run prefills in one stage: layered schedules prefills in progress itself";
                return Err(("stages", rule));
            }
            if self.preemption != Preemption::Recompute {
                let rule = "must be recompute if prefills run by groups of layers";
                return Err(("preemption", rule));
            }
        }
        Ok(())
    }

    /// Whether decodes can be left out of steps with prefills.
    fn check_exclusive(&self) -> Result<(), Breach> {
        if !self.exclusive_prefill {
            return Ok(());
        }
        let Some(decodes) = self.place(|stage| matches!(stage, Stage::Decodes { .. })) else {
            let rule = "must be false if a stage running schedules prefills and decodes together";
            return Err(("exclusive_prefill", rule));
        };
        let prefills = |stage: &Stage| matches!(stage, Stage::Admit { .. } | Stage::Prefills);
        if self.is_layered() || self.stages[decodes..].iter().any(prefills) {
            let rule = "must be false unless the stage decodes is after all stages that run prefills, none of them layered";
            return Err(("exclusive_prefill", rule));
        }
        let swaps_in = |stage: &Stage| matches!(stage, Stage::SwapIn { .. });
        if self.output_reserve.is_none() && self.stages[..decodes].iter().any(swaps_in) {
            let rule = "must be false if a stage swaps requests in before the stages that run prefills";
            return Err(("exclusive_prefill", rule));
        }
        Ok(())
    }

    /// Preemption, allocation and the prefix cache.
    fn check_memory(&self) -> Result<(), Breach> {
        if let Some(evict) = self.prefix_cache.as_ref().and_then(|cache| cache.evict.as_deref()) {
            if let Some(rule) = evict.broken_rule() {
                return Err(("prefix_cache.evict", rule));
            }
            if self.prefix_cache.as_ref().is_some_and(|cache| !cache.unknown_first) {
                return Err(("prefix_cache.evict", "must be null unless unknown_first"));
            }
        }
        if self.prefix_cache.is_none() && matches!(self.order, QueueOrder::LongestPrefix { .. }) {
            return Err(("order", "must not be by the longest prefix unless prefixes are cached"));
        }
        // These stages schedule prefills in progress and preempt nothing for them. So the blocks must be allocated
        // already, or be freed by decodes.
        let yields = self.exclusive_prefill || self.decodes_sit_out();
        let alone = yields && self.allocation == Allocation::ChunkIfAllFits;
        let apart = self.stages.contains(&Stage::Prefills) && !alone;
        let by_chunk = matches!(self.allocation, Allocation::Chunk | Allocation::ChunkIfAllFits);
        if by_chunk && (self.is_layered() || apart) {
            let rule = "must be of the whole sequence if prefills in progress have a stage of their own \
                (or of a chunk if all fits, if prefills exclude decodes, or these sit out)";
            return Err(("allocation", rule));
        }
        Ok(())
    }

    /// A rank depends on requests only, and a condition on displacing on the instance only.
    fn check_scopes(&self) -> Result<(), Breach> {
        if let QueueOrder::Ranked(ranking) = &self.order
            && ranking.exprs().any(|expr| expr.looks_at(&|_| true))
        {
            return Err(("order", "must read fields of requests, not of instances"));
        }
        if let Admission::Displace { when: Some(when), .. } = &self.admission
            && (when.looks_at_request(&|_| true) || when.reads_accumulators())
        {
            return Err(("admission", "must read fields of the instance, not of requests"));
        }
        Ok(())
    }

    /// Limits that vary depend on the instance alone, and on what it has.
    fn check_varying(&self) -> Result<(), Breach> {
        if self.varying.tokens.is_some() && !self.cuts_prompts() {
            return Err((
                "varying.tokens",
                "must be null where prompts are not cut: a budget rejects longer prompts",
            ));
        }
        let elsewhere = |expr: &Expr| {
            expr.aggregates()
                || expr.looks_at_request(&|_| true)
                || expr.looks_at(&|field| field == InstField::Role || !field.is_of_instance())
        };
        if self.varying.exprs().any(elsewhere) {
            let rule = "must read fields of the instance that it has by itself: none of a request, of its role, of a \
                router or of other instances";
            return Err(("varying", rule));
        }
        Ok(())
    }

    /// Limits on the prompts that are admitted.
    fn check_joining(&self) -> Result<(), Breach> {
        let joining = &self.joining;
        let threshold = self.long_prefill_token_threshold > 0 || self.varying.chunk.is_some();
        if joining.long_prefills > 0 && !threshold {
            return Err((
                "joining.long_prefills",
                "must be 0 without a threshold above which a prompt is long",
            ));
        }
        let changes = |field: ReqField| field.changes() != Changes::NEVER;
        if joining.bucket.as_ref().is_some_and(|of| of.looks_at(&|_| true) || of.looks_at_request(&changes)) {
            return Err(("joining.bucket", "must read fields of the request that never change"));
        }
        Ok(())
    }

    /// Whether decodes alone preempt, in steps without prefills, until all that are left find their blocks.
    pub(super) fn preempts_plainly(&self) -> bool {
        self.exclusive_prefill && !self.spare_block && !self.stop_at_own_preemption
    }

    /// Decodes come last where they sit out, or admissions leave room for their outputs.
    fn check_reserve(&self) -> Result<(), Breach> {
        let (last, before) = match self.stages.split_last() {
            Some((last, before)) => (Some(last), before),
            None => (None, &[][..]),
        };
        let prefills = |stage: &Stage| matches!(stage, Stage::Prefills | Stage::Admit { .. });
        let ends = matches!(last, Some(Stage::Decodes { .. })) && before.iter().all(prefills);
        // Swapped-out requests resume before all that a step runs, and beside decodes alone.
        let (before, ends) = match before {
            [Stage::SwapIn { .. }, rest @ ..] if self.output_reserve.is_some() => {
                let alone = matches!(last, Some(Stage::Decodes { over_prefills: false, .. }))
                    && self.preempts_plainly()
                    && (self.prefix_cache.is_none() || self.has_prefix_tree());
                let waits = |stage: &Stage| matches!(stage, Stage::Admit { unless_swapped: true, .. });
                (rest, alone && rest.iter().all(prefills) && !rest.iter().any(waits))
            }
            _ => (before, ends),
        };
        if self.decodes_sit_out() && (self.exclusive_prefill || !ends) {
            let rule =
                "must not have decodes that sit out unless they come after prefills that do not exclude them";
            return Err(("stages", rule));
        }
        let charges = |stage: &Stage| matches!(stage, Stage::Decodes { sits_out: true, charged: true, .. });
        if self.stages.iter().any(charges) {
            let rule =
                "must not charge decodes that sit out: their tokens are taken before those of prefills";
            return Err(("stages", rule));
        }
        if self.output_reserve.is_none() {
            return Ok(());
        }
        if !ends || before.len() > 1 && !matches!(before[0], Stage::Prefills) {
            let rule = "must be null unless the stages are prefills, admit and decodes in this order, or the last two; or these \
                behind one that swaps in, where decodes preempt no prefills, admit is not unless_swapped, \
                exclusive_prefill is true, spare_block and stop_at_own_preemption are false, and prefixes are cached in a \
                tree, if at all";
            return Err(("output_reserve", rule));
        }
        Ok(())
    }

    /// Settings of schedulers without ranks.
    fn check_unranked(&self) -> Result<(), Breach> {
        if self.admission != Admission::Wait {
            return Err(("admission", "must be to wait if requests have no rank"));
        }
        let swaps = matches!(self.preemption, Preemption::Swap { .. });
        if swaps != self.place(|stage| matches!(stage, Stage::SwapIn { .. })).is_some() {
            return Err((
                "stages",
                "must have a stage that swaps in if preemption swaps out, and none otherwise",
            ));
        }
        Ok(())
    }

    /// Classes, keys and settings of schedulers with ranks.
    fn check_ranked(&self, ranking: &Ranking) -> Result<(), Breach> {
        if ranking.classes.last().is_none_or(|class| class.when.is_some()) {
            return Err((
                "order.classes",
                "must end with a class without a condition, for all other requests",
            ));
        }
        if ranking.classes.iter().any(|class| class.keys.len() > MOST_KEYS) {
            return Err(("order.classes", "must have at most 3 keys each"));
        }
        // Both restart when a request enters a class, so the class would depend on how often the condition is
        // evaluated.
        let circular = |field| matches!(field, ReqField::JoinedS | ReqField::Quanta | ReqField::Level);
        let mut conditions = ranking.classes.iter().filter_map(|class| class.when.as_ref());
        if conditions.any(|when| when.looks_at_request(&circular)) {
            let rule = "must not have conditions on when a request entered its class, or on the quanta it used there: \
                both restart when it enters a class";
            return Err(("order.classes", rule));
        }
        let mut keys = ranking.classes.iter().flat_map(|class| &class.keys);
        if !ranking.refresh.is_set() && keys.any(Expr::drifts) {
            let rule = "must have no keys that change from step to step, unless refresh says how often \
                they are evaluated again";
            return Err(("order.classes", rule));
        }
        let looked_up = |field| field == ReqField::CachedTokens;
        let found = |expr: &Expr| expr.looks_at_request(&looked_up);
        let mut conditions = ranking.classes.iter().filter_map(|class| class.when.as_ref());
        if conditions.any(found) || ranking.levels.iter().any(|levels| found(&levels.entry)) {
            let rule = "must read what the prefix cache has of a prompt in keys only";
            return Err(("order.classes", rule));
        }
        let mut keys = ranking.classes.iter().flat_map(|class| &class.keys);
        if keys.any(found) && (ranking.refresh.steps != 1 || self.prefix_cache.is_none()) {
            let rule = "must read what the prefix cache has of a prompt only with a prefix cache, and where keys are \
                evaluated for each step: refresh.steps is 1";
            return Err(("order.classes", rule));
        }
        self.check_accumulators(ranking)?;
        let plain = |stage: &Stage| {
            matches!(
                stage,
                Stage::Running
                    | Stage::Select { .. }
                    | Stage::Admit { gather: None, unless_swapped: false, .. }
            )
        };
        if !self.stages.iter().all(plain) || self.exclusive_prefill {
            let rule =
                "must be running and admit, which also swaps requests in by rank, if requests are ranked";
            return Err(("stages", rule));
        }
        if self.holds_arrivals() || self.requeue_late || self.decodes_first {
            let rule = "must not be by rank together with schedule_ahead, a receive_interval above 1, requeue_late or \
                decodes_first";
            return Err(("order", rule));
        }
        Ok(())
    }
    /// Accumulators are read by keys of their own, and by the condition for an admission.
    fn check_accumulators(&self, ranking: &Ranking) -> Result<(), Breach> {
        let number = ranking.accumulators.len();
        let unknown = |expr: &Expr| expr.reads_accumulator(&|index| index as usize >= number);
        let mut keys = ranking.classes.iter().flat_map(|class| &class.keys);
        if ranking.exprs().chain(&ranking.admits).any(unknown) {
            return Err(("order", "must read accumulators that there are"));
        }
        if keys.any(|key| key.reads_accumulators() && key.looks_at_request(&|_| true)) {
            let rule = "must have no key that reads an accumulator and a field of the request: a group has one value of it";
            return Err(("order.classes", rule));
        }
        let conditions = ranking.classes.iter().filter_map(|class| class.when.as_ref());
        let levels =
            ranking.levels.iter().flat_map(|levels| [&levels.entry].into_iter().chain(&levels.promote));
        if conditions.chain(levels).any(Expr::reads_accumulators) {
            return Err(("order", "must read accumulators in keys and in admits only"));
        }
        if ranking
            .admits
            .as_ref()
            .is_some_and(|admits| admits.looks_at_request(&|_| true) || admits.looks_at(&|_| true))
        {
            return Err(("order.admits", "must read accumulators alone"));
        }
        let falls =
            |index: u32| ranking.accumulators.get(index as usize).is_some_and(|one| one.half_life > 0);
        if ranking.admits.as_ref().is_some_and(|admits| admits.reads_accumulator(&falls)) {
            return Err((
                "order.admits",
                "must not read an accumulator that falls with time: no event would admit then",
            ));
        }
        if self.selects() && ranking.reads_accumulators() {
            return Err(("order", "must read no accumulators if a stage selects requests by rank"));
        }
        Ok(())
    }
}
