//! The future of a request. Like the [handle of a socket](super::socket), it is an index into the tables of one
//! processor.
//!
//! Both are `Send`, because futures that contain them may have to be. So they may move to another processor, to another
//! program or to a thread without a processor, where the index would refer to another request or connection. Therefore
//! each contains the identity of its processor. Using it elsewhere fails with [`OwnerError`], and dropping it elsewhere
//! sends a command to its processor.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use phalanx_core::ProcessorId;
use phalanx_driver::{Done, Request, Socket};

use super::abandoned::LastWrite;
use super::socket::HomeSocket;
use super::{Io, IoTimeout, NO_RUNTIME, try_with, with_any};

/// The error of using a socket, such as a stream or a listener, on a processor other than the one that created it, or
/// of awaiting a request of the socket there.
///
/// A socket belongs to its processor, and a request belongs to the processor where it was first awaited. Send the bytes
/// to an operation on that processor, and use the socket there. A socket can be dropped anywhere. The error's kind is
/// [`Other`](io::ErrorKind::Other).
///
/// ```
/// use phalanx::net::OwnerError;
///
/// fn explain(error: &std::io::Error) -> &'static str {
///     match error.get_ref().and_then(|inner| inner.downcast_ref()) {
///         Some(OwnerError::WrongProcessor) => "moved by call_on?",
///         Some(OwnerError::Ended) => "kept from another run?",
///         _ => "the network",
///     }
/// }
/// # assert_eq!(explain(&OwnerError::Ended.into()), "kept from another run?");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OwnerError {
    /// The socket or request belongs to another processor, of this program or of another one.
    #[error(
        "a socket or request was used on a processor other than the one that created it; \
         send the bytes to that processor and use it there"
    )]
    WrongProcessor,
    /// The program of the socket or request has ended.
    #[error(
        "a socket or request was used after the program that made it had ended; \
         make a new one in this program"
    )]
    Ended,
}

impl From<OwnerError> for io::Error {
    fn from(error: OwnerError) -> Self {
        Self::other(error)
    }
}

#[cold]
pub(super) fn owner_error(home: ProcessorId) -> io::Error {
    if home.is_alive() { OwnerError::WrongProcessor.into() } else { OwnerError::Ended.into() }
}

/// Runs `act` with the I/O of the processor `home`: immediately if this is its thread, otherwise later on that thread.
/// Does nothing if that processor has ended, because its driver has closed all sockets.
pub(crate) fn run_on_home(home: ProcessorId, act: impl FnOnce(&Io) + Copy + Send + 'static) {
    let at_home = move || try_with(|io| (io.home == home).then(|| act(io))).flatten();
    if at_home().is_none() {
        home.run_later(move || _ = at_home());
    }
}

/// A request to the driver of the processor that first awaits it.
pub(crate) fn request(request: Request, timeout: IoTimeout) -> RequestFuture {
    RequestFuture::new(request, timeout, None)
}

/// A receive request. It is smaller than [`Request`], because servers have many waiting receives.
#[derive(Debug)]
pub(crate) struct Receive {
    pub(crate) socket: Socket,
    pub(crate) max: usize,
}

impl From<Receive> for Request {
    fn from(Receive { socket, max }: Receive) -> Self {
        Self::Receive { socket, max }
    }
}

/// The future of [`request`] and [`HomeSocket::request`].
pub(crate) struct RequestFuture<R = Request>(Progress<R>);

impl<R> fmt::Debug for RequestFuture<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let progress = match &self.0 {
            Progress::New { .. } => "new",
            Progress::InFlight { .. } => "in flight",
            Progress::Over => "over",
        };
        f.debug_tuple("RequestFuture").field(&progress).finish()
    }
}

/// The progress of a request.
pub(super) enum Progress<R> {
    /// Not started. If there is a home, only that processor may start it.
    New { request: R, timeout: IoTimeout, home: Option<ProcessorId> },
    /// In the table of its processor.
    InFlight { key: usize, home: ProcessorId },
    /// Completed or abandoned.
    Over,
}

impl<R> RequestFuture<R> {
    /// A request that has not started. If there is a `home`, only that processor may start it.
    pub(super) fn new(request: R, timeout: IoTimeout, home: Option<ProcessorId>) -> Self {
        Self(Progress::New { request, timeout, home })
    }

    /// A request that has started on the processor `home`, without a time limit.
    #[inline]
    pub(super) fn started(
        request: impl FnOnce() -> R,
        home: ProcessorId,
        waker: &Waker,
    ) -> io::Result<Self>
    where
        R: Into<Request>,
    {
        with_any(|io| match io {
            Some(io) if io.home == home => {
                let key = io.start_inline(request().into(), IoTimeout::NONE, waker)?;
                Ok(Self(Progress::InFlight { key, home }))
            }
            _ => Err(owner_error(home)),
        })
    }

    /// Ends the request. Returns its last progress.
    pub(super) fn end(&mut self) -> Progress<R> {
        std::mem::replace(&mut self.0, Progress::Over)
    }

    /// A request that has not started.
    pub(super) fn unstarted(&mut self) -> Option<(&mut R, IoTimeout)> {
        match &mut self.0 {
            Progress::New { request, timeout, .. } => Some((request, *timeout)),
            Progress::InFlight { .. } | Progress::Over => None,
        }
    }

    /// Lets a write on `socket` complete, although its future is dropped. Then sends the rest, and drops the socket.
    pub(crate) fn finish_alone(mut self, socket: HomeSocket, rest: Vec<u8>) {
        let Progress::InFlight { key, .. } = self.end() else { return socket.send_last(rest) };
        let last = LastWrite { socket, rest };
        last.end(move |io, last| io.finish_alone(key, last));
    }

    /// Abandons a request that was polled on the wrong processor.
    #[cold]
    fn fail_moved(&mut self, home: ProcessorId) -> Poll<io::Result<Done>> {
        drop(Self(self.end()));
        Poll::Ready(Err(owner_error(home)))
    }

    /// The result of a poll outside a processor.
    ///
    /// # Panics
    /// If the request belongs to no processor yet.
    #[cold]
    fn poll_outside(&mut self) -> Poll<io::Result<Done>> {
        match self.0 {
            Progress::New { home: Some(home), .. } | Progress::InFlight { home, .. } => {
                self.fail_moved(home)
            }
            Progress::New { home: None, .. } | Progress::Over => panic!("{NO_RUNTIME}"),
        }
    }
}

impl<R: Into<Request> + Unpin> Future for RequestFuture<R> {
    type Output = io::Result<Done>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        with_any(|io| {
            let Some(io) = io else { return this.poll_outside() };
            match this.0 {
                Progress::New { home: Some(home), .. } if home != io.home => this.fail_moved(home),
                Progress::New { timeout, .. } => {
                    let Progress::New { request, .. } = this.end() else {
                        unreachable!("matched above")
                    };
                    let key = io.start(request.into(), timeout, context.waker())?;
                    this.0 = Progress::InFlight { key, home: io.home };
                    Poll::Pending
                }
                Progress::InFlight { home, .. } if home != io.home => this.fail_moved(home),
                Progress::InFlight { key, .. } => {
                    let result = io.take_result(key, context.waker());
                    if result.is_ready() {
                        this.0 = Progress::Over;
                    }
                    result
                }
                Progress::Over => panic!("a request was polled after it had completed"),
            }
        })
    }
}

impl<R> Drop for RequestFuture<R> {
    fn drop(&mut self) {
        if let Progress::InFlight { key, home } = self.0 {
            run_on_home(home, move |io| io.abandon(key));
        }
    }
}
