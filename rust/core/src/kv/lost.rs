//! Contents that the prefix cache has lost, as their blocks were reused.

use serde::{Deserialize, Serialize};

use super::chunks::Key;
use super::content::Content;

/// The contents that were lost.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Lost {
    /// How many were.
    pub(super) count: u64,
    /// The keys of the latest ones; `None`: they are not listed.
    keys: Option<Vec<Key>>,
}

impl Lost {
    /// Lists the keys from now on.
    pub(super) fn list(&mut self) {
        self.keys = Some(Vec::new());
    }

    /// A content is lost.
    pub(super) fn add(&mut self, content: Content) {
        self.count += 1;
        self.keys.iter_mut().for_each(|keys| keys.push(content.key()));
    }

    /// The keys since the last call, in the order in which they were lost.
    pub(super) fn take(&mut self) -> Vec<Key> {
        self.keys.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::TraceRow;

    #[test]
    fn keys_are_listed_once_and_all_are_counted() {
        let mut lost = Lost::default();
        lost.add(Content::shared(4));
        assert_eq!((lost.take(), lost.count), (vec![], 1));
        lost.list();
        lost.add(Content::shared(7));
        lost.add(Content::own(TraceRow(2), 0));
        assert_eq!(lost.take(), [Content::shared(7).key(), Content::own(TraceRow(2), 0).key()]);
        assert_eq!((lost.take(), lost.count), (vec![], 3));
    }
}
