//! The reading that a timeline takes of an instance.

use super::Look;
use crate::instance::request::{Phase, RequestState};
use crate::instance::run::{Passing, Pipeline};
use crate::kv::{Account, Tier};
use crate::metrics::InstanceStats;
use crate::time::Ticks;
use crate::timeline::{Reading, State, Sums};

impl Look<'_> {
    /// A reading at `now`, all events of which have been handled. The finished steps of the run in progress are applied.
    pub(in crate::instance) fn reading(&self, role: u32) -> Reading {
        Reading { state: self.state(role), sums: self.sums() }
    }

    fn state(&self, role: u32) -> State {
        let swapped = self.queues.swapped_out();
        let (mut batch_requests, mut batch_tokens, mut step_ticks) = (0, 0, 0);
        if let Some(ticks) = self.run.step_ticks() {
            let shape = self.run.shape();
            step_ticks = ticks;
            batch_requests = shape.decode_requests + shape.prefill_requests;
            batch_tokens = shape.tokens();
        } else if let Some(Passing { run, shape, .. }) = self.run.pipeline().and_then(Pipeline::first) {
            // Of the batches under way, the one that ends next.
            step_ticks = run.series.first;
            batch_requests = shape.decode_requests + shape.prefill_requests;
            batch_tokens = shape.tokens();
        }
        let account = self.account();
        State {
            running: self.batch.running(),
            waiting: self.waiting() - swapped,
            swapped,
            incoming: self.transfers.offered() + self.transfers.receiving(),
            kv_used_blocks: self.settings.blocks - self.kv.free(),
            kv_cached_blocks: self.kv.gpu().cached_free(),
            kv_sending_blocks: self.sending_blocks(),
            kv_receiving_blocks: self.receiving_blocks(),
            kv_tokens: self.gpu_kv_tokens(),
            kv_host_tokens: account.held(Tier::Host).tokens + account.held(Tier::Landed).tokens,
            kv_arriving_tokens: account.held(Tier::Arriving).tokens + account.held(Tier::Loading).tokens,
            tier_chunks: self.tiers.held(self.kv.gpu()),
            store_chunks: self.tiers.held_below(),
            batch_requests,
            batch_tokens,
            step_ticks,
            role: u64::from(role),
        }
    }

    /// The account of KV; without leaping, what the requests say, which it is tested against.
    fn account(&self) -> Account {
        if self.settings.leap {
            return *self.kv.account();
        }
        Account::of(self.requests.iter().filter_map(RequestState::residency))
    }

    /// Blocks of requests that have left and whose KV has not been read; a block that several share counts once.
    fn sending_blocks(&self) -> u64 {
        if self.observers.stats.requests.sent == 0 {
            0
        } else {
            self.blocks_of(|phase| phase == Phase::MigratingOut)
        }
    }

    /// Blocks of requests that were accepted and whose KV is not here yet; likewise.
    fn receiving_blocks(&self) -> u64 {
        let account = self.kv.account();
        if account.held(Tier::Arriving).blocks + account.held(Tier::Loading).blocks == 0 {
            return 0;
        }
        self.blocks_of(|phase| matches!(phase, Phase::Reserved | Phase::Receiving | Phase::Loading))
    }

    /// Number of different blocks of the requests in some phases.
    fn blocks_of(&self, holds: impl Fn(Phase) -> bool) -> u64 {
        let in_phase = self.requests.iter().filter(|state| holds(state.phase));
        self.kv.gpu().distinct(in_phase.map(|state| &state.blocks))
    }

    /// The sums up to `now`, the time of the step in progress included.
    fn sums(&self) -> Sums {
        let mut stats = self.observers.stats.clone();
        self.kv.write_stats(&mut stats);
        if let Some(run) = self.run.current() {
            let tokens = self.batch.kv_tokens_in_step(run.decodes);
            self.add_in_progress(self.now - run.start, tokens, &mut stats);
        } else if let Some(pipeline) = self.run.pipeline().filter(|pipeline| !pipeline.is_empty()) {
            self.add_in_progress(pipeline.uncounted(self.now), self.batch.kv_tokens(), &mut stats);
        } else if let Some(since) = self.run.standstill() {
            stats.occupancy.count_running(self.now - since, self.batch.running(), self.batch.kv_tokens());
        }
        stats.occupancy.count_waiting(self.waiting(), self.now);
        let moved = self.observers.moved(&stats).unwrap_or_default();
        let idle = u128::from(moved.idle_uw.unwrap_or(0)) * u128::from(self.now);
        let energy_aj = moved.work_aj.unwrap_or(0).saturating_add(idle);
        let InstanceStats { work, requests, occupancy, memory, prefixes, .. } = stats;
        Sums {
            steps: work.steps,
            busy_ticks: work.busy_ticks,
            prefill_tokens: work.prefill_tokens,
            decode_tokens: work.decode_tokens,
            finished: requests.finished,
            dropped: requests.dropped,
            preemptions: requests.preemptions,
            sent: requests.sent,
            received: requests.landed,
            swapped_out_blocks: memory.swapped_out_blocks,
            swapped_in_blocks: memory.swapped_in_blocks,
            prefix_queries: prefixes.queries,
            prefix_hits: prefixes.hits,
            evictions: prefixes.evictions,
            running_ticks: occupancy.running_ticks,
            queued_ticks: occupancy.waiting_ticks,
            kv_token_ticks: occupancy.kv_token_ticks,
            hbm_bytes: moved.hbm_bytes(),
            flops: moved.flops,
            link_bytes: moved.link_bytes,
            energy_aj,
        }
    }

    /// Adds ticks of the step or the batches in progress, in which requests hold `tokens` tokens of KV.
    fn add_in_progress(&self, ticks: Ticks, tokens: u64, stats: &mut InstanceStats) {
        stats.work.busy_ticks += ticks;
        stats.occupancy.count_running(ticks, self.batch.running(), tokens);
    }
}
