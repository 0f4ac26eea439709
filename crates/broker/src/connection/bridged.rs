//! The connection of a bridge to a remote broker, served like that of a client.

use std::rc::Rc;

use phalanx_mqtt::Version;

use crate::access::Identity;
use crate::connection::connect::{Accepted, begin};
use crate::connection::reader::{connection, serve_accepted};
use crate::context::Context;
use crate::limits::peer::Peer;
use crate::session::partition::open::Opened;
use crate::transport::Transport;

/// A bridge's connection that both brokers have accepted.
pub(crate) struct Bridged {
    pub(crate) stream: Rc<Transport>,
    pub(crate) opened: Opened,
    pub(crate) identity: Identity,
    pub(crate) peer: Peer,
    /// Maximum packet size of the remote broker, in bytes.
    pub(crate) most: usize,
    pub(crate) persistent: bool,
}

/// Serves a bridge's connection until it ends.
pub(crate) async fn serve_bridged(bridged: Bridged, context: Context) {
    let Bridged { stream, opened, identity, peer, most, persistent } = bridged;
    let (version, context) = (Version::V5, Rc::new(context));
    let of_client = (&identity, &opened);
    let shared = begin(stream, context, of_client, (version, most), peer, |line| {
        line.flag("session_present", opened.present);
    });
    let accepted = Accepted {
        shared,
        version,
        identity,
        durable_id: opened.durable_id,
        // The link pings the remote broker.
        keep_alive: 0,
        wants_reasons: false,
        persistent,
        mechanism: None,
    };
    serve_accepted(connection(accepted, None, Vec::new())).await;
}
