//! The streams of a connection that carry no request (RFC 9114 §6.2).

use std::task::{Context, Poll};

use phalanx_http2::Flood;
use phalanx_http3::{Code, Error, Peer, PeerStream, encoder};
use phalanx_quic::{Connection, ReceiveStream, SendStream};

/// Bytes that one read takes from a stream.
const MAX_READ_BYTES: usize = 4096;

/// The control streams of both sides, and the client's streams for header compression.
#[derive(Default)]
pub(super) struct Control {
    own: Option<SendStream>,
    /// Unsent bytes of the server's control stream.
    queue: Vec<u8>,
    peer: Peer,
    /// The client's streams; QUIC bounds their number.
    streams: Vec<(ReceiveStream, PeerStream)>,
}

impl Control {
    /// Opens the server's control stream.
    pub(super) fn begin(&mut self, connection: &mut Connection, max_head: usize) {
        self.own = connection.open();
        encoder::control_stream(&mut self.queue, max_head);
    }

    /// Announces that requests from the stream `first` on are not processed.
    pub(super) fn goaway(&mut self, first: u64) {
        encoder::goaway(&mut self.queue, first);
    }

    /// Sends the queue, as far as the client's window permits. Discards the queue if the client permits no control
    /// stream.
    pub(super) fn flush(&mut self, context: &mut Context<'_>) {
        let Some(own) = &mut self.own else { return self.queue.clear() };
        while !self.queue.is_empty() {
            match own.poll_write(context, &self.queue) {
                Poll::Ready(Ok(sent)) => drop(self.queue.drain(..sent)),
                // The connection has ended.
                Poll::Ready(Err(_)) => self.queue.clear(),
                Poll::Pending => return,
            }
        }
    }

    /// Reads a stream that the client has opened.
    ///
    /// # Errors
    /// If the client violates the protocol.
    pub(super) fn open(
        &mut self,
        mut stream: ReceiveStream,
        flood: &mut Flood,
    ) -> Result<(), Error> {
        stream.set_stop_code(Code::STREAM_CREATION_ERROR.into());
        let id = stream.id();
        self.streams.push((stream, PeerStream::default()));
        self.read(id, flood)
    }

    /// Reads a stream of the client that has data.
    ///
    /// # Errors
    /// If the client violates the protocol.
    pub(super) fn read(&mut self, id: u64, flood: &mut Flood) -> Result<(), Error> {
        let place = self.streams.iter().position(|(stream, _)| stream.id() == id);
        // A stream of unknown type, whose rest was refused.
        let Some(place) = place else { return Ok(()) };
        let (stream, receiver) = &mut self.streams[place];
        let is_needed = loop {
            match stream.try_read(MAX_READ_BYTES) {
                None => break true,
                Some(Ok(Some(bytes))) if receiver.receive(&mut self.peer, &bytes, flood)? => (),
                Some(Ok(Some(_))) => break false,
                Some(Ok(None) | Err(_)) => {
                    receiver.finish()?;
                    break false;
                }
            }
        };
        if !is_needed {
            self.streams.swap_remove(place);
        }
        Ok(())
    }
}
