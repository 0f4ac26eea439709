//! The operation that sends: the connection's own answers, and its session's messages, whichever there are.

use std::rc::Rc;
use std::time::Duration;

use phalanx::metrics::Counter;
use phalanx::net::IoTimeout;
use phalanx::shutdown::is_draining;
use phalanx::task::Either;
use phalanx::{select, sleep};
use phalanx_mqtt::{Disconnect, Packet, Version};

use crate::connection::outbox::Outbox;
use crate::connection::peer::Peer;
use crate::connection::transport::Transport;
use crate::session::key::ClientKey;
use crate::session::{Pulled, SessionStage};

/// So long a client may take to read why its connection is closed.
pub(super) const LINGER: Duration = Duration::from_secs(2);

/// Sends until the connection is closed from either side. All that has gathered while something was sent goes
/// with the next.
pub(crate) async fn send(
    stream: Rc<Transport>,
    outbox: Rc<Outbox>,
    sessions: SessionStage,
    (key, connection_id): (ClientKey, u64),
    timeout: IoTimeout,
    (sent, _peer): (Counter, Rc<Peer>),
) {
    // Asked for again only when the last is sent, so that more comes at once.
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
                // The reader has ended it, and has said why, if the client has not.
                Either::Left(Ok(Pulled::Closed(_)))
                    if outbox.is_closed() || outbox.is_disconnected() =>
                {
                    pull = None;
                }
                Either::Left(Ok(Pulled::Closed(reason))) => {
                    // Nothing may follow the farewell, so what was said meanwhile goes before it.
                    bytes = outbox.take(Vec::new());
                    outbox.close_with_words();
                    if outbox.version() == Version::V5 {
                        let farewell = Packet::Disconnect(Disconnect::because(reason));
                        // It fits.
                        let _ = farewell.encode(Version::V5, &mut bytes);
                    }
                }
                Either::Left(Err(_)) => break,
                Either::Right(_) => continue,
            }
        }
        if !bytes.is_empty() || stream.has_answers() {
            sent.add(bytes.len() as u64);
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
        // Closed while the client still says something, the connection would be reset, and what was said last
        // lost with it.
        stream.finish(IoTimeout::after(LINGER)).await;
        sleep(LINGER).await;
    } else if stream.is_wrapped() {
        stream.finish(IoTimeout::after(LINGER)).await;
    }
    outbox.close();
    // Whoever reads from it finds its end.
    stream.shut();
}
