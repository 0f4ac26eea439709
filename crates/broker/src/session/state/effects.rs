//! Results of operations on sessions.

use std::sync::Arc;

use phalanx_mqtt::Reason;

use crate::model::client_key::ClientKey;
use crate::session::state::pending_wills::PendingWill;

/// Effects of a change of sessions on other stages.
#[derive(Default)]
pub(crate) struct Effects {
    /// Wills to publish.
    pub(crate) wills: Vec<PendingWill>,
    /// Clients whose subscriptions are to be removed.
    pub(crate) forget: Vec<(ClientKey, Arc<[Box<str>]>)>,
    /// A client with shared subscriptions that connected or disconnected.
    pub(crate) present: Option<(ClientKey, bool)>,
}

/// The result of a pull by a connection's sender.
pub(crate) enum Pulled {
    /// Bytes to send, and the number of QoS 0 messages among them, which are lost if the connection breaks.
    Bytes(Vec<u8>, usize),
    /// The connection is to be closed for this reason.
    Closed(Reason),
}
