//! The books of a router on the requests that it has routed: an index of prefixes, active sequences, a tree of
//! prompts. Each is kept only if the policy has it. None of them sees an instance: they learn from the router's own
//! decisions, and from notices that a request has its first token, has finished, or has yielded more tokens.

mod active;
mod holders;
mod prefix_index;
mod prompt_tree;
mod texts;

use std::cmp::Reverse;
use std::sync::Arc;

use active::{ActiveBlocks, Booked};
use prefix_index::PrefixIndex;
pub(super) use prompt_tree::Matched;
use prompt_tree::PromptTree;
use texts::Texts;

use rustc_hash::FxHashMap;

use crate::engine::cluster::Cluster;
use crate::error::Error;
use crate::kv::Prefixes;
use crate::metrics::Notice;
use crate::policy::{BooksConfig, InstField, Learns, TrackedOutputs};
use crate::time::Ticks;
use crate::trace::{RequestNumber, Trace};

/// The index of prefixes, the books of active sequences and the trees of prompts of one router.
#[derive(Debug, Default)]
pub(in crate::engine) struct Books {
    /// The index, what it learns from, and the contents of its blocks.
    index: Option<Index>,
    /// The books of active sequences.
    active: Option<Active>,
    /// The trees of prompts, each of the requests that are routed to instances of some pools, `None`: to any.
    trees: Vec<(Option<Vec<u32>>, PromptTree)>,
    /// The instance of each unfinished request.
    places: FxHashMap<u32, u32>,
    /// The request that is routed, for which the next two hold.
    asked: Option<u32>,
    /// By instance: leading blocks of its prompt in the index.
    indexed: Vec<u32>,
    /// By instance: leading blocks of its prompt among the active ones.
    shared: Vec<u32>,
}

#[derive(Debug)]
struct Index {
    blocks: PrefixIndex,
    learns: Learns,
    /// The most leading blocks of a prompt that are looked up and learned.
    most: u32,
    path: Path,
}

#[derive(Debug)]
struct Active {
    blocks: ActiveBlocks,
    tracked: TrackedOutputs,
    /// Whether blocks of the prompt are booked.
    prompts: bool,
    /// Whether requests may share blocks.
    reuses: bool,
    path: Path,
}

/// The blocks of prompts and outputs, at one block size.
#[derive(Debug)]
struct Path {
    contents: Arc<Prefixes>,
    block_tokens: u32,
}

impl Path {
    fn new(trace: &Trace, block_tokens: u32, field: &str) -> Result<Self, Error> {
        let contents = Prefixes::new(trace, block_tokens).map_err(|error| error.within(field))?;
        Ok(Self { contents: Arc::new(contents), block_tokens })
    }

    /// The full blocks of a prompt.
    fn of_prompt(&self, row: u32, trace: &Trace) -> impl Iterator<Item = Option<u32>> {
        let (prompt, origin) = (trace.prompt_tokens[row as usize], trace.origin(RequestNumber(row)));
        self.contents.numbers(origin, prompt, 0..prompt / self.block_tokens)
    }

    /// The full blocks of a prompt and its output, as far as the trace says what is in them.
    fn of_all(&self, row: u32, trace: &Trace) -> impl Iterator<Item = Option<u32>> {
        let (prompt, output) = (trace.prompt_tokens[row as usize], trace.output_tokens[row as usize]);
        let (full, total) = (prompt / self.block_tokens, (prompt + output) / self.block_tokens);
        let outputs = self.contents.numbers(trace.origin(RequestNumber(row)), prompt, full..total);
        self.of_prompt(row, trace).chain(outputs.take_while(Option::is_some))
    }
}

impl Books {
    /// Empty books, as a policy has them, with a tree for each of `pools`.
    ///
    /// # Errors
    ///
    /// If a block size neither divides that of the trace's prefix ids nor is a multiple of it, or if a text of hexadecimal
    /// digits is wanted of a trace without ids.
    pub(in crate::engine) fn new(
        config: &BooksConfig,
        pools: &[Option<Vec<u32>>],
        instances: usize,
        trace: &Trace,
    ) -> Result<Self, Error> {
        let index = config.index.as_ref().map(|index| {
            Ok::<_, Error>(Index {
                blocks: PrefixIndex::new(instances, index.capacity),
                learns: index.learns,
                most: index.longest.unwrap_or(u32::MAX),
                path: Path::new(trace, index.block_tokens, "routing.books.index")?,
            })
        });
        let active = config.active.as_ref().map(|active| {
            Ok::<_, Error>(Active {
                blocks: ActiveBlocks::new(instances, active.block_tokens, active.outputs),
                tracked: active.outputs,
                prompts: active.prompts,
                reuses: active.reuses,
                path: Path::new(trace, active.block_tokens, "routing.books.active")?,
            })
        });
        let mut trees = Vec::new();
        if let Some(tree) = &config.tree {
            let size = trace.prefix.as_ref().map_or(tree.block_tokens, |ids| ids.block_tokens);
            let contents = Prefixes::new(trace, size).map_err(|error| error.within("routing.books.tree"))?;
            let contents = Arc::new(contents);
            for pools in pools {
                let texts = Texts::new(tree.text, Arc::clone(&contents), size);
                trees.push((pools.clone(), PromptTree::new(texts)));
            }
        }
        Ok(Self {
            index: index.transpose()?,
            active: active.transpose()?,
            trees,
            places: FxHashMap::default(),
            asked: None,
            indexed: vec![0; instances],
            shared: vec![0; instances],
        })
    }

