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

    /// The first copies of contents from `number` on, at most `most` of them and of one page; none if the page has none.
    pub(super) fn firsts(&self, number: usize, most: usize) -> &[u32] {
        let at = number % PAGE;
        self.pages[number / PAGE].as_ref().map_or(&[], |page| &page.0[at..PAGE.min(at + most)])
    }

    /// The places for the first copies of contents from `number` on, at most `most` of them and of one page.
    pub(super) fn firsts_mut(&mut self, number: usize, most: usize) -> &mut [u32] {
        let at = number % PAGE;
        let page = self.pages[number / PAGE].get_or_insert_with(|| Box::new(Page([NONE; PAGE])));
        &mut page.0[at..PAGE.min(at + most)]
    }

    /// How many pages have a copy.
    #[cfg(test)]
    pub(super) fn pages_in_use(&self) -> usize {
        self.pages.iter().flatten().count()
    }
}
