//! An HTTP/2 connection: serves until the client leaves, is idle for too long or misbehaves, or the program
//! shuts down.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::net::IoTimeout;
use phalanx::shutdown::draining;
use phalanx::time::{Deadline, now};
use phalanx_http2::{Connection, Limits};
use phalanx_tls::Wire;

use crate::http2::SharedConnection;
use crate::http2::io::Io;
use crate::http2::stream::{Streams, accept};
use crate::metrics::Refused;
use crate::site::CurrentSite;
use crate::socket::peer::Peer;
use crate::stages::Stages;

/// Concurrent requests per connection.
const MAX_CONCURRENT_STREAMS: u32 = 128;
/// Bytes of pending output above which no more input is processed, so that a client that does not read its responses
/// cannot request more.
const MAX_OUTPUT_BYTES: usize = 64 * 1024;
/// Time for the client to close the connection after GOAWAY.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts a separate operation that serves a connection with HTTP/2. `early` contains bytes already received.
pub(crate) fn dispatch(
    transport: Rc<Wire>,
    stages: Stages,
    current: CurrentSite,
    peer: Peer,
    early: Vec<u8>,
) {
    let site = current.clone();
    let serve = move |_| serve(transport, stages, current, peer, early);
    // If the operation limit is reached, the connection closes.
    if stages.streams.dispatch(serve).is_err() {
        site.load().metrics.refused(Refused::MaxOperations);
    }
}

/// Serves until the connection ends.
async fn serve(
    transport: Rc<Wire>,
    stages: Stages,
    current: CurrentSite,
    peer: Peer,
    early: Vec<u8>,
) {
    let site = current.load();
    let (timeouts, floods) = (site.timeouts, site.floods.clone());
    let (head, body) = (site.limits.head, site.limits.body);
    let limits = Limits { streams: MAX_CONCURRENT_STREAMS, head, body };
    let connection = Rc::new(RefCell::new(Connection::new(limits)));
    let streams = Streams::new(
        connection.clone(),
        (stages, current, site),
        peer,
        MAX_CONCURRENT_STREAMS as usize,
        &transport,
    );
    let mut driver = Driver {
        io: Io::new(transport, stages, IoTimeout::after(timeouts.send), streams.answered()),
        connection,
        streams,
        input: early,
        is_leaving: false,
        had_streams: false,
        active: now(),
        limits: (timeouts.request, timeouts.idle),
        timer: Deadline::new(now() + timeouts.request),
    };
    driver.accept();
    let mut draining = pin!(draining());
    let ended = poll_fn(|context| {
        if !driver.is_leaving && draining.as_mut().poll(context).is_ready() {
            driver.leave();
        }
        driver.poll(context)
    });
    let ended = ended.await;
    if let Some(excess) = driver.connection.borrow().excess() {
        floods.count(excess);
    }
    match ended {
        Ended::Ours => {
            driver.io.finish().await;
            // The client may still be sending; closing now would reset the connection before it has read the last
            // frames.
            driver.io.linger().await;
        }
        // Its requests are cancelled.
        Ended::Theirs => driver.connection.borrow_mut().disconnect(),
    }
}

/// How a connection has ended.
enum Ended {
    /// The server has sent its last frame.
    Ours,
    /// The client has disconnected, or has not closed the connection in time.
    Theirs,
}

/// Moves bytes between the socket, the protocol and the requests.
struct Driver {
    io: Io,
    connection: SharedConnection,
    streams: Streams,
    /// Received bytes that are not processed: the beginning of a frame.
    input: Vec<u8>,
    /// Whether a graceful shutdown has begun.
    is_leaving: bool,
    /// Whether there were streams at the previous turn.
    had_streams: bool,
    /// The last turn with a stream.
    active: Duration,
    /// Time limits for the client's settings, and for an idle connection.
    limits: (Duration, Duration),
    timer: Deadline,
}

impl Driver {
    /// One turn: processes input, sends output, and checks the time limits.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Ended> {
        loop {
            let mut accepted = false;
            while self.connection.borrow().output_len() < MAX_OUTPUT_BYTES {
                match self.io.poll_read(context, &mut self.input) {
                    Poll::Ready(Ok(1..)) => accepted |= self.accept(),
                    Poll::Ready(_) => return Poll::Ready(Ended::Theirs),
                    Poll::Pending => break,
                }
            }
            if accepted && self.connection.borrow().output_len() > 0 {
                // The pending output contains no responses to these requests. Send it together with the responses that
                // are ready in this turn of the processor.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            match self.io.poll_write(context, &self.connection) {
                Poll::Ready(Ok(())) if self.connection.borrow().has_ended() => {
                    return Poll::Ready(Ended::Ours);
                }
                Poll::Ready(Ok(())) => {
                    // Nothing is left to send. Register to be woken when a stream has output.
                    let _ = self.connection.borrow_mut().poll_output(context);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(Ended::Theirs),
                Poll::Pending => (),
            }
            if !self.has_expired(context) {
                return Poll::Pending;
            }
            if self.is_leaving || !self.connection.borrow().has_started() {
                return Poll::Ready(Ended::Theirs);
            }
            self.leave();
        }
    }

    /// Starts the requests in the input. Returns whether there are any.
    fn accept(&mut self) -> bool {
        let (mut taken, mut any) = (0, false);
        loop {
            let mut connection = self.connection.borrow_mut();
            let next = connection.next_request(&self.input, &mut taken, now());
            drop(connection);
            let Some(request) = next else { break };
            accept(&mut self.streams, request);
            // A reload may have changed the limit.
            self.connection.borrow_mut().set_body_limit(self.streams.body_limit());
            any = true;
        }
        self.input.drain(..taken);
        if any {
            // A reload may have changed the timeouts.
            let timeouts = self.streams.timeouts();
            self.io.set_timeout(IoTimeout::after(timeouts.send));
            self.limits = (timeouts.request, timeouts.idle);
        }
        any
    }

    /// Starts a graceful shutdown.
    fn leave(&mut self) {
        self.is_leaving = true;
        self.active = now();
        self.connection.borrow_mut().shut_down();
    }

    /// Whether a connection without streams has reached its time limit.
    fn has_expired(&mut self, context: &mut Context<'_>) -> bool {
        let (has_streams, has_started) = {
            let connection = self.connection.borrow();
            (connection.has_streams(), connection.has_started())
        };
        if std::mem::replace(&mut self.had_streams, has_streams) || has_streams {
            self.active = now();
        }
        if has_streams {
            return false;
        }
        let end = self.active
            + match (self.is_leaving, has_started) {
                (true, _) => GOAWAY_TIMEOUT,
                (false, false) => self.limits.0,
                (false, true) => self.limits.1,
            };
        self.timer.poll(end, context).is_ready()
    }
}