    /// Looks up the prompt of a request that is routed.
    pub(super) fn look_up(&mut self, row: u32, trace: &Trace) {
        if self.asked == Some(row) {
            return;
        }
        self.asked = Some(row);
        if let Some(Index { blocks, most, path, .. }) = &mut self.index {
            blocks.count_leading(path.of_prompt(row, trace).take(*most as usize), &mut self.indexed);
        }
        if let Some(Active { blocks, prompts: true, reuses: true, path, .. }) = &mut self.active {
            blocks.count_leading(path.of_prompt(row, trace), &mut self.shared);
        }
    }

    /// A field of an instance that the books have, for the request that was looked up last.
    pub(super) fn field(&self, instance: usize, field: InstField, prompt: u32) -> f64 {
        match (field, &self.index, &self.active) {
            (InstField::IndexBlocks, Some(_), _) => f64::from(self.indexed[instance]),
            (InstField::IndexTokens, Some(index), _) => {
                f64::from(self.indexed[instance]) * f64::from(index.path.block_tokens)
            }
            (InstField::ActiveBlocks, _, Some(active)) => active.blocks.blocks(instance),
            (InstField::ActiveNewBlocks, _, Some(active)) if active.prompts => {
                f64::from(prompt / active.path.block_tokens - self.shared[instance])
            }
            (InstField::ActivePrefillTokens, _, Some(active)) => {
                active.blocks.prefill_tokens(instance) as f64
            }
            _ => 0.0,
        }
    }

    /// The part of a request's prompt that the tree of some pools has.
    pub(super) fn matched(&self, row: u32, pools: Option<&[u32]>, trace: &Trace) -> Option<Matched> {
        let (_, tree) = self.trees.iter().find(|(of, _)| of.as_deref() == pools)?;
        tree.matched(row, trace)
    }
}

/// Notices of requests.
impl Books {
    /// Books a request that is routed to an instance, whether it arrives or migrates.
    pub(in crate::engine) fn route(&mut self, row: u32, instance: usize, cluster: &Cluster) {
        let trace = cluster.trace();
        self.look_up(row, trace);
        self.places.insert(row, instance as u32);
        let prompt = trace.prompt_tokens[row as usize];
        let known = self.index.as_ref().map_or(0, |index| self.indexed[instance] * index.path.block_tokens);
        if let Some(active) = &mut self.active {
            let before = active.blocks.remove(row);
            let path = &active.path;
            let all = if active.prompts { path.of_prompt(row, trace).count() } else { 0 };
            let blocks = path.of_prompt(row, trace).take(all);
            let booked = Booked {
                row,
                prompt,
                uncached: prompt - known.min(prompt),
                expected: trace.output_tokens[row as usize],
            };
            let blocks = blocks.map(|block| block.filter(|_| active.reuses));
            active.blocks.add(booked, blocks, instance);
            if let Some(generated) = before {
                active.blocks.resume(row, generated);
            }
        }
        if let Some(Index { blocks, learns: Learns::Routed, most, path }) = &mut self.index {
            blocks.learn(row, path.of_prompt(row, trace).take(*most as usize), instance);
        }
        self.insert_prompt(row, instance, cluster);
        self.asked = None;
    }

    /// Inserts the prompt of a request into the trees of the instance to which it is routed.
    pub(in crate::engine) fn insert_prompt(&mut self, row: u32, instance: usize, cluster: &Cluster) {
        for (pools, tree) in &mut self.trees {
            if pools.as_ref().is_none_or(|pools| cluster.roles().is_in(instance, pools)) {
                tree.insert(row, instance, cluster.trace());
            }
        }
    }

