//! Views that policies have of an instance and of its requests.

mod instance;
mod look;
mod pace;
mod progress;
mod reader;
mod reading;
mod request;
mod token_intervals;

pub(crate) use instance::Asking;
pub(in crate::instance) use look::Look;
pub(in crate::instance) use reader::Reader;
pub(crate) use request::{InClass, OfRequest, RequestView, Stay, Takes, seconds, seconds_at_least, whole};
pub(crate) use token_intervals::TokenIntervals;
