//! Replays of instances that do not influence each other, on several threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use paceline_core::{Apart, Error, Outcome, Progress, Share, Single};
use pyo3::prelude::*;

use crate::enter::{SLICE, advance};
use crate::guard::guarded;

/// An instance that was replayed, or an error.
type Replayed = PyResult<Result<Single, Error>>;

/// The instances that are left, and how far the others are.
struct Work {
    /// The instances that no thread has taken.
    shares: Mutex<Vec<Share>>,
    /// Whether the threads are to end.
    stop: AtomicBool,
    /// Requests that have ended.
    settled: AtomicU64,
    /// The latest moment that an instance has reached.
    clock: AtomicU64,
}

impl Work {
    /// Takes the next instance, if there is one.
    fn next(&self) -> Option<Share> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Replays instances one after another, until there are no more.
    fn run(&self, apart: &Apart, done: &Sender<Replayed>) {
        while let Some(share) = self.next() {
            let replayed = guarded(|| Ok(self.replay(apart, share).transpose()));
            let Some(replayed) = replayed.transpose() else { return };
            if done.send(replayed).is_err() {
                return;
            }
        }
    }

    /// Replays an instance; `None` if the threads are to end.
    fn replay(&self, apart: &Apart, share: Share) -> Result<Option<Single>, Error> {
        let mut single = apart.open(share)?;
        let (mut budget, mut before) = (1_000, 0);
        loop {
            let done = advance(|events| single.advance(events), &mut budget)?;
            let Progress { settled, clock, .. } = single.progress();
            self.settled.fetch_add(settled - before, Ordering::Relaxed);
            self.clock.fetch_max(clock, Ordering::Relaxed);
            before = settled;
            if done {
                return Ok(Some(single));
            }
            if self.stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
        }
    }
}

/// Replays the instances of a replay on some threads, and calls `between` every so often with how far they are. The outer
/// error is that of `between`, or a bug; the inner one is of the replay.
pub(crate) fn replay(
    (apart, mut shares): (Apart, Vec<Share>),
    threads: usize,
    mut between: impl FnMut(Progress) -> PyResult<()>,
) -> PyResult<Result<Outcome, Error>> {
    let total = apart.requests();
    // The longest are last, and are taken first.
    shares.sort_by_key(Share::requests);
    let mut singles = Vec::with_capacity(shares.len());
    let threads = threads.min(shares.len());
    let work = Work {
        shares: Mutex::new(shares),
        stop: AtomicBool::new(false),
        settled: AtomicU64::new(0),
        clock: AtomicU64::new(0),
    };
    let replayed = thread::scope(|scope| {
        let (done, replayed) = channel();
        for _ in 0..threads {
            let (work, apart, done) = (&work, &apart, done.clone());
            scope.spawn(move || work.run(apart, &done));
        }
        drop(done);
        let mut gather = || -> PyResult<Result<(), Error>> {
            loop {
                match replayed.recv_timeout(SLICE) {
                    Ok(single) => match single? {
                        Ok(single) => singles.push(single),
                        Err(error) => return Ok(Err(error)),
                    },
                    Err(RecvTimeoutError::Timeout) => {
                        let (settled, clock) = (&work.settled, &work.clock);
                        let [settled, clock] = [settled, clock].map(|one| one.load(Ordering::Relaxed));
                        between(Progress { settled, total, clock })?;
                    }
                    Err(RecvTimeoutError::Disconnected) => return Ok(Ok(())),
                }
            }
        };
        let gathered = gather();
        work.stop.store(true, Ordering::Relaxed);
        gathered
    });
    Ok(replayed?.and_then(|()| apart.join(singles)))
}
