//! A map by numbers of which many follow one another.
//!
//! Numbers are kept by pages, so that those that follow one another lie together: a walk over them takes one look into
//! a hash table for each page, and not one into far memory for each number. A page without numbers is dropped.

use rustc_hash::FxHashMap;

/// Numbers on a page: one bit each says which are in the map.
const PAGE: u64 = 64;

/// A map by numbers of which many follow one another.
#[derive(Debug, Clone)]
pub(crate) struct PagedMap<T> {
    pages: FxHashMap<u64, Box<Page<T>>>,
    len: usize,
}

#[derive(Debug, Clone)]
struct Page<T> {
    /// A bit for each number that is in the map.
    used: u64,
    values: [T; PAGE as usize],
}

impl<T> Default for PagedMap<T> {
    fn default() -> Self {
        Self { pages: FxHashMap::default(), len: 0 }
    }
}

/// The page of a number, and the number's bit and place on it.
fn place(number: u64) -> (u64, u64, usize) {
    let at = number % PAGE;
    (number / PAGE, 1 << at, at as usize)
}

impl<T: Default> PagedMap<T> {
    /// How many numbers are in it.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The value of a number.
    pub(crate) fn get(&self, number: u64) -> Option<&T> {
        let (page, bit, at) = place(number);
        self.pages.get(&page).filter(|page| page.used & bit != 0).map(|page| &page.values[at])
    }

    /// The value of a number, to change.
    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let (page, bit, at) = place(number);
        self.pages.get_mut(&page).filter(|page| page.used & bit != 0).map(|page| &mut page.values[at])
    }

    /// The value of a number, which is added with the default value if it is not in the map.
    pub(crate) fn get_or_default(&mut self, number: u64) -> &mut T {
        let (page, bit, at) = place(number);
        let new = || Box::new(Page { used: 0, values: std::array::from_fn(|_| T::default()) });
        let page = self.pages.entry(page).or_insert_with(new);
        self.len += usize::from(page.used & bit == 0);
        page.used |= bit;
        &mut page.values[at]
    }

    /// Sets the value of a number.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
        *self.get_or_default(number) = value;
    }

    /// Removes a number, and returns its value.
    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let (page_number, bit, at) = place(number);
        let page = self.pages.get_mut(&page_number).filter(|page| page.used & bit != 0)?;
        let value = std::mem::take(&mut page.values[at]);
        page.used &= !bit;
        self.len -= 1;
        if page.used == 0 {
            self.pages.remove(&page_number);
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_equals_a_map_and_drops_empty_pages(
            actions in prop::collection::vec((0u8..4, 0u64..6, prop::sample::select(vec![0, 60, 1 << 63])), 0..120),
        ) {
            let (mut map, mut model) = (PagedMap::default(), BTreeMap::new());
            for (value, (action, near, far)) in (1..).zip(actions) {
                let number = far + near;
                match action {
                    0 => {
                        map.insert(number, value);
                        model.insert(number, value);
                    }
                    1 => prop_assert_eq!(map.remove(number), model.remove(&number)),
                    2 => prop_assert_eq!(map.get_or_default(number), model.entry(number).or_default()),
                    _ => prop_assert_eq!(map.get_mut(number), model.get_mut(&number)),
                }
                prop_assert_eq!(map.get(number), model.get(&number));
                prop_assert_eq!(map.len(), model.len());
                let pages = model.keys().map(|number| number / PAGE).collect::<std::collections::BTreeSet<_>>();
                prop_assert_eq!(map.pages.len(), pages.len());
            }
        }
    }
}
