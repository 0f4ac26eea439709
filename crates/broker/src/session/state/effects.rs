//! Results of session operations.

use std::sync::Arc;

use phalanx_mqtt::Reason;

use crate::events::Origin;
use crate::events::drops::{DropReason, Dropped, Drops};
use crate::model::client_key::ClientKey;
use crate::model::session::Session;
use crate::model::subscriptions::subscription_size::Keys;
use crate::session::state::pending_wills::PendingWill;

/// Effects of a session change on other stages.
#[derive(Default)]
pub(crate) struct Effects {
    /// Wills to publish.
    pub(crate) wills: Vec<PendingWill>,
    /// Clients to remove from the router, with their subscriptions in chunks; each client has at least one chunk.
    pub(crate) forget: Vec<(ClientKey, Vec<Keys>)>,
    /// A client with shared subscriptions that connected or disconnected.
    pub(crate) present: Option<(ClientKey, bool)>,
}

/// The result of a pull by a connection's sender.
pub(crate) enum Pulled {
    Output(Output),
    /// The connection is to be closed for this reason.
    Closed(Reason),
}

/// Output of a session for its connection.
pub(crate) struct Output {
    bytes: Vec<u8>,
    /// The number of QoS 0 messages in `bytes`. They are lost if the output is not written.
    at_most_once: usize,
    /// The receiver of these messages, while the output waits: dropping the output then counts them as lost.
    waits_for: Option<Box<Receiver>>,
}

struct Receiver {
    drops: Drops,
    client: Arc<str>,
    user: Option<Arc<str>>,
    origin: Option<Origin>,
}

impl Output {
    pub(crate) fn new(bytes: Vec<u8>, at_most_once: usize) -> Self {
        Self { bytes, at_most_once, waits_for: None }
    }

    /// Prepares the output of `session` for waiting for the disk or another processor. If it is dropped because the
    /// connection ends, its QoS 0 messages count as lost.
    pub(crate) fn guard(&mut self, session: &Session, drops: Drops) {
        let origin = session.attachment.as_ref().and_then(|attachment| attachment.origin);
        let (client, user) = (session.client_id.clone(), session.user.clone());
        self.waits_for = Some(Box::new(Receiver { drops, client, user, origin }));
    }

    /// Whether it contains QoS 0 messages.
    pub(crate) fn has_at_most_once(&self) -> bool {
        self.at_most_once > 0
    }

    /// The bytes to write, and the number of QoS 0 messages in them. If writing fails, the writer counts these as lost.
    pub(crate) fn into_parts(mut self) -> (Vec<u8>, usize) {
        self.waits_for = None;
        (std::mem::take(&mut self.bytes), self.at_most_once)
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(Receiver { drops, client, user, origin }) = self.waits_for.as_deref() {
            let (client, user, origin) = (Some(&**client), user.as_deref(), *origin);
            let what = || Dropped { client, user, origin, ..Dropped::default() };
            drops.add(DropReason::ConnectionLost, self.at_most_once, what);
        }
    }
}
