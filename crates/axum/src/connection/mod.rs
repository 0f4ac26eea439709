//! The operation of a connection: hyper's protocols over the processor's socket.

mod bodies;
mod header_limit;
mod io;
mod offered;
mod progress;
mod requests;

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Poll, ready};

use hyper_util::server::conn::auto::Builder;
use phalanx::net::Stream;
use phalanx::select;
use phalanx::shutdown::draining;
use phalanx_compat::{Compat, StageExecutor, Timer, portable};

use crate::connection::header_limit::{End, HeaderLimit};
use crate::connection::io::{Io, Kind};
use crate::connection::offered::Offered;
use crate::connection::progress::Progress;
use crate::connection::requests::requests;
use crate::services::Services;
use crate::stages::{Stages, peer_of};

/// The state that the connections of one listener share.
pub(crate) struct Connections<V>(Rc<Shared<V>>);

struct Shared<V> {
    stages: Stages,
    builder: Builder<StageExecutor>,
    services: RefCell<V>,
}

impl<V> Clone for Connections<V> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<V> Connections<V> {
    pub(crate) fn new(stages: Stages, services: V) -> Self {
        let mut builder = Builder::new(stages.streams);
        // `HeaderLimit` limits it.
        builder.http1().header_read_timeout(None);
        // WebSocket over HTTP/2 (RFC 8441).
        builder.http2().timer(Timer).enable_connect_protocol();
        Self(Rc::new(Shared { stages, builder, services: RefCell::new(services) }))
    }
}

/// Serves one connection until it ends. It ends after its current requests when the program drains.
pub(crate) async fn serve_connection<M, V: Services<M>>(
    stream: Stream,
    connections: Connections<V>,
) {
    let Shared { stages, builder, services } = &*connections.0;
    let make = services.borrow_mut().service(peer_of(&stream));
    let service = make.await;
    let progress = Progress::default();
    let moves = V::CONNECTIONS_MOVE;
    let Some(io) = encrypt(stream, *stages, progress.clone(), moves).await else { return };
    // An upgraded connection may move to another thread, for axum spawns a task of tokio for each WebSocket.
    let (io, relay) = portable(io);
    let mut limit = HeaderLimit::new(stages.header_timeout);
    let requests = requests(service, stages.requests, progress.clone());
    {
        let served = builder.serve_connection_with_upgrades(Compat::new(io), requests);
        let (mut served, mut draining, mut drains) = (pin!(served), draining(), false);
        // It fails if the client breaks the protocol or leaves, which concerns nobody else.
        poll_fn(|context| {
            if !drains && Pin::new(&mut draining).poll(context).is_ready() {
                drains = true;
                served.as_mut().graceful_shutdown();
                limit.drain();
            }
            loop {
                if served.as_mut().poll(context).is_ready() {
                    return Poll::Ready(());
                }
                match ready!(limit.poll(&progress, context)) {
                    End::Graceful => served.as_mut().graceful_shutdown(),
                    End::Close => return Poll::Ready(()),
                }
            }
        })
        .await;
    }
    // Ends immediately unless the connection was upgraded.
    select(relay, draining()).await;
}

/// The connection's bytes, after the TLS handshake if the server has certificates. None if the handshake failed.
#[cfg(feature = "tls")]
async fn encrypt(stream: Stream, stages: Stages, progress: Progress, moves: bool) -> Option<Io> {
    use phalanx::net::IoTimeout;

    const HANDSHAKE: IoTimeout =
        IoTimeout::after(std::time::Duration::from_secs(10)).until_shutdown();
    let Some(tls) = stages.tls else {
        return Some(plain(stream, progress, moves));
    };
    let stream = Box::pin(tls.handshake(stream, HANDSHAKE)).await.ok()?;
    Some(Io::new(Kind::Tls(Box::new(stream.into_polled())), progress))
}

#[cfg(not(feature = "tls"))]
#[allow(clippy::unused_async, reason = "the same signature as with TLS")]
async fn encrypt(stream: Stream, _: Stages, progress: Progress, moves: bool) -> Option<Io> {
    Some(plain(stream, progress, moves))
}

fn plain(stream: Stream, progress: Progress, moves: bool) -> Io {
    let stream = Offered::new(stream.into(), progress.clone(), moves);
    Io::new(Kind::Plain(stream), progress)
}
