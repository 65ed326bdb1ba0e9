//! Requests that are added to a cluster, and those that are forgotten once they have ended.

use std::sync::Arc;

use super::Cluster;
use crate::checkpoint::{Reader, Writer};
use crate::error::Error;
use crate::instance::Instance;
use crate::kv::Prefixes;
use crate::metrics::{Columns, Status};
use crate::trace::Trace;

/// Requests of a trace that is streamed.
impl Cluster {
    /// How many requests of the trace, from row `from` on, have ended and are on no instance any more: their columns no
    /// longer change. Returns the first row that has not.
    pub(in crate::engine) fn first_open(&self, from: usize) -> usize {
        let status = &self.recorder.columns.status;
        let ended = |row: &usize| {
            let code = status[*row];
            [Status::Finished, Status::Rejected, Status::GaveUp, Status::Cancelled]
                .map(|one| one as u8)
                .contains(&code)
        };
        let first = from + (from..status.len()).take_while(ended).count();
        // A request that has ended may hold blocks until the step after.
        let held = self.instances.iter().filter_map(Instance::oldest_request).min();
        held.map_or(first, |held| first.min(held.index())).max(from)
    }

    /// Forgets the requests before `row`, and returns their columns.
    pub(in crate::engine) fn forget(&mut self, row: usize) -> Columns {
        self.forget_closed();
        self.known.forget(row);
        self.trace.forget(row);
        let forgotten = self.change_contents(|contents, instances, _| {
            let cached = || instances.iter().map(|instance| instance.shared_contents());
            let most = cached().map(|(most, _)| most).sum();
            contents.forget(row, most, cached().flat_map(|(_, contents)| contents));
            Ok(())
        });
        debug_assert_eq!(forgotten, Ok(()), "Invariant: no content is added");
        self.recorder.columns.take_before(row)
    }

    /// Writes the contents that instances share: each once, in the order of the first instances that have them.
    pub(in crate::engine) fn save_contents(&self, to: &mut Writer) -> Result<(), Error> {
        if self.trace.prefix.is_none() {
            return Ok(());
        }
        let mut written: Vec<&Arc<Prefixes>> = Vec::new();
        for contents in self.instances.iter().map(Instance::contents) {
            if !written.iter().any(|other| Arc::ptr_eq(other, contents)) {
                to.value(&**contents)?;
                written.push(contents);
            }
        }
        Ok(())
    }

    /// Takes the contents that were written of instances of the same configuration.
    pub(in crate::engine) fn restore_contents(&mut self, from: &mut Reader<'_>) -> Result<(), Error> {
        self.change_contents(|contents, _, _| {
            *contents = from.value()?;
            Ok(())
        })
    }

    /// Changes the contents that instances share: each with the instances that share it.
    pub(super) fn change_contents(
        &mut self,
        mut change: impl FnMut(&mut Prefixes, &[&Instance], &Trace) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if self.trace.prefix.is_none() {
            return Ok(());
        }
        let mut shared: Vec<Arc<Prefixes>> = Vec::new();
        let mut of = Vec::with_capacity(self.instances.len());
        let none = Arc::new(Prefixes::none());
        for instance in &mut self.instances {
            let own = instance.share(Arc::clone(&none));
            let known = shared.iter().position(|other| Arc::ptr_eq(other, &own));
            of.push(known.unwrap_or(shared.len()));
            if known.is_none() {
                shared.push(own);
            }
        }
        let changed = (0..).zip(&mut shared).try_for_each(|(at, contents)| {
            let sharing = self.instances.iter().zip(&of).filter(|(_, of)| **of == at);
            let sharing: Vec<_> = sharing.map(|(instance, _)| instance).collect();
            change(Arc::make_mut(contents), &sharing, &self.trace)
        });
        for (instance, of) in self.instances.iter_mut().zip(of) {
            instance.share(Arc::clone(&shared[of]));
        }
        changed
    }
}
