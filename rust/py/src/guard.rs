//! No panic crosses into Python: a bug here becomes `InternalError`.
//!
//! Everything that Python calls runs inside [`guarded`]. A panic in it is noted
//! with its message and its place by a hook, which prints nothing, and raised
//! as an exception of the package. Outside of [`guarded`], and on threads that
//! are not in it, the hook that was there before is called.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use pyo3::prelude::*;

use crate::error::InternalError;

thread_local! {
    /// How many calls of `guarded` this thread is in: a router may replay too.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The message of the latest panic on this thread, and its place.
    static NOTED: RefCell<Option<String>> = const { RefCell::new(None) };
}

static HOOK: Once = Once::new();

/// Has panics inside [`guarded`] noted instead of printed.
pub(crate) fn install() {
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if DEPTH.with(Cell::get) == 0 {
                return before(info);
            }
            NOTED.with(|noted| {
                // A panic while another is noted is one in this very hook.
                if let Ok(mut noted) = noted.try_borrow_mut() {
                    *noted = Some(said(info));
                }
            });
        }));
    });
}

fn said(info: &PanicHookInfo<'_>) -> String {
    let payload = info.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let message =
        text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message");
    match info.location() {
        Some(place) => format!("{message} (at {}:{})", place.file(), place.line()),
        None => message.to_owned(),
    }
}

/// Leaves a call of `guarded`, however it ends.
struct Inside;

impl Inside {
    fn enter() -> Self {
        DEPTH.with(|depth| depth.set(depth.get() + 1));
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.with(|depth| depth.set(depth.get() - 1));
    }
}

/// Returns what `work` returns, or the exception for a panic in it.
///
/// Whatever `work` changes is given up after a panic: a replay's state is
/// dropped with it.
pub(crate) fn guarded<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let inside = Inside::enter();
    let ended = panic::catch_unwind(AssertUnwindSafe(work));
    drop(inside);
    ended.unwrap_or_else(|_| {
        let noted = NOTED.with(RefCell::take);
        Err(InternalError::new_err(noted.unwrap_or_else(|| "a panic of which nothing is known".into())))
    })
}

/// Panics as a bug would, so that what becomes of a bug can be tested.
#[pyfunction]
#[pyo3(signature = (message, *, detached=false))]
pub(crate) fn fail(py: Python<'_>, message: &str, detached: bool) -> PyResult<()> {
    guarded(|| {
        let message = message.to_owned();
        if detached { py.detach(|| panic!("{message}")) } else { panic!("{message}") }
    })
}
