//! Which stages and rules make a scheduler together.
//!
//! Each rule here refuses a composition that has no meaning, and says why. All
//! that passes is computed as it is written: the order of the stages is free,
//! and a request that has its tokens for a step is passed over by later stages.

use super::{Admission, Allocation, Preemption, QueueOrder, Ranking, SchedulerConfig, Stage};
use crate::policy::{Expr, ReqField};

/// A field of the scheduler and the rule that it breaks.
pub(super) type Breach = (&'static str, &'static str);

/// The most keys of a class.
pub(crate) const MOST_KEYS: usize = 3;

impl SchedulerConfig {
    /// Refuses compositions without a meaning.
    pub(super) fn check_composition(&self) -> Result<(), Breach> {
        self.check_stages()?;
        self.check_layers()?;
        self.check_exclusive()?;
        self.check_memory()?;
        self.check_scopes()?;
        match &self.order {
            QueueOrder::Ranked(ranking) => self.check_ranked(ranking),
            _ => self.check_unranked(),
        }
    }

    /// Where a stage of a kind stands.
    fn place(&self, kind: impl Fn(&Stage) -> bool) -> Option<usize> {
        self.stages.iter().position(kind)
    }

    fn check_stages(&self) -> Result<(), Breach> {
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
            return Err(("stages", "must have each stage once at most"));
        }
        let runs_all = self.stages.contains(&Stage::Running);
        let prefills = self.stages.contains(&Stage::Prefills);
        if runs_all && prefills {
            return Err(("stages", "must not run prefills in two stages, running and prefills"));
        }
        let cuts = self.stages.iter().any(|stage| matches!(stage, Stage::Admit { chunked: true, .. }));
        if cuts && !runs_all && !prefills {
            let rule =
                "must go on with prompts that are cut, in a stage running or prefills; or admit them whole";
            return Err(("stages", rule));
        }
        Ok(())
    }

    fn check_layers(&self) -> Result<(), Breach> {
        for stage in &self.stages {
            let Stage::Layered { layers, groups } = stage else { continue };
            if *layers == 0 || groups.most == 0 || groups.most > *layers {
                let rule = "must cut the layers into 1 group or more, and no more than there are";
                return Err(("stages", rule));
            }
            if self.stages.contains(&Stage::Running) || self.stages.contains(&Stage::Prefills) {
                let rule = "must run prefills in one stage: layered runs those under way itself";
                return Err(("stages", rule));
            }
            if self.preemption != Preemption::Recompute {
                let rule = "must be recompute where prefills run by groups of layers";
                return Err(("preemption", rule));
            }
        }
        Ok(())
    }

    fn check_exclusive(&self) -> Result<(), Breach> {
        if !self.exclusive_prefill {
            return Ok(());
        }
        let Some(decodes) = self.place(|stage| matches!(stage, Stage::Decodes { .. })) else {
            let rule = "must be false where a stage running has prefills and decodes together";
            return Err(("exclusive_prefill", rule));
        };
        let prefills = |stage: &Stage| matches!(stage, Stage::Admit { .. } | Stage::Prefills);
        if self.is_layered() || self.stages[decodes..].iter().any(prefills) {
            let rule =
                "must be false unless decodes come after all stages that run prefills, none of them layered";
            return Err(("exclusive_prefill", rule));
        }
        if self.stages[..decodes].iter().any(|stage| matches!(stage, Stage::SwapIn { .. })) {
            let rule = "must be false where requests are swapped in before it is known whether the step has prefills";
            return Err(("exclusive_prefill", rule));
        }
        Ok(())
    }

    fn check_memory(&self) -> Result<(), Breach> {
        if self.prefix_cache.is_some() && self.preemption != Preemption::Recompute {
            return Err(("preemption", "must be recompute where prefixes are cached"));
        }
        if self.prefix_cache.is_some() && self.allocation == Allocation::Sequence {
            return Err(("allocation", "must be by chunk where prefixes are cached"));
        }
        if self.prefix_cache.is_none() && matches!(self.order, QueueOrder::LongestPrefix { .. }) {
            return Err(("order", "must not look at prefixes where none are cached"));
        }
        // These stages go on with prefills and preempt nothing for them, so
        // that the blocks must be theirs already, or decodes give them back.
        let alone = self.exclusive_prefill && self.allocation == Allocation::ChunkIfAllFits;
        let apart = self.stages.contains(&Stage::Prefills) && !alone;
        if self.allocation != Allocation::Sequence && (self.is_layered() || apart) {
            let rule = "must be of the whole sequence where prefills go on in a stage of their own \
                (of a chunk if all fits, where prefills exclude decodes)";
            return Err(("allocation", rule));
        }
        Ok(())
    }

    /// A rank depends on requests only, and a condition on displacing on the instance only.
    fn check_scopes(&self) -> Result<(), Breach> {
        if let QueueOrder::Ranked(ranking) = &self.order
            && ranking.exprs().any(|expr| expr.looks_at(&|_| true))
        {
            return Err(("order", "must look at requests, not at instances"));
        }
        if let Admission::Displace { when: Some(when), .. } = &self.admission
            && when.looks_at_request(&|_| true)
        {
            return Err(("admission", "must look at the instance, not at requests"));
        }
        Ok(())
    }

    fn check_unranked(&self) -> Result<(), Breach> {
        if self.admission != Admission::Wait {
            return Err(("admission", "must be to wait where requests have no rank"));
        }
        let swaps = matches!(self.preemption, Preemption::Swap { .. });
        if swaps != self.place(|stage| matches!(stage, Stage::SwapIn { .. })).is_some() {
            return Err(("stages", "must swap in exactly where preemption swaps out"));
        }
        Ok(())
    }

    fn check_ranked(&self, ranking: &Ranking) -> Result<(), Breach> {
        if ranking.classes.last().is_none_or(|class| class.when.is_some()) {
            return Err(("order.classes", "must end with a class for all others"));
        }
        if ranking.classes.iter().any(|class| class.keys.len() > MOST_KEYS) {
            return Err(("order.classes", "must have no more than 3 keys each"));
        }
        // Both start again when the class is entered, so that the answer would
        // depend on how often it is asked for.
        let circular = |field| matches!(field, ReqField::JoinedS | ReqField::Quanta);
        let mut conditions = ranking.classes.iter().filter_map(|class| class.when.as_ref());
        if conditions.any(|when| when.looks_at_request(&circular)) {
            let rule = "must not have conditions on when the class was joined, or on quanta used up in it: \
                both start again as the class is entered";
            return Err(("order.classes", rule));
        }
        let mut keys = ranking.classes.iter().flat_map(|class| &class.keys);
        if !ranking.refresh.is_set() && keys.any(Expr::drifts) {
            let rule = "must have no keys that change from step to step, unless refresh says how often \
                they are looked at";
            return Err(("order.classes", rule));
        }
        let plain = |stage: &Stage| {
            matches!(stage, Stage::Running | Stage::Admit { gather: None, unless_swapped: false, .. })
        };
        if !self.stages.iter().all(plain) || self.exclusive_prefill {
            let rule = "must be running and admit, which brings swapped requests back by rank, \
                where requests are ranked";
            return Err(("stages", rule));
        }
        if self.schedule_ahead || self.requeue_late || self.decodes_first {
            let rule = "must not be by rank together with schedule_ahead, requeue_late or decodes_first";
            return Err(("order", rule));
        }
        Ok(())
    }
}
