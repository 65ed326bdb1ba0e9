//! The first copy of each shared content.

use serde::{Deserialize, Serialize};

/// No block.
pub(super) const NONE: u32 = u32::MAX;

/// Contents on a page of the table of shared contents; a page has 16 KiB.
pub(super) const PAGE: usize = 4096;

/// The first copy of each shared content, by the number of the content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FirstCopies {
    /// Pages that have a copy, by number.
    pages: Vec<Option<Box<Page>>>,
}

/// The first copies of neighbouring contents; an entry is a block or `NONE`.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Page(#[serde(with = "crate::checkpoint::array")] [u32; PAGE]);

impl FirstCopies {
    /// A table without copies of these contents.
    pub(super) fn new(contents: usize) -> Self {
        Self { pages: vec![None; contents.div_ceil(PAGE)] }
    }

    /// Makes room for so many contents in all.
    pub(super) fn grow(&mut self, contents: usize) {
        self.pages.resize(contents.div_ceil(PAGE).max(self.pages.len()), None);
    }

    /// The first copy of a content, or `NONE`.
    pub(super) fn get(&self, number: usize) -> u32 {
        self.pages[number / PAGE].as_ref().map_or(NONE, |page| page.0[number % PAGE])
    }

    /// The place for the first copy of a content.
    pub(super) fn get_mut(&mut self, number: usize) -> &mut u32 {
        let page = self.pages[number / PAGE].get_or_insert_with(|| Box::new(Page([NONE; PAGE])));
        &mut page.0[number % PAGE]
    }

    /// How many pages have a copy.
    #[cfg(test)]
    pub(super) fn pages_in_use(&self) -> usize {
        self.pages.iter().flatten().count()
    }
}
