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
pub const MAX_SENDS: usize = 64;

/// Time after which a datagram that the socket does not accept is dropped, as the network might drop it.
const TIMEOUT: Duration = Duration::from_secs(1);

type SendFuture = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// The datagrams that one connection or endpoint is sending.
pub(crate) struct SendQueue {
    socket: Rc<UdpSocket>,
    metrics: QuicMetrics,
    /// Each with its number of datagrams.
    sending: Vec<(usize, SendFuture)>,
}

impl SendQueue {
    pub(crate) fn new(socket: Rc<UdpSocket>, metrics: QuicMetrics) -> Self {
        Self { socket, metrics, sending: Vec::new() }
    }

    /// The number of datagrams that may be sent now.
    pub(crate) fn room(&self) -> usize {
        let sending: usize = self.sending.iter().map(|(datagrams, _)| datagrams).sum();
        MAX_SENDS.saturating_sub(sending)
    }

    /// Sends `bytes`, divided into datagrams of `segment` bytes. There must be [`room`](Self::room) for them.
    pub(crate) fn send(
        &mut self,
        context: &mut Context<'_>,
        bytes: Vec<u8>,
        to: SocketAddr,
        segment: Option<usize>,
    ) {
        // QUIC sends no empty datagrams, and none above 65,535 bytes.
        let segment = segment.unwrap_or(bytes.len()).clamp(1, usize::from(u16::MAX)) as u16;
        let (bytes, limit) = (Bytes::from(bytes), IoTimeout::after(TIMEOUT));
        let datagrams = bytes.len().div_ceil(segment.into());
        let socket = self.socket.clone();
        let mut sending: SendFuture =
            Box::pin(async move { socket.send_segments(bytes, segment, to, limit).await });
        match sending.as_mut().poll(context) {
            Poll::Ready(sent) => self.count(datagrams, &sent),
            Poll::Pending => self.sending.push((datagrams, sending)),
        }
    }

    /// Removes the datagrams that were sent. An error is treated as loss; QUIC sends lost data again.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) {
        let mut at = 0;
        while at < self.sending.len() {
            let (datagrams, sending) = &mut self.sending[at];
            let datagrams = *datagrams;
            match sending.as_mut().poll(context) {
                Poll::Ready(sent) => {
                    self.count(datagrams, &sent);
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

    fn count(&self, datagrams: usize, sent: &io::Result<()>) {
        let QuicMetrics { sent: good, failed_sends, .. } = &self.metrics;
        if sent.is_ok() { good } else { failed_sends }.add(datagrams as u64);
    }
}
