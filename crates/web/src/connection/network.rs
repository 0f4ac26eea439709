//! What touches sockets, in the name of the network stage: as a part of the connection that asks for it,
//! since the driver begins what a whole turn has asked for at once.

use std::io;
use std::rc::Rc;

use phalanx::fs::File;
use phalanx::net::{Bytes, IoTimeout, Payload, SentFile};
use phalanx::overload::Permit;

use crate::connection::buffers;
use crate::connection::transport::Transport;
use crate::log::Flush;
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

/// What a connection hands to the network stage and gets back: its buffers.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Answers to send.
    pub(crate) out: Vec<u8>,
    /// What the client sent.
    pub(crate) input: Vec<u8>,
    /// The credit of the requests that `out` answers; none if they were refused.
    pub(crate) permit: Option<Permit>,
    /// What is written down of them once they have left.
    pub(crate) records: Option<Flush>,
}

/// Sends the answers in `buffers`, if there are any, and then appends what the client sends next:
/// one part of the connection, since nearly every answer is followed by the wait for the next request.
pub(crate) async fn converse(
    stages: Stages,
    transport: &Rc<Transport>,
    mut buffers: Buffers,
    sending: IoTimeout,
    receiving: IoTimeout,
) -> (Buffers, Received) {
    let transport = transport.clone();
    let exchange = move |_| async move {
        let (permit, records) = (buffers.permit.take(), buffers.records.take());
        if !buffers.out.is_empty() {
            let head = std::mem::take(&mut buffers.out);
            match transport.write(Payload { head, body: Bytes::new() }, sending).await {
                Ok(memory) => buffers::recycle(memory),
                Err(_) => {
                    Flush::submit(records);
                    return (buffers, Received::Broken);
                }
            }
        }
        // Answered: what is waited for now is the client.
        drop(permit);
        Flush::submit(records);
        let received = match transport.read(&mut buffers.input, receiving).await {
            Ok(bytes) => Received::Bytes(bytes),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Received::TimedOut,
            Err(_) => Received::Broken,
        };
        (buffers, received)
    };
    stages.network.run(exchange).await.unwrap_or((Buffers::default(), Received::Broken))
}

/// Sends `payload` and gives its head's memory back. The operation is invoked at once, so that what
/// awaits it does not hold the payload too.
///
/// # Errors
/// When the connection broke, or the client did not take it in time.
pub(crate) fn send(
    stages: Stages,
    transport: &Rc<Transport>,
    payload: Payload,
    timeout: IoTimeout,
) -> impl Future<Output = io::Result<Vec<u8>>> + use<> {
    let transport = transport.clone();
    let call = stages.network.call(move |_| async move { transport.write(payload, timeout).await });
    async move { call.await.unwrap_or_else(|error| Err(io::Error::other(error))) }
}

/// As [`send`], of a head and part of a file: where it begins, and how long it is. What comes back says
/// how much of it was sent.
///
/// # Errors
/// As [`send`].
pub(crate) fn send_file(
    stages: Stages,
    transport: &Rc<Transport>,
    head: Vec<u8>,
    (file, at, length): (&File, u64, u64),
    timeout: IoTimeout,
) -> impl Future<Output = io::Result<SentFile>> + use<> {
    let (transport, file) = (transport.clone(), file.clone());
    let call = stages.network.call(move |_| async move {
        transport.write_file(head, (&file, at, length), timeout).await
    });
    async move { call.await.unwrap_or_else(|error| Err(io::Error::other(error))) }
}
