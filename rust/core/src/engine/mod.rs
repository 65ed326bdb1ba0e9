//! A replay of a trace on a cluster: the loop over moments, and what happens in each.
//!
//! | part | does | needs |
//! |---|---|---|
//! | [`event_loop`] | takes the next moment, and calls its six phases in order | all others |
//! | [`cluster`] | holds the instances, starts and ends their steps | [`calendar`], [`roles`] |
//! | [`roles`] | knows the pool of each instance, and how it changes | |
//! | [`router`] | picks an instance for a request by a rule | cluster |
//! | [`arrivals`] | takes requests from their source to the routers, and routes them by rules | cluster, router, [`held`] |
//! | [`held`] | requests that routers hold | cluster, arrivals |
//! | [`phase_routing`] | routes requests whose phase has changed | cluster, router, migrations |
//! | [`monitors`] | runs periodic checks that migrate requests or flip instances | cluster, router, migrations |
//! | [`live_migration`] | moves requests between instances | cluster, [`network`] |
//! | [`lockstep`] | starts the steps of all instances together | cluster |
//! | [`sampling`] | reads the instances at equally spaced moments | cluster |
//! | [`apart`] | replays instances that do not influence each other one by one | all others |
//! | [`streaming`] | adds rows to a trace as it is replayed, and forgets requests that have ended | all others |

mod apart;
mod arrival_rules;
mod arrivals;
mod calendar;
mod clients;
mod cluster;
mod event_loop;
#[cfg(test)]
pub(crate) mod fixtures;
mod gauges;
mod held;
mod known;
mod live_migration;
mod lockstep;
mod monitors;
mod network;
mod outside;
mod periods;
mod phase_routing;
mod ranked;
mod recent;
mod roles;
mod router;
mod sampling;
mod scaling;
mod setup;
mod streaming;
mod transfer_log;

pub use apart::{Apart, Share, Single, coupling};
pub use arrivals::Source;
pub use event_loop::{Outcome, Progress, Simulation};
pub use outside::STATE_FIELDS;
pub use roles::{Cause, FlipRecord};
pub use router::{CALLBACK_INSTANCE_FIELDS, CALLBACK_REQUEST_FIELDS, CallbackView, Decide};
pub use streaming::Stream;
pub use transfer_log::{TransferKind, TransferRecord};
