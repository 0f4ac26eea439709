//! The datagrams of one socket.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;
use phalanx::net::{DatagramBatch, IoTimeout, Received, UdpSocket};
use phalanx::shutdown::draining;
use phalanx::sleep;
use quinn_proto::{DatagramEvent, Transmit};

use crate::config::Config;
use crate::core::Core;
use crate::incoming::Incoming;
use crate::send_queue::SendQueue;

/// Size of the receive buffer for a datagram. A transport parameter limits the datagrams of clients to 1472 bytes.
const MAX_DATAGRAM_BYTES: usize = 2048;

/// Batches of datagrams that are received before other operations run.
const MAX_BATCHES: usize = 4;

/// Pause after a failed receive.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// A UDP socket that receives the datagrams of connections, and begins new ones.
pub struct Endpoint {
    core: Rc<Core>,
}

impl Endpoint {
    /// The endpoint of `processor`, whose socket is the one with this number in a group of `processors` sockets
    /// ([`phalanx::net::bind_quic`]). New connections begin on active processors.
    ///
    /// # Panics
    /// If there is no such socket in the group.
    pub fn new(socket: UdpSocket, config: &Config, processor: u16, processors: u16) -> Self {
        let endpoint = config.endpoint(processor, processors);
        socket.steer_connections(processors);
        let server = Some(config.server.clone());
        let quic = quinn_proto::Endpoint::new(endpoint, server, false, None);
        Self { core: Rc::new(Core::new(quic, config, socket)) }
    }

    /// Receives datagrams until the program shuts down and the last connection has ended. `accept` decides about each new
    /// connection; while the program shuts down, they are refused.
    pub async fn run(self, accept: impl Fn(Incoming<'_>)) {
        let mut send_queue = self.core.send_queue();
        let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
        let mut batch = DatagramBatch::new(MAX_DATAGRAM_BYTES);
        let mut draining = draining();
        let mut is_draining = false;
        loop {
            let received = {
                let mut receive = pin!(self.core.socket().recv_from(&mut buffer, IoTimeout::NONE));
                let next = poll_fn(|context| {
                    send_queue.poll(context);
                    is_draining = is_draining || pin!(&mut draining).poll(context).is_ready();
                    if is_draining && !self.core.has_connections(context) {
                        return Poll::Ready(None);
                    }
                    receive.as_mut().poll(context).map(Some)
                });
                next.await
            };
            match received {
                None => break,
                // Only after an error of the system, which may persist.
                Some(Err(_)) => sleep(ERROR_PAUSE).await,
                Some(Ok(Received { length, from, truncated })) => {
                    let accept = (!is_draining).then_some(&accept);
                    let first = (!truncated).then(|| &buffer[..length]);
                    self.receive(first, from, accept, &mut send_queue).await;
                    for _ in 0..MAX_BATCHES {
                        // If the error persists, the next receive returns it again.
                        if self.core.socket().try_recv_batch(&mut batch).is_err() {
                            break;
                        }
                        for (datagram, from) in batch.iter() {
                            self.receive(datagram, from, accept, &mut send_queue).await;
                        }
                        if !batch.is_full() {
                            break;
                        }
                    }
                }
            }
        }
    }

    /// Processes a datagram; `None` is a truncated one.
    async fn receive(
        &self,
        datagram: Option<&[u8]>,
        from: SocketAddr,
        accept: Option<&impl Fn(Incoming<'_>)>,
        send_queue: &mut SendQueue,
    ) {
        let core = &self.core;
        core.metrics.received.add(1);
        let Some(datagram) = datagram else { return core.metrics.too_large.add(1) };
        let mut response = Vec::new();
        let bytes = BytesMut::from(datagram);
        let event = core.quic().handle(core.now(), from, None, None, bytes, &mut response);
        let transmit = match event {
            None => return core.metrics.ignored.add(1),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                core.receive(handle, event);
                None
            }
            Some(DatagramEvent::Response(transmit)) => Some(transmit),
            Some(DatagramEvent::NewConnection(incoming)) => {
                Incoming::handle(core, incoming, accept, &mut response)
            }
        };
        let Some(Transmit { destination, size, segment_size, .. }) = transmit else { return };
        response.truncate(size);
        poll_fn(|context| {
            match send_queue.room() {
                0 => core.metrics.dropped_responses.add(1),
                _ => send_queue.send(
                    context,
                    std::mem::take(&mut response),
                    destination,
                    segment_size,
                ),
            }
            Poll::Ready(())
        })
        .await;
    }

    /// The address of the socket.
    ///
    /// # Errors
    /// As `getsockname(2)`.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.core.socket().local_addr()
    }
}
