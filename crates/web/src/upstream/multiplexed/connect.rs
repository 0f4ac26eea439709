//! Connections to servers with HTTP/2: dialling, and the start of the protocol (RFC 9113 §3.3 and §3.4).

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use h2::client;
use phalanx::net::{Bytes, IoTimeout, PollStream, Polled, Resolver};
use phalanx_compat::Compat;
use phalanx_tls::{Wire, dial};

use crate::upstream::group::Member;

/// Maximum number of requests in progress on one connection.
pub(in crate::upstream) const MAX_STREAMS: usize = 100;
/// Content of a response that is buffered while its client is slow, in bytes.
const STREAM_WINDOW: u32 = 256 * 1024;
/// Window of a connection: enough for all of its streams, so that slow clients delay no others.
const CONNECTION_WINDOW: u32 = MAX_STREAMS as u32 * STREAM_WINDOW;
/// Content of a request that waits to be sent, in bytes.
const MAX_SEND_BUFFER: usize = 256 * 1024;
/// Size of a response's head, or of its trailers, in bytes.
const MAX_HEAD: u32 = 64 * 1024;

/// Starts requests on a connection.
pub(crate) type Sender = client::SendRequest<Bytes>;
/// Moves the bytes of a connection.
pub(in crate::upstream) type Driver = client::Connection<Compat<Box<dyn PollStream>>, Bytes>;

/// Connects to a server, and waits for its SETTINGS, which show that it speaks HTTP/2 and how many requests it accepts
/// at a time. The caller limits the time as well.
///
/// # Errors
/// Like [`dial`], and if the server does not speak HTTP/2.
pub(in crate::upstream) async fn connect(
    resolver: &Resolver,
    member: &Member,
    timeout: IoTimeout,
) -> io::Result<(Sender, Driver)> {
    let address = (&*member.upstream.host, member.upstream.port);
    let (wire, _) = dial(resolver, address, member.connector.as_ref(), timeout).await?;
    let io: Box<dyn PollStream> = match wire {
        Wire::Plain(stream) => Box::new(Polled::new(stream)),
        Wire::Tls(stream) if stream.speaks(b"h2") => Box::new(stream.into_polled()),
        Wire::Tls(_) => return Err(io::Error::other("the server does not offer HTTP/2 by ALPN")),
    };
    let (sender, mut driver) = client::Builder::new()
        .initial_max_send_streams(0)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buffer_size(MAX_SEND_BUFFER)
        .max_header_list_size(MAX_HEAD)
        .enable_push(false)
        .handshake(Compat::new(io))
        .await
        .map_err(error)?;
    poll_fn(|context| {
        let ended = Pin::new(&mut driver).poll(context);
        if sender.current_max_send_streams() > 0 {
            return Poll::Ready(Ok(()));
        }
        ended.map(|ended| {
            ended.map_err(error)?;
            Err(io::Error::other("it closed the connection before its SETTINGS of HTTP/2"))
        })
    })
    .await?;
    Ok((sender, driver))
}

/// An error of the protocol, or of the socket.
pub(in crate::upstream) fn error(error: h2::Error) -> io::Error {
    match error.is_io() {
        true => error.into_io().expect("an error of the socket"),
        false => io::Error::other(format!("HTTP/2: {error}")),
    }
}
