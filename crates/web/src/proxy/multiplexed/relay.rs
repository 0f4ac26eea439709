//! The body of a server's response over HTTP/2, and its trailers.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::time::Duration;

use h2::RecvStream;
use http::HeaderMap;
use phalanx::time::{now, timeout};
use phalanx_http::Body;
use phalanx_http::client::Content;

use crate::proxy::fields::{Field, Named, is_for_client};
use crate::proxy::relay::{Broken, SLOW_CLIENT};
use crate::respond::writer::ResponseWriter;
use crate::upstream::Failure;

/// Content that is gathered before it is sent, in bytes.
const MAX_GATHERED: usize = 64 * 1024;

/// Relays the content of a response to the client, and its trailers. The window of the stream is reopened when the
/// client has taken the content. The last piece stays in the writer's buffer.
pub(in crate::proxy) async fn relay_stream(
    out: &mut ResponseWriter,
    content: &mut RecvStream,
    framing: Content,
    idle: Duration,
) -> Result<(), Broken> {
    // Bytes left of content with a declared length.
    let mut left = match framing {
        Content::Framed(Body::Length(length)) => Some(length),
        Content::Framed(Body::None) => Some(0),
        _ => None,
    };
    // Bytes for which the window is still closed, and the end of the last write that the client delayed.
    let (mut gathered, mut slow_until) = (0, None);
    loop {
        // The last piece is sent when it is known whether trailers follow.
        let may_send = !out.buffer.is_empty() && (left != Some(0) || gathered == 0);
        let next = poll_fn(|context| match content.poll_data(context) {
            Poll::Pending if may_send => Poll::Ready(None),
            polled => polled.map(Some),
        });
        match timeout(idle, next).await {
            Ok(Some(Some(Ok(piece)))) => {
                out.buffer.piece(&piece);
                gathered += piece.len();
                left = left.map(|left| left.saturating_sub(piece.len() as u64));
                if gathered < MAX_GATHERED || left == Some(0) {
                    continue;
                }
            }
            Ok(Some(None)) => break,
            Ok(None) => (),
            // The server has waited for the client for so long that it has given up.
            Ok(Some(Some(Err(_))))
                if slow_until.is_some_and(|at| now().saturating_sub(at) < idle) =>
            {
                return Err(Broken::Client(io::ErrorKind::UnexpectedEof.into()));
            }
            Ok(Some(Some(Err(_)))) => return Err(Broken::Server(Failure::Truncated)),
            Err(_) => return Err(Broken::Server(Failure::IdleTimeout)),
        }
        let begun = now();
        out.send().await.map_err(Broken::Client)?;
        if now().saturating_sub(begun) >= SLOW_CLIENT {
            slow_until = Some(now());
        }
        // An error means that the stream has ended.
        let _ = content.flow_control().release_capacity(std::mem::take(&mut gathered));
    }
    let trailers = timeout(idle, poll_fn(|context| content.poll_trailers(context))).await;
    match trailers {
        Ok(Ok(Some(trailers))) => {
            let named = Named::of(&[]);
            let forwarded = fields(&trailers).filter(|(name, _)| is_for_client(name, &named));
            out.set_trailers(forwarded);
        }
        Ok(Ok(None)) => (),
        Ok(Err(_)) => return Err(Broken::Server(Failure::Truncated)),
        Err(_) => return Err(Broken::Server(Failure::IdleTimeout)),
    }
    // Gathered content counts towards the window of the connection until it is released.
    let _ = content.flow_control().release_capacity(gathered);
    out.buffer.end_pieces();
    out.send_if_full().await.map_err(Broken::Client)
}

/// Names and values of fields.
pub(in crate::proxy) fn fields(headers: &HeaderMap) -> impl Iterator<Item = Field<'_>> {
    // White space around a value is malformed (RFC 9113 §8.2.1), but some servers send it.
    headers.iter().map(|(name, value)| (name.as_ref(), value.as_bytes().trim_ascii()))
}
