//! Socket I/O. The network stage is declared direct: its operations run as part of the connection that
//! invokes them, because the driver submits the I/O of a whole turn together anyway.

use std::io;
use std::rc::Rc;

use phalanx::fs::File;
use phalanx::metrics::Times;
use phalanx::net::{Bytes, FileTransfer, IoTimeout, Payload, SentFile};
use phalanx::overload::Permit;
use phalanx::stage::Shared;
use phalanx_tls::Wire;

use crate::log::Flush;
use crate::socket::answered::Answered;
use crate::socket::buffers;
use crate::socket::peer::Admission;
use crate::stages::Stages;

/// Result of waiting for input.
pub(crate) enum Received {
    /// Bytes received; zero at the end of the stream.
    Bytes(usize),
    /// The time limit expired.
    TimedOut,
    /// The connection broke, the program is shutting down, or another processor now serves the connection.
    Ended,
}

/// A connection's buffers while the network stage uses them.
#[derive(Default)]
pub(crate) struct Buffers {
    /// Responses to send.
    pub(crate) out: Vec<u8>,
    /// Received bytes.
    pub(crate) input: Vec<u8>,
    /// Admission permit of the requests that `out` answers; `None` if they were refused.
    pub(crate) permit: Option<Permit>,
    /// Moves with the connection to another processor.
    pub(crate) admission: Option<Box<Admission>>,
    /// Log records to submit once `out` is sent.
    pub(crate) records: Option<Flush>,
    /// The requests that `out` answers.
    pub(crate) answered: Answered,
}

/// Whether a read or write has exceeded its time limit. The kernel's `ETIMEDOUT` has the same kind, but means that the
/// peer acknowledges no packets. Only errors of the kernel have a code.
pub(crate) fn is_time_limit(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::TimedOut && error.raw_os_error().is_none()
}

/// Sends the responses in `buffers`, if any, and then appends received bytes. Combined in one call, because nearly
/// every response is followed by a wait for the next request.
///
/// If `MAY_MOVE`, the connection has no state except its socket once the responses are sent, and it is offered to the
/// other processors. It is a constant, because a variable would enlarge the future of every connection.
pub(crate) async fn send_and_receive<const MAY_MOVE: bool>(
    stages: Stages,
    transport: &Rc<Wire>,
    mut buffers: Buffers,
    sending: IoTimeout,
    receiving: IoTimeout,
) -> (Buffers, Received) {
    let transport = transport.clone();
    let exchange = move |latency: Shared<Times>| async move {
        let (permit, records) = (buffers.permit.take(), buffers.records.take());
        if !buffers.out.is_empty() {
            let head = std::mem::take(&mut buffers.out);
            match transport.write(Payload { head, body: Bytes::new() }, sending).await {
                Ok(memory) => {
                    buffers.answered.sent(&latency);
                    buffers::recycle(memory);
                }
                Err(_) => {
                    Flush::submit(records);
                    return (buffers, Received::Ended);
                }
            }
        }
        // The requests are answered; the wait for the client must not hold a permit.
        drop(permit);
        Flush::submit(records);
        if MAY_MOVE && transport.offer_with(|| buffers.admission.take().expect("it may move")) {
            return (buffers, Received::Ended);
        }
        let received = match transport.read(&mut buffers.input, receiving).await {
            Ok(bytes) => Received::Bytes(bytes),
            Err(error) if is_time_limit(&error) => Received::TimedOut,
            Err(_) => Received::Ended,
        };
        (buffers, received)
    };
    stages.network.run(exchange).await.unwrap_or((Buffers::default(), Received::Ended))
}

/// Sends `payload` and returns the memory of its head. The operation is invoked immediately, so the returned
/// future does not contain the payload.
///
/// # Errors
/// If the connection broke or the time limit expired.
pub(crate) fn send(
    stages: Stages,
    transport: &Rc<Wire>,
    payload: Payload,
    timeout: IoTimeout,
) -> impl Future<Output = io::Result<Vec<u8>>> + use<> {
    let transport = transport.clone();
    let call = stages.network.call(move |_| async move { transport.write(payload, timeout).await });
    async move { call.await.unwrap_or_else(|error| Err(io::Error::other(error))) }
}

/// Like [`send`], for a head and a part of a file given as offset and length. The result contains the number of
/// file bytes sent.
///
/// # Errors
/// Like [`send`].
pub(crate) fn send_file(
    stages: Stages,
    transport: &Rc<Wire>,
    head: Vec<u8>,
    (file, at, length): (&File, u64, u64),
    transfer: FileTransfer,
    timeout: IoTimeout,
) -> impl Future<Output = io::Result<SentFile>> + use<> {
    let (transport, file) = (transport.clone(), file.clone());
    let call = stages.network.call(move |_| async move {
        transport.write_file(head, (&file, at, length), transfer, timeout).await
    });
    async move { call.await.unwrap_or_else(|error| Err(io::Error::other(error))) }
}
