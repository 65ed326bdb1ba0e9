//! A replay of a trace on a cluster: the loop over moments, and what happens in each.
//!
//! | part | does | needs |
//! |---|---|---|
//! | [`event_loop`] | takes the next moment, and calls its six phases in order | all others |
//! | [`cluster`] | holds the instances, starts and ends their steps | [`calendar`] |
//! | [`router`] | picks an instance for a request by a rule | cluster |
//! | [`arrivals`] | routes requests as they arrive | cluster, router, [`held`] |
//! | [`held`] | requests that routers hold | cluster, router |
//! | [`phase_routing`] | routes requests whose phase has changed | cluster, router, migrations |
//! | [`monitors`] | runs periodic checks that migrate requests | cluster, migrations |
//! | [`live_migration`] | moves requests between instances | cluster, [`network`] |
//! | [`lockstep`] | starts the steps of all instances together | cluster |

mod arrivals;
mod calendar;
mod cluster;
mod event_loop;
#[cfg(test)]
mod fixtures;
mod held;
mod live_migration;
mod lockstep;
mod monitors;
mod network;
mod phase_routing;
mod router;
mod setup;

pub use event_loop::{Outcome, Progress, Simulation};
pub use router::{CALLBACK_INSTANCE_FIELDS, CALLBACK_REQUEST_FIELDS, CallbackView, Decide};
