//! Requests to HTTP services that decide about access or publish keys.
//!
//! | file | idea |
//! |---|---|
//! | `endpoint.rs` | a URL and the authorities that sign the certificate of its server |
//! | `exchange.rs` | a request and its answer, with limits |
//! | `fetcher.rs` | the stages that send requests |
//! | `callouts.rs` | logins that a service decides |
//! | `decision.rs` | the decision in its answer |
//! | `answers.rs` | answers that are used again |

mod answers;
mod callouts;
mod decision;
mod endpoint;
mod exchange;
mod fetcher;

pub use callouts::{CallOutOptions, CallOuts, Candidate, Undecided};
pub use endpoint::Endpoint;
use exchange::is_closed;
pub(crate) use exchange::{Request, exchange};
pub use fetcher::Fetcher;
