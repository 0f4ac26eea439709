//! An HTTP/3 connection: serves until the client leaves, is idle for too long or misbehaves, or the program shuts down.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::shutdown::draining;
use phalanx::time::{Deadline, now};
use phalanx_http3::{Code, Error};
use phalanx_quic::{Connection, Driven, Event};

use crate::http3::control::Control;
use crate::http3::stream::Streams;
use crate::site::{CurrentSite, Site};
use crate::socket::peer::Peer;
use crate::stages::Stages;

/// Time for requests that the client sends before it receives GOAWAY, and for the client to close the connection.
const GOAWAY_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves a connection with HTTP/3, as an operation of its own.
pub(crate) fn dispatch(connection: Connection, stages: Stages, current: CurrentSite, peer: Peer) {
    let serve = move |_| serve(connection, stages, current, peer);
    // If the operation limit is reached, the connection ends, and the client's handshake times out.
    let _ = stages.http2.dispatch(serve);
}

/// Serves until the connection ends.
async fn serve(connection: Connection, stages: Stages, current: CurrentSite, peer: Peer) {
    let site = current.load();
    let address = connection.remote_address().ip().to_canonical();
    let mut driver = Driver {
        connection,
        control: Control::default(),
        streams: Streams::new((stages, current, site.clone()), peer, address),
        next: 0,
        refused: None,
        had_streams: false,
        active: now(),
        timer: Deadline::new(now() + site.timeouts.handshake),
        site,
    };
    let mut draining = pin!(draining());
    let mut is_draining = false;
    poll_fn(|context| {
        if !is_draining && draining.as_mut().poll(context).is_ready() {
            is_draining = true;
            driver.leave();
        }
        // The program does not wait until lost datagrams were repeated.
        let is_over = |driver: &Driver| is_draining && driver.connection.has_sent_close();
        match driver.poll(context) {
            Poll::Pending if !is_over(&driver) => Poll::Pending,
            _ => Poll::Ready(()),
        }
    })
    .await;
}

/// Moves events between the connection, the protocol and the requests.
struct Driver {
    connection: Connection,
    control: Control,
    streams: Streams,
    site: Arc<Site>,
    /// The number of the next request's stream.
    next: u64,
    /// After GOAWAY, the number of the first stream that is refused.
    refused: Option<u64>,
    /// There were requests at the previous turn.
    had_streams: bool,
    /// The last turn with a request.
    active: Duration,
    timer: Deadline,
}

impl Driver {
    /// One turn: processes events, sends, and checks the time limits. Ready once the connection has ended.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match self.process() {
                Ok(false) => (),
                // The pending output does not answer the requests. It is sent with the responses of those that are
                // answered in this turn of the processor.
                Ok(true) => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Err(error) => self.connection.close(error.code().into()),
            }
            self.control.flush(context);
            self.streams.poll_tails(context);
            let answered = self.streams.take_answered();
            let driven = self.connection.poll_drive(context);
            answered.sent(self.site.metrics.latency());
            match driven {
                Poll::Ready(Driven::Events) => continue,
                Poll::Ready(Driven::Ended) => return Poll::Ready(()),
                Poll::Pending => (),
            }
            if !self.has_expired(context) {
                return Poll::Pending;
            }
            if self.connection.is_handshaking() {
                return Poll::Ready(());
            }
            self.connection.close(Code::NO_ERROR.into());
        }
    }

    /// Processes all events. Returns whether requests have begun.
    fn process(&mut self) -> Result<bool, Error> {
        let mut any = false;
        while let Some(event) = self.connection.next_event() {
            match event {
                Event::Connected => {
                    self.active = now();
                    self.control.begin(&self.connection, self.site.limits.head);
                }
                Event::Opened(number, receive, send) => {
                    self.next = number + 1;
                    match self.refused {
                        Some(first) if number >= first => self.streams.refuse(receive, send),
                        _ => {
                            self.streams.accept(receive, send);
                            any = true;
                        }
                    }
                }
                Event::PeerOpened(stream) => self.control.open(stream)?,
                Event::PeerReadable(id) => self.control.read(id)?,
            }
        }
        Ok(any)
    }

    /// Starts a graceful shutdown.
    fn leave(&mut self) {
        if self.connection.is_handshaking() {
            return self.connection.close(Code::NO_ERROR.into());
        }
        self.active = now();
        self.refused = Some(self.next);
        // The identifier of a client's stream in both directions (RFC 9000 §2.1).
        self.control.goaway(self.next << 2);
    }

    /// Whether a connection without requests has reached its time limit.
    fn has_expired(&mut self, context: &mut Context<'_>) -> bool {
        if self.connection.is_closed() {
            return false;
        }
        let has_streams = self.streams.open() > 0;
        if std::mem::replace(&mut self.had_streams, has_streams) || has_streams {
            self.active = now();
        }
        if has_streams {
            return false;
        }
        let timeouts = &self.site.timeouts;
        let end = self.active
            + match (self.refused.is_some(), self.connection.is_handshaking()) {
                (true, _) => GOAWAY_TIMEOUT,
                (false, true) => timeouts.handshake,
                (false, false) => timeouts.idle,
            };
        self.timer.poll(end, context).is_ready()
    }
}