    /// Notes that a request has its first token.
    fn end_prefill(&mut self, row: u32, trace: &Trace) {
        self.asked = None;
        if let Some(active) = &mut self.active {
            active.blocks.end_prefill(row);
        }
        let Some(&instance) = self.places.get(&row) else { return };
        if let Some(Index { blocks, learns: Learns::Prefilled | Learns::Finished, most, path }) =
            &mut self.index
        {
            blocks.learn(row, path.of_prompt(row, trace).take(*most as usize), instance as usize);
        }
    }

    /// Notes that a request has left. Returns the instance on which it was booked.
    fn remove(&mut self, row: u32) -> Option<u32> {
        self.asked = None;
        if let Some(active) = &mut self.active {
            active.blocks.remove(row);
        }
        self.places.remove(&row)
    }

    /// Notes that a request has finished, or was dropped.
    fn close(&mut self, row: u32, trace: &Trace) {
        let Some(instance) = self.remove(row) else { return };
        if let Some(Index { blocks, learns: Learns::Finished, most, path }) = &mut self.index {
            blocks.learn(row, path.of_all(row, trace).take(*most as usize), instance as usize);
        }
    }
}

/// Events that instances report.
impl Books {
    /// Books what happened to requests in steps that ended by now: by instance, and then by request.
    #[inline(never)]
    pub(in crate::engine) fn hear(&mut self, notices: &[Notice], cluster: &mut Cluster, now: Ticks) {
        let placed = notices.iter().filter_map(|&notice| Some((*self.places.get(&notice.row())?, notice)));
        let mut placed: Vec<_> = placed.collect();
        placed.sort_unstable_by_key(|&(instance, notice)| (instance, notice.row(), notice));
        for notices in placed.chunk_by(|one, other| one.0 == other.0) {
            if self.tracks_tokens() {
                self.follow(notices[0].0 as usize, notices, cluster, now);
                continue;
            }
            for &(_, notice) in notices {
                match notice {
                    Notice::FirstToken(row) => self.end_prefill(row, cluster.trace()),
                    Notice::Closed(row) => self.close(row, cluster.trace()),
                    Notice::Cancelled(row) => drop(self.remove(row)),
                }
            }
        }
    }

    /// Books the output tokens of all requests as of the steps that ended by now, if outputs are tracked.
    pub(super) fn catch_up(&mut self, cluster: &mut Cluster, now: Ticks) {
        if self.tracks_tokens() {
            for instance in 0..cluster.len() {
                self.follow(instance, &[], cluster, now);
            }
        }
    }

    /// Books the output tokens of an instance's requests, and what happened to some of them in its latest step: in the
    /// order of the steps, and within one of the requests. A block that is filled `n` tokens ago counts as filled `n`
    /// steps ago.
    fn follow(&mut self, instance: usize, notices: &[(u32, Notice)], cluster: &mut Cluster, now: Ticks) {
        cluster.catch_up(instance, now);
        let Some(active) = &self.active else { return };
        let tokens = cluster.instance(instance).output_tokens();
        let mut yielded: Vec<(u32, u32)> = tokens.map(|(request, tokens)| (request.0, tokens)).collect();
        for &(_, notice) in notices {
            if let Notice::Closed(row) | Notice::Cancelled(row) = notice {
                yielded.retain(|one| one.0 != row);
                yielded.push((row, cluster.tokens_yielded(row)));
            }
        }
        let mut events: Vec<(Reverse<u32>, u32, Event)> = Vec::new();
        for &(row, generated) in &yielded {
            let Some(mut filled) = active.blocks.next_crossing(row) else { continue };
            while filled <= generated {
                events.push((Reverse(generated - filled), row, Event::Filled(filled)));
                filled += active.path.block_tokens;
            }
        }
        events.extend(notices.iter().map(|&(_, notice)| (Reverse(0), notice.row(), Event::Notice(notice))));
        events.sort_unstable();
        for (_, row, event) in events {
            match event {
                Event::Filled(generated) => {
                    if let Some(active) = &mut self.active {
                        active.blocks.yield_tokens(row, generated);
                    }
                }
                Event::Notice(Notice::FirstToken(row)) => self.end_prefill(row, cluster.trace()),
                Event::Notice(Notice::Closed(row)) => self.close(row, cluster.trace()),
                Event::Notice(Notice::Cancelled(row)) => drop(self.remove(row)),
            }
        }
    }

    /// Whether they follow the output tokens of requests.
    fn tracks_tokens(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.tracked != TrackedOutputs::None)
    }
}

/// An event of a request in a step; of one request they are in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// Its output, with so many tokens, begins a block.
    Filled(u32),
    /// It has its first token, or is finished.
    Notice(Notice),
}
