//! The sending operation of a connection: sends the connection's responses and its session's messages.

use std::rc::Rc;

use phalanx::metrics::Counter;
use phalanx::net::IoTimeout;
use phalanx::shutdown::is_draining;
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_mqtt::{Disconnect, Packet, Version};

use crate::limits::peer::{LINGER, Peer};
use crate::model::client_key::ClientKey;
use crate::session::effects::Pulled;
use crate::session::operations::SessionStage;
use crate::transport::Transport;
use crate::transport::outbox::Outbox;

/// Sends until either side closes the connection. Output that accumulates during a write is sent with the
/// next one.
pub(crate) async fn send(
    stream: Rc<Transport>,
    outbox: Rc<Outbox>,
    sessions: SessionStage,
    (key, connection_id): (ClientKey, u64),
    timeout: IoTimeout,
    (sent, peer): (Counter, Rc<Peer>),
) {
    // The next pull starts after the last write, so that each sends as much as possible.
    let (mut pull, mut spare) = (None, Vec::new());
    loop {
        let mut bytes = Vec::new();
        if !outbox.is_empty() || stream.has_answers() {
            bytes = outbox.take(std::mem::take(&mut spare));
        } else if outbox.is_closed() {
            break;
        } else if outbox.is_disconnected() {
            outbox.filled().await;
            continue;
        } else {
            let filled = outbox.filled();
            let spare = &mut spare;
            let asked = pull
                .get_or_insert_with(|| sessions.pull(key, connection_id, std::mem::take(spare)));
            match select(asked, filled).await {
                Either::Left(Ok(Pulled::Bytes(pulled))) => {
                    pull = None;
                    bytes = pulled;
                }
                // The reader ended the session, and has queued a reason if the client did not disconnect
                // itself.
                Either::Left(Ok(Pulled::Closed(_)))
                    if outbox.is_closed() || outbox.is_disconnected() =>
                {
                    pull = None;
                }
                Either::Left(Ok(Pulled::Closed(reason))) => {
                    // DISCONNECT must be last, so pending responses precede it.
                    bytes = outbox.take(Vec::new());
                    outbox.set_cause(reason);
                    outbox.close_with_words();
                    if outbox.version() == Version::V5 {
                        let farewell = Packet::Disconnect(Disconnect::because(reason));
                        // The packet is short.
                        let _ = farewell.encode(Version::V5, &mut bytes);
                    }
                }
                Either::Left(Err(_)) => break,
                Either::Right(_) => continue,
            }
        }
        if !bytes.is_empty() || stream.has_answers() {
            sent.add(bytes.len() as u64);
            peer.listener.bytes_sent.add(bytes.len() as u64);
            match stream.write(bytes, timeout).await {
                Ok(memory) => spare = memory,
                Err(_) => {
                    outbox.close();
                    stream.shut();
                    return;
                }
            }
        }
    }
    if outbox.lingers() && !is_draining() {
        // Closing a socket with unread input would reset the connection, and the client might lose the last
        // packet.
        stream.finish(IoTimeout::after(LINGER)).await;
        sleep(LINGER).await;
    } else if stream.is_wrapped() {
        stream.finish(IoTimeout::after(LINGER)).await;
    }
    outbox.close();
    // The reader sees the end of the stream.
    stream.shut();
}
