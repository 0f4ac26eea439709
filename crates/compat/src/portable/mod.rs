//! A stream that other threads may use.
//!
//! On its processor, a [`Portable`] uses the stream directly. The first use elsewhere hands the stream over to the
//! [`Relay`], an operation of the processor, and from then on bytes cross in two bounded buffers. HTTP servers need it
//! for upgraded connections, which programs like to move into tasks of tokio.

mod relay;
mod stream;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use phalanx::net::PollStream;

pub use relay::Relay;
pub use stream::Portable;

/// Maximum number of bytes in each buffer between the threads.
const MAX_BUFFERED: usize = 64 * 1024;

/// Makes a stream that any thread may use, and the operation that does the I/O for other threads. That must be awaited
/// on the stream's processor; it ends when the portable stream is dropped and everything was sent.
///
/// ```
/// use phalanx::SharedStage;
/// use phalanx::net::{Polled, Stream};
/// use phalanx_compat::{Compat, Portable, portable};
///
/// /// Passes a connection to code that runs on another runtime.
/// fn hand_over(relays: SharedStage<()>, stream: Stream) -> Compat<Portable<Polled>> {
///     let (stream, relay) = portable(Polled::new(stream));
///     relays.dispatch(move |_| relay).expect("the stage accepts operations");
///     Compat::new(stream)
/// }
/// # let _ = hand_over;
/// ```
pub fn portable<S: PollStream + Unpin>(stream: S) -> (Portable<S>, Relay<S>) {
    let pipe = Arc::new(Pipe::default());
    (Portable::new(stream, pipe.clone()), Relay::new(pipe))
}

/// The error of a [`Portable`] stream whose [`Relay`] was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the processor of this connection has closed it, for example because the server drains")]
pub struct Closed;

impl From<Closed> for io::Error {
    fn from(error: Closed) -> Self {
        Self::new(io::ErrorKind::ConnectionAborted, error)
    }
}

/// The bytes and wakers that cross between the two sides. No foreign code runs under its lock.
struct Pipe<S>(Mutex<Crossing<S>>);

struct Crossing<S> {
    /// The stream on its way to the relay.
    stream: Option<S>,
    /// Received bytes.
    input: Vec<u8>,
    /// How the input ended.
    end_result: Option<Result<(), io::ErrorKind>>,
    /// Bytes to send.
    output: Vec<u8>,
    /// Why sending failed.
    failed: Option<io::ErrorKind>,
    shutdown: Shutdown,
    /// The portable stream was dropped.
    is_dropped: bool,
    /// The relay was dropped.
    is_closed: bool,
    relay: Option<Waker>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// The end of the sending direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shutdown {
    #[default]
    Open,
    Requested,
    Done,
}

impl<S> Default for Pipe<S> {
    fn default() -> Self {
        Self(Mutex::new(Crossing {
            stream: None,
            input: Vec::new(),
            end_result: None,
            output: Vec::new(),
            failed: None,
            shutdown: Shutdown::Open,
            is_dropped: false,
            is_closed: false,
            relay: None,
            reader: None,
            writer: None,
        }))
    }
}

impl<S> Pipe<S> {
    fn lock(&self) -> MutexGuard<'_, Crossing<S>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes a task. The lock must be free.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
