//! Bridges: MQTT clients that connect to other brokers and forward messages in both directions.
//!
//! A bridge is a session of this broker with an outgoing connection. Like a client's session, it has subscriptions, a
//! bounded queue that is kept while the remote broker is disconnected (on disk, with a persistence directory), and a
//! window of messages in flight. An operation of the control stage supervises each bridge: it connects, serves the
//! connection like that of a client (see `link/mod.rs`), and reconnects.
//!
//! | file | contents |
//! |---|---|
//! | `manager.rs` | starts and stops the bridges of a processor, as configured |
//! | `supervisor.rs` | the life of one bridge |
//! | `state_topic.rs` | the topic that shows the state of a bridge |
//! | `login.rs` | CONNECT and SUBSCRIBE at the remote broker |
//! | `local.rs` | the session and its subscriptions at this broker |

mod local;
mod login;
mod manager;
mod state_topic;
mod supervisor;

pub(crate) use manager::manage;
