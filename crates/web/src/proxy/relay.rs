//! The body of a server's response.

use std::io;
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::time::now;
use phalanx_http::client::Content;
use phalanx_http::{BodyParser, Limits};
use phalanx_tls::Wire;

use crate::respond::writer::ResponseWriter;
use crate::socket::buffers;
use crate::socket::network::is_time_limit;
use crate::upstream::Failure;

/// If a client has kept the server waiting for this long, it is the client's fault if the server gives up.
pub(super) const SLOW_CLIENT: Duration = Duration::from_secs(1);

/// Why a body was not relayed as a whole.
pub(super) enum Broken {
    /// The response has ended early.
    Server(Failure),
    /// The client has disconnected, or is too slow.
    Client(io::Error),
}

/// Relays the content in `input`, and then that received from the server, to the client. Removes the body from `input`.
/// The last piece stays in the writer's buffer.
pub(super) async fn relay_body(
    out: &mut ResponseWriter,
    wire: &Wire,
    input: &mut Vec<u8>,
    content: Content,
    timeout: IoTimeout,
) -> Result<(), Broken> {
    // No limit on extensions: a response may last for days, with extensions in each chunk.
    let limits = Limits { body: u64::MAX, chunk_extensions: usize::MAX, ..Limits::default() };
    let truncated = || Broken::Server(Failure::Truncated);
    let mut parser = match content {
        Content::UntilClose => None,
        Content::Framed(body) => {
            Some(BodyParser::new(body, &limits).map_err(|_| truncated())?.padded())
        }
    };
    // The end of the last write that the client delayed.
    let mut slow_until = None;
    loop {
        match &mut parser {
            Some(parser) => {
                let mut piece = buffers::get();
                let copied = parser.copy(input, &mut piece);
                input.drain(..copied.map_err(|_| truncated())?);
                out.buffer.piece(&piece);
                buffers::recycle(piece);
                if parser.is_done() {
                    break;
                }
            }
            None => {
                out.buffer.piece(input);
                input.clear();
            }
        }
        // A server may send a piece and wait for the client's reaction.
        let begun = now();
        out.send().await.map_err(Broken::Client)?;
        if now().saturating_sub(begun) >= SLOW_CLIENT {
            slow_until = Some(now());
        }
        match (wire.read(input, timeout).await, &parser) {
            (Ok(1..), _) => (),
            (Ok(0), None) => break,
            (Err(error), _) if is_time_limit(&error) => {
                return Err(Broken::Server(Failure::IdleTimeout));
            }
            // The server could not send for so long that it has given up. The read returns the bytes that it sent
            // before.
            _ if slow_until.is_some_and(|at| now().saturating_sub(at) < timeout.duration()) => {
                return Err(Broken::Client(io::ErrorKind::UnexpectedEof.into()));
            }
            _ => return Err(truncated()),
        }
    }
    out.buffer.end_pieces();
    out.send_if_full().await.map_err(Broken::Client)
}
