//! Certificates from an ACME authority (RFC 8555), such as Let's Encrypt, for a server with [`Certificates`].
//!
//! A separate thread orders and renews them, so no request waits for an authority. The thread sleeps until the next
//! renewal.
//!
//! | file | idea |
//! |---|---|
//! | `plan.rs` | the authority, the account, and the certificates to keep |
//! | `schedule.rs` | the time of a renewal, and of the next attempt after a failure |
//! | `challenges.rs` | responses to HTTP-01 and TLS-ALPN-01 challenges |
//! | `storage.rs` | accounts, certificates, orders and failures on disk |
//! | `transport.rs` | HTTPS requests to the authority |
//! | `order.rs` | one order, from its challenges to the certificate |
//! | `account.rs` | the account at the authority |
//! | `job.rs` | the state of one certificate |
//! | `plan_task.rs` | orders and renewals at their times |
//! | `manager.rs`, `shared.rs` | the thread |
//! | `metrics.rs` | metrics |
//!
//! [`Certificates`]: phalanx_tls::Certificates

#![forbid(unsafe_code)]

mod account;
mod challenges;
mod job;
mod manager;
mod metrics;
mod order;
mod plan;
mod plan_task;
mod schedule;
mod shared;
mod storage;
mod transport;

pub use challenges::{Challenges, HTTP_PREFIX};
pub use manager::Manager;
pub use metrics::Metrics;
pub use plan::{ChallengeKind, ExternalAccount, LETS_ENCRYPT, Plan};
