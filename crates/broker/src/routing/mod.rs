//! The routing stage: finds the receivers of messages. All processors share one routing table. A cohort operation locks
//! it once and routes all messages of its cohort.
//!
//! | file | contents |
//! |---|---|
//! | `stage.rs` | the cohort operation |
//! | `routing_batch.rs` | the messages of a cohort, their deliveries and their answers |
//! | `router.rs` | the routing table |
//! | `router/publish.rs` | finds the receivers of messages, and adds the deliveries |
//! | `retained.rs` | the retained messages |
//! | `router_wal.rs` | the router's records in the WAL |

mod retained;
pub(crate) mod router;
mod router_wal;
mod routing_batch;
pub(crate) mod stage;
