//! Datagrams that are being sent.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use phalanx::net::{IoTimeout, UdpSocket};

use crate::metrics::QuicMetrics;

/// Datagrams that one connection or one endpoint sends at the same time.
pub const MAX_SENDS: usize = 32;

/// A datagram that the socket does not take for so long is dropped, as the network might.
const TIMEOUT: Duration = Duration::from_secs(1);

type Sending = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// The datagrams that one connection or endpoint is sending.
pub(crate) struct Sends {
    socket: Rc<UdpSocket>,
    metrics: QuicMetrics,
    sending: Vec<Sending>,
}

impl Sends {
    pub(crate) fn new(socket: Rc<UdpSocket>, metrics: QuicMetrics) -> Self {
        Self { socket, metrics, sending: Vec::new() }
    }

    /// The number of datagrams that may be sent now.
    pub(crate) fn room(&self) -> usize {
        MAX_SENDS.saturating_sub(self.sending.len())
    }

    /// Sends `bytes`, divided into datagrams of `segment` bytes. There must be [`room`](Self::room) for them.
    pub(crate) fn send(
        &mut self,
        context: &mut Context<'_>,
        bytes: Vec<u8>,
        to: SocketAddr,
        segment: Option<usize>,
    ) {
        let mut bytes = Bytes::from(bytes);
        let segment = segment.unwrap_or(bytes.len()).max(1);
        while !bytes.is_empty() {
            let datagram = bytes.split_to(segment.min(bytes.len()));
            let socket = self.socket.clone();
            let limit = IoTimeout::after(TIMEOUT);
            let mut sending: Sending =
                Box::pin(async move { socket.send_to(datagram, to, limit).await });
            match sending.as_mut().poll(context) {
                Poll::Ready(sent) => self.count(&sent),
                Poll::Pending => self.sending.push(sending),
            }
        }
    }

    /// Forgets the datagrams that were sent. An error is a loss: QUIC repeats what is needed.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) {
        let mut at = 0;
        while at < self.sending.len() {
            match self.sending[at].as_mut().poll(context) {
                Poll::Ready(sent) => {
                    self.count(&sent);
                    drop(self.sending.swap_remove(at));
                }
                Poll::Pending => at += 1,
            }
        }
    }

    /// Whether everything was sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.sending.is_empty()
    }

    fn count(&self, sent: &io::Result<()>) {
        let QuicMetrics { sent: good, failed_sends, .. } = &self.metrics;
        if sent.is_ok() { good } else { failed_sends }.add(1);
    }
}
