//! A client's connection: lines are received, positions are sent.

use std::io::{self, Write};
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::{IoTimeout, Listener, Stream};

use crate::commit::{LOG, Stages};

/// Maximum length of a line in bytes with its newline; a client that sends a longer one is disconnected.
const MAX_LINE: usize = 64 * 1024;
/// Idle timeout of a client.
const IDLE_TIMEOUT: IoTimeout = IoTimeout::after(Duration::from_secs(600));

/// Maximum number of clients per processor; further ones are disconnected. Each has at most one item in the queue of the
/// log, so this is also the bound of that queue.
const MAX_CLIENTS: usize = 10_000;

/// Accepts connections until the program is asked to shut down.
pub(crate) async fn accept(listener: Listener, stages: Stages) {
    let clients = Rc::new(());
    listener
        .accept_each(move |stream| {
            if Rc::strong_count(&clients) > MAX_CLIENTS {
                return; // dropped: closed
            }
            let present = clients.clone();
            let _ = stages.clients.dispatch(move |_| async move {
                // The client has disconnected, or notices the end of its connection.
                let _ = serve(stream, stages).await;
                drop(present);
            });
        })
        .await;
}

/// Serves one client: all complete received lines are one item for the log.
async fn serve(stream: Stream, stages: Stages) -> io::Result<()> {
    let mut input = Vec::new();
    let mut answer = Vec::new();
    while stream.read(&mut input, IDLE_TIMEOUT.until_shutdown()).await? > 0 {
        let mut lengths: Vec<usize> =
            input.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect();
        if lengths.iter().any(|length| *length > MAX_LINE) {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let Some(end) = input.iter().rposition(|byte| *byte == b'\n') else { continue };
        let rest = input.split_off(end + 1);
        let lines = std::mem::replace(&mut input, rest);
        lengths.truncate(lengths.len() - usize::from(!input.is_empty()));
        let placed = stages.log.call(LOG, lines).await.map_err(io::Error::other)?;
        let mut place = placed.map_err(io::Error::from)?;
        for length in lengths {
            writeln!(answer, "{place}")?;
            place += length as u64;
        }
        answer = stream.write(answer, IDLE_TIMEOUT).await?;
    }
    Ok(())
}
