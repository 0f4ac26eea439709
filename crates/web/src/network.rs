//! The network stage: what touches sockets, in cohorts of its own.

use std::io;
use std::rc::Rc;
use std::time::Duration;

use phalanx::net::Stream;
use phalanx::{Patience, Payload};

use crate::stages::Stages;

/// What waiting for bytes came to.
pub(crate) enum Received {
    /// So many more bytes; none at the end.
    Bytes(usize),
    /// None in time.
    TimedOut,
    /// The connection broke, or the program drains.
    Broken,
}

/// Appends what the client sends next to `input`, and gives that back.
pub(crate) async fn receive(
    stages: Stages,
    stream: &Rc<Stream>,
    mut input: Vec<u8>,
    patience: Patience,
) -> (Vec<u8>, Received) {
    let stream = stream.clone();
    let call = stages.network.call(move |_| async move {
        let received = match stream.read(&mut input, patience).await {
            Ok(bytes) => Received::Bytes(bytes),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Received::TimedOut,
            Err(_) => Received::Broken,
        };
        (input, received)
    });
    call.await.unwrap_or((Vec::new(), Received::Broken))
}

/// Sends `payload` and gives its head's memory back.
///
/// # Errors
/// When the connection broke, or the client did not take it in time.
pub(crate) async fn send(
    stages: Stages,
    stream: &Rc<Stream>,
    payload: Payload,
    limit: Duration,
) -> io::Result<Vec<u8>> {
    let stream = stream.clone();
    let call = stages
        .network
        .call(move |_| async move { stream.write(payload, Patience::limit(limit)).await });
    call.await.unwrap_or_else(|error| Err(io::Error::other(error)))
}
