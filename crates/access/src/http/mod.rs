//! Requests to HTTP services that decide about access or publish keys.
//!
//! | file | idea |
//! |---|---|
//! | `endpoint.rs` | a URL and the authorities that sign the certificate of its server |
//! | `exchange.rs` | a request and its answer, with limits |
//! | `fetcher.rs` | the stages that send requests |
//! | `pool.rs` | the workers that send requests to a service |
//! | `callouts.rs` | logins that a service decides |
//! | `permissions.rs` | access to topics that a service decides |
//! | `decision.rs` | the decision in its answer |
//! | `answers.rs` | the cache of answers |

mod answers;
mod callouts;
mod decision;
mod endpoint;
mod exchange;
mod fetcher;
mod permissions;
mod pool;

pub use callouts::{CallOuts, Candidate};
pub use endpoint::Endpoint;
use exchange::is_closed;
pub(crate) use exchange::{Request, exchange};
pub use fetcher::Fetcher;
pub use permissions::{Action, Permission, Permissions};
pub use pool::{CallOutError, CallOutOptions};
