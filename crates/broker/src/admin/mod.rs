//! The admin API and its page, below `/broker` of the admin address: clients, bans, retained messages and traces.
//!
//! | file | contents |
//! |---|---|
//! | `api.rs` | authenticates requests, and calls the handler of the path |
//! | `failure.rs` | failures and their status |
//! | `query.rs` | parameters of requests |
//! | `clients.rs` | clients: list, disconnect, ban |
//! | `messages.rs` | retained messages, and publishing |
//! | `tracing.rs` | traces |
//! | `page.html` | the page, which calls the API |

mod api;
mod clients;
mod failure;
mod messages;
mod query;
mod tracing;

pub(crate) use api::answer;
