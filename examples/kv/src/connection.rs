//! Serves a connection as one operation: read, fork over the store, join, write all answers at once, repeat.

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use phalanx::net::{IoTimeout, Stream};

use crate::reply::{Reply, write_array_head};
use crate::resp::missing;
use crate::round::Round;
use crate::stages::Stages;

/// Clients may be idle for any time, but do not delay a shutdown.
const IDLE_TIMEOUT: IoTimeout = IoTimeout::NONE.until_shutdown();
/// Timeout for each part of a request after the first, since an incomplete request occupies memory.
const REQUEST_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(30)).until_shutdown();
/// Timeout for a client to accept its answers.
const SEND_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(30));
/// Bytes of replies that are sent before further ones are encoded. The last of them may be longer.
const MAX_WRITE: usize = 256 * 1024;
/// Time for which the server reads after its last answer, so that the client receives the answer before a reset.
const LINGER_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(1)).until_shutdown();
/// Maximum number of these reads.
const MAX_LINGER_READS: usize = 64;

/// Serves until the client disconnects, sends invalid input, or the program shuts down.
///
/// # Errors
/// When the connection breaks.
pub(crate) async fn serve(stream: Stream, stages: Stages) -> io::Result<()> {
    let (mut input, mut out) = (Vec::new(), Vec::new());
    loop {
        let mut round = Round::default();
        let taken = round.take(&stages, &input);
        input.drain(..taken);
        if round.is_empty() {
            // The request is incomplete. While a client waits for answers, nothing is read from it.
            let wanted = input.len() + missing(&input);
            while input.len() < wanted {
                let limit = if input.is_empty() { IDLE_TIMEOUT } else { REQUEST_TIMEOUT };
                if stream.read(&mut input, limit).await? == 0 {
                    return Ok(());
                }
            }
            continue;
        }
        let results = round.run(&stages).await;
        let last = round.last;
        out = send(&stream, round.answers(results), out).await?;
        if last {
            return linger(stream).await;
        }
        // A connection has no state but its input, so another processor may continue to serve it.
        if input.is_empty() && stream.offer() {
            return Ok(());
        }
    }
}

/// Sends the replies, in one write if they are short. The values of a command may be much larger together than the
/// memory, for example if it reads the same key many times; so no more of them are copied than one write sends.
async fn send(
    stream: &Stream,
    replies: impl Iterator<Item = Reply>,
    mut out: Vec<u8>,
) -> io::Result<Vec<u8>> {
    for reply in replies {
        match reply {
            Reply::Array(elements) => {
                write_array_head(elements.len(), &mut out);
                for element in elements {
                    element.write(&mut out);
                    out = send_if_large(stream, out).await?;
                }
            }
            reply => reply.write(&mut out),
        }
        out = send_if_large(stream, out).await?;
    }
    if !out.is_empty() {
        out = stream.write(out, SEND_TIMEOUT).await?;
    }
    // A connection that waits keeps no large buffer.
    Ok(if out.capacity() > 2 * MAX_WRITE { Vec::new() } else { out })
}

async fn send_if_large(stream: &Stream, out: Vec<u8>) -> io::Result<Vec<u8>> {
    if out.len() < MAX_WRITE { Ok(out) } else { stream.write(out, SEND_TIMEOUT).await }
}

async fn linger(stream: Stream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let mut unread = Vec::new();
    for _ in 0..MAX_LINGER_READS {
        unread.clear();
        if stream.read(&mut unread, LINGER_TIMEOUT).await? == 0 {
            break;
        }
    }
    Ok(())
}
