//! Which mutant is active, and which have been reached. Only the mutated copy of the engine has this file.

#![allow(unsafe_code, missing_docs)]

use std::io::Write;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

const UNKNOWN: u32 = u32::MAX;
const MOST: usize = 1 << 14;
/// In the table of those reached, where others have 1.
const ENTERED: u8 = 2;

static ACTIVE: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];

/// Whether a mutant is active. Notes that it was reached.
#[inline(always)]
pub fn is(number: u32) -> bool {
    note(number);
    on(number)
}

/// Whether a mutant is active, where it is not known yet whether it makes a difference.
#[inline(always)]
pub fn on(number: u32) -> bool {
    if ACTIVE.load(Ordering::Relaxed) == UNKNOWN {
        read();
    }
    ACTIVE.load(Ordering::Relaxed) == number
}

/// Notes that a mutant was reached.
#[inline(always)]
pub fn note(number: u32) {
    if REACHED[number as usize].load(Ordering::Relaxed) == 0 {
        reach(number);
    }
}

/// Notes that what a mutant leaves out has begun.
#[inline(always)]
pub fn enter(number: u32) {
    note(number);
    REACHED[number as usize].store(ENTERED, Ordering::Relaxed);
}

/// A number, or a reference to one.
pub trait Number {
    /// Whether it is 0.
    fn is_zero(&self) -> bool;
}

macro_rules! numbers {
    ($($kind:ty),*) => {
        $(impl Number for $kind {
            #[inline(always)]
            fn is_zero(&self) -> bool {
                *self == <$kind>::default()
            }
        })*
    };
}

numbers!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool);

impl<T: Number> Number for &T {
    #[inline(always)]
    fn is_zero(&self) -> bool {
        (**self).is_zero()
    }
}

/// Whether a number is 0.
#[inline(always)]
pub fn is_zero<T: Number>(number: &T) -> bool {
    number.is_zero()
}

/// Reads the environment at the first call: `MUTANT` is the active one.
#[cold]
#[inline(never)]
fn read() {
    let active = std::env::var("MUTANT").ok().and_then(|text| text.parse().ok());
    ACTIVE.store(active.unwrap_or(0), Ordering::Relaxed);
}

/// Appends the number of a mutant that is reached to the file `MUTANTS_REACHED`, if the environment names one.
#[cold]
#[inline(never)]
fn reach(number: u32) {
    if REACHED[number as usize].swap(1, Ordering::Relaxed) == 0
        && let Ok(path) = std::env::var("MUTANTS_REACHED")
    {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        file.and_then(|mut file| writeln!(file, "{number}")).expect("the file of reached mutants can be written");
    }
}

/// Activates a mutant; 0: none.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_mutant_activate(number: u32) {
    ACTIVE.store(number, Ordering::Relaxed);
}

/// The table of those reached: a byte each, which the caller may clear; 2: what the mutant leaves out has begun.
#[unsafe(no_mangle)]
pub extern "C" fn paceline_mutants_reached() -> *const AtomicU8 {
    REACHED.as_ptr()
}
