//! The routing stage: finds the receivers of messages. A single table for all processors is accessed by a
//! cohort operation: all messages of a cohort are routed under one lock.
//!
//! | file | contents |
//! |---|---|
//! | `stage.rs` | the operation of one cohort |
//! | `routing_batch.rs` | the messages of a cohort, their deliveries and their answers |
//! | `router.rs` | the table of subscriptions |
//! | `router/publish.rs` | finds the receivers of messages, and adds the deliveries |
//! | `retained.rs` | the retained messages |
//! | `router_wal.rs` | the router's records in the WAL |

mod retained;
pub(crate) mod router;
mod router_wal;
mod routing_batch;
pub(crate) mod stage;
