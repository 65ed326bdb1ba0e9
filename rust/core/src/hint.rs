//! A hint about the layout of the machine code.

/// Marks the branch that calls it as one that few steps take, as a mechanism that it serves is mostly not configured.
///
/// The compiler places such a branch apart from the code that each step runs, which then fits into the instruction
/// cache: with all branches in line that code had 34 KB, where processors keep 32. The call itself compiles to nothing.
#[cold]
#[inline(never)]
pub(crate) const fn rare() {}
