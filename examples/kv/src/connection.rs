//! A connection's whole life, as one operation: read, fork over the store, join, write, and again.

use std::io;
use std::net::Shutdown;
use std::time::Duration;

use phalanx::join;
use phalanx::net::{IoTimeout, Stream};

use crate::round::Round;
use crate::stages::Stages;

/// Clients may be idle for as long as they like, but not keep the server from ending.
const IDLE_TIMEOUT: IoTimeout = IoTimeout::NONE.until_shutdown();
/// A client that does not take its answers in this time is left.
const SEND_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(30));
/// After its last answer a client is listened to for so long, so that it gets to read the answer
/// before the connection is reset under it.
const LINGER_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(1)).until_shutdown();
/// And for so many reads.
const MAX_LINGER_READS: usize = 64;

/// Serves until the client leaves, cannot be understood, or the program drains.
///
/// # Errors
/// When the connection breaks; there is nobody to tell.
pub(crate) async fn serve(stream: Stream, stages: Stages) -> io::Result<()> {
    let (mut input, mut out) = (Vec::new(), Vec::new());
    loop {
        let mut round = Round::default();
        let taken = round.fork(&stages, &input);
        input.drain(..taken);
        if round.is_empty() {
            // No whole request. Meanwhile nothing is read from a client that waits for its answers.
            if stream.read(&mut input, IDLE_TIMEOUT).await? == 0 {
                return Ok(());
            }
            continue;
        }
        // One suspension for the whole pipeline, however many partitions it went to...
        let results = join(std::mem::take(&mut round.calls)).await;
        let last = round.last;
        round.answer(results, &mut out);
        // ...and one write for all its answers.
        out = stream.write(out, SEND_TIMEOUT).await?;
        if last {
            return linger(stream).await;
        }
    }
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
