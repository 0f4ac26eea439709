//! A request's future and a socket: numbers in the tables of one processor.
//!
//! Both are `Send`, since futures that hold them may have to be. So both may be moved to another
//! processor, to another program or to a thread without a processor. There the number would name
//! another request or connection. So each carries the identity of its processor. Its use elsewhere
//! fails with [`Elsewhere`]; its drop elsewhere is sent to its own processor.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use phalanx_core::ProcessorId;
use phalanx_driver::{Done, Driver, Request, Socket};

use super::{Io, IoTimeout, try_with, with};

/// The error of a stream or listener that is used away from the processor that made it, and of a read,
/// write or other request that is awaited there.
///
/// Streams and listeners stay on their processor, and requests stay where they were first awaited.
/// Have an operation on that processor use the stream, and send it the bytes. A stream that is moved
/// nevertheless is closed on its own processor when it is dropped. The error's kind is
/// [`Other`](io::ErrorKind::Other).
///
/// ```
/// use phalanx::net::Elsewhere;
///
/// fn explain(error: &std::io::Error) -> &'static str {
///     match error.get_ref().and_then(|inner| inner.downcast_ref()) {
///         Some(Elsewhere::AnotherProcessor) => "moved by call_on?",
///         Some(Elsewhere::Ended) => "kept from another run?",
///         _ => "the network",
///     }
/// }
/// # assert_eq!(explain(&Elsewhere::Ended.into()), "kept from another run?");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Elsewhere {
    /// Its processor is another one, of this program or of another.
    #[error(
        "a stream, listener or request is used away from the processor that made it; \
         use it there, and send the bytes instead"
    )]
    AnotherProcessor,
    /// Its processor has ended, with the program.
    #[error(
        "a stream, listener or request is used after the program that made it has ended; \
         make another in this one"
    )]
    Ended,
}

impl From<Elsewhere> for io::Error {
    fn from(error: Elsewhere) -> Self {
        Self::other(error)
    }
}

#[cold]
fn elsewhere(home: ProcessorId) -> io::Error {
    if home.is_alive() { Elsewhere::AnotherProcessor.into() } else { Elsewhere::Ended.into() }
}

/// Runs `release` with the I/O of the processor `home`: now if it is the thread's, else on that
/// processor. Nothing is run if that has ended: its driver has closed all sockets.
pub(crate) fn release(home: ProcessorId, release: impl FnOnce(&Io) + Copy + Send + 'static) {
    let at_home = move || try_with(|io| (io.home == home).then(|| release(io))).flatten();
    if at_home().is_none() {
        home.release(move || _ = at_home());
    }
}

/// A socket of one processor. Dropping it closes it, wherever that is.
pub(crate) struct HomeSocket {
    socket: Socket,
    home: ProcessorId,
}

impl HomeSocket {
    /// A socket that the driver of this processor has just made.
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, home: with(|io| io.home) }
    }

    /// A socket that a [request](Self::request) about this one has made.
    pub(crate) fn beside(&self, socket: Socket) -> Self {
        Self { socket, home: self.home }
    }

    /// A request about this socket, awaited.
    pub(crate) fn request(
        &self,
        request: impl FnOnce(Socket) -> Request,
        timeout: IoTimeout,
    ) -> Requested {
        let request = Some((request(self.socket), timeout));
        Requested { request, stage: Stage::New { home: Some(self.home) } }
    }

    /// Asks the driver about this socket.
    ///
    /// # Errors
    /// [`Elsewhere`], or `f`'s.
    ///
    /// # Panics
    /// Outside of a processor.
    pub(crate) fn driver<R>(
        &self,
        f: impl FnOnce(&mut dyn Driver, Socket) -> io::Result<R>,
    ) -> io::Result<R> {
        with(|io| match io.home == self.home {
            true => io.try_driver(|driver| f(driver, self.socket)),
            false => Err(elsewhere(self.home)),
        })
    }
}

impl Drop for HomeSocket {
    fn drop(&mut self) {
        let socket = self.socket;
        release(self.home, move |io| io.close(socket));
    }
}

/// A request to the driver of whichever processor awaits it first.
pub(crate) fn request(request: Request, timeout: IoTimeout) -> Requested {
    Requested { request: Some((request, timeout)), stage: Stage::New { home: None } }
}

/// The future of [`request`] and [`HomeSocket::request`].
pub(crate) struct Requested {
    /// Taken when the request is started.
    request: Option<(Request, IoTimeout)>,
    stage: Stage,
}

/// Progress of a request. It is `Copy`, so that a change of stage runs no destructor.
#[derive(Clone, Copy)]
enum Stage {
    /// Not started. With a home, only that processor may start it.
    New { home: Option<ProcessorId> },
    /// In the table of its processor.
    Flying { key: usize, home: ProcessorId },
    /// Answered or given up.
    Over,
}

impl Requested {
    /// Gives the request up, by its processor.
    #[cold]
    fn stray(&mut self, home: ProcessorId) -> Poll<io::Result<Done>> {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        drop(Self { request: self.request.take(), stage });
        Poll::Ready(Err(elsewhere(home)))
    }
}

impl Future for Requested {
    type Output = io::Result<Done>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        with(|io| match self.stage {
            Stage::New { home } => {
                if let Some(home) = home.filter(|home| *home != io.home) {
                    return self.stray(home);
                }
                let (request, timeout) = self.request.take().expect("started once");
                self.stage = Stage::Over;
                let key = io.start(request, timeout, context.waker())?;
                self.stage = Stage::Flying { key, home: io.home };
                Poll::Pending
            }
            Stage::Flying { key, home } => {
                if home != io.home {
                    return self.stray(home);
                }
                let answer = io.answer(key, context.waker());
                if answer.is_ready() {
                    self.stage = Stage::Over;
                }
                answer
            }
            Stage::Over => panic!("a request is awaited once"),
        })
    }
}

impl Drop for Requested {
    fn drop(&mut self) {
        if let Stage::Flying { key, home } = self.stage {
            release(home, move |io| io.abandon(key));
        }
    }
}
