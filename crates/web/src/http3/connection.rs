//! An HTTP/3 connection: serves until the client leaves, is idle for too long or misbehaves, or the program shuts down.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Poll};

use phalanx::shutdown::draining;
use phalanx::time::now;
use phalanx_http2::Excess;
use phalanx_http3::{Code, Error};
use phalanx_quic::{Connection, Driven, Event, ReceivedFrames};

use crate::config::Timeouts;
use crate::floods::Floods;
use crate::http3::control::Control;
use crate::http3::lifetime::{Lifetime, Phase, Requests};
use crate::http3::outgoing::SharedFlood;
use crate::http3::stream::Streams;
use crate::metrics::{HttpMetrics, Refused};
use crate::site::CurrentSite;
use crate::socket::peer::Peer;
use crate::stages::Stages;

/// Starts a separate operation that serves a connection with HTTP/3.
pub(crate) fn dispatch(connection: Connection, stages: Stages, current: CurrentSite, peer: Peer) {
    let site = current.clone();
    let serve = move |_| serve(connection, stages, current, peer);
    // If the operation limit is reached, the connection ends, and the client's handshake times out.
    if stages.streams.dispatch(serve).is_err() {
        site.load().metrics.refused(Refused::MaxOperations);
    }
}

/// Serves until the connection ends.
async fn serve(connection: Connection, stages: Stages, current: CurrentSite, peer: Peer) {
    let site = current.load();
    let address = connection.remote_address().ip().to_canonical();
    let flood = SharedFlood::default();
    let mut driver = Driver {
        connection,
        control: Control::default(),
        flood: flood.clone(),
        excess: None,
        next: 0,
        refused: None,
        lifetime: Lifetime::new(&site.timeouts),
        timeouts: site.timeouts,
        max_head: site.limits.head,
        metrics: site.metrics.clone(),
        floods: site.http3_floods.clone(),
        streams: Streams::new((stages, current, site), peer, address, flood),
    };
    let mut draining = pin!(draining());
    let mut is_draining = false;
    poll_fn(|context| {
        if !is_draining && draining.as_mut().poll(context).is_ready() {
            is_draining = true;
            driver.leave();
        }
        // A shutdown does not wait for lost datagrams to be sent again.
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
    flood: SharedFlood,
    /// The limit that the client has exceeded.
    excess: Option<Excess>,
    /// The timeouts of the configuration that was current when the connection began.
    timeouts: Timeouts,
    max_head: usize,
    metrics: HttpMetrics,
    floods: Floods,
    /// Number of the next request's stream.
    next: u64,
    /// After GOAWAY, the number of the first stream that is refused.
    refused: Option<u64>,
    lifetime: Lifetime,
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
            self.check_flood();
            self.control.flush(context);
            self.streams.poll_tails(context);
            let answered = self.streams.take_answered();
            // Not only with complete heads: when one is complete, there may be no further turn.
            let Requests { begun, headless, .. } = self.streams.requests();
            self.connection.keep_alive(begun + headless > 0);
            let driven = self.connection.poll_drive(context);
            answered.sent(self.metrics.latency());
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
                    self.lifetime.restart();
                    self.control.begin(&mut self.connection, self.max_head);
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
                Event::PeerOpened(stream) => {
                    self.control.open(stream, &mut self.flood.borrow_mut())?;
                }
                Event::PeerReadable(id) => {
                    self.control.read(id, &mut self.flood.borrow_mut())?;
                }
                // RFC 9114 §6.2.1.
                Event::OwnStopped => return Err(Error::Connection(Code::CLOSED_CRITICAL_STREAM)),
            }
        }
        Ok(any)
    }

    /// Counts the received frames of QUIC, and ends the connection if the client has exceeded a limit.
    fn check_flood(&mut self) {
        let ReceivedFrames { resets, idle, .. } = self.connection.received();
        let count = |frames| u32::try_from(frames).unwrap_or(u32::MAX);
        let mut flood = self.flood.borrow_mut();
        flood.at(now());
        flood.costly(count(resets), Excess::Resets);
        flood.idle(count(idle));
        if self.excess.is_none()
            && let Some(excess) = flood.excess()
        {
            self.excess = Some(excess);
            self.floods.count(excess);
            self.connection.close(Code::EXCESSIVE_LOAD.into());
        }
    }

    /// Starts a graceful shutdown.
    fn leave(&mut self) {
        if self.connection.is_handshaking() {
            return self.connection.close(Code::NO_ERROR.into());
        }
        self.lifetime.restart();
        self.refused = Some(self.next);
        // The identifier of a client's stream in both directions (RFC 9000 §2.1).
        self.control.goaway(self.next << 2);
    }

    /// Whether a connection without requests has reached its time limit.
    fn has_expired(&mut self, context: &mut Context<'_>) -> bool {
        if self.connection.is_closed() {
            return false;
        }
        let phase = match self.refused {
            Some(_) => Phase::Leaving,
            None if self.connection.is_handshaking() => Phase::Handshake,
            None => Phase::Open,
        };
        let requests = (self.streams.requests(), self.connection.unacknowledged());
        self.lifetime.poll_end(phase, requests, &self.timeouts, context).is_ready()
    }
}
