//! The response writer: small responses are gathered while more requests are pending.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use phalanx::net::{Bytes, Payload};
use phalanx::task::Either;
use phalanx::time::now;
use phalanx::{select, timeout};
use phalanx_http::ResponseBuffer;
use phalanx_http2::encoder;
use phalanx_tls::Wire;

use crate::auth::credentials::Credentials;
use crate::config::Timeouts;
use crate::log::AccessRecorder;
use crate::metrics::{CLIENT_CLOSED, HttpMetrics};
use crate::respond::pace::{Pace, Step};
use crate::site::Place;
use crate::socket::buffers;
use crate::socket::disconnected::disconnected;
use crate::socket::network::send;
use crate::stages::Stages;

/// Gathered bytes that trigger a send.
const FLUSH_THRESHOLD: usize = 64 * 1024;

/// An HTTP/2 or HTTP/3 stream, which receives one response.
pub(crate) trait ResponseStream {
    /// Whether the connection uses TLS.
    fn is_tls(&self) -> bool;

    /// Sets whether processing of the request has begun. Dropping the response before that tells the client that it may
    /// repeat the request.
    fn set_begun(&mut self, has_begun: bool);

    /// Starts the response. `block` is the field block of its head; `content` is the length of its content, if
    /// that is known.
    ///
    /// # Errors
    /// If the stream has ended.
    fn start(&mut self, block: &[u8], content: Option<u64>) -> io::Result<()>;

    /// Sends content as far as the client's windows permit. Returns the number of bytes, at least one. Pending if
    /// nothing can be sent.
    ///
    /// # Errors
    /// If the stream has ended, or if there is more content than [`start`](Self::start) declared.
    fn poll_send(&mut self, content: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>>;

    /// Sets the trailer section that follows the content; `block` is its field block. The last bytes of the content
    /// must not have been sent yet, unless its length is unknown.
    fn set_trailers(&mut self, block: Vec<u8>);

    /// Waits until the client has reset the stream, or the connection has ended.
    fn poll_closed(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Ends the response. After an error, or if the content is not complete, the stream is reset.
    fn end(&mut self, result: io::Result<()>);
}

/// Destination of responses.
pub(super) enum Destination {
    /// An HTTP/1.1 connection, one response after another.
    Connection(Rc<Wire>),
    /// One HTTP/2 or HTTP/3 stream.
    Stream(Box<dyn ResponseStream>),
}

/// Writes and sends the responses of a connection or of a stream.
pub(crate) struct ResponseWriter {
    pub(super) destination: Destination,
    pub(super) stages: Stages,
    pub(crate) pace: Pace,
    /// Responses to send, with the status and the length of the latest.
    pub(crate) buffer: ResponseBuffer,
    /// Whether the head of a stream's response was sent.
    is_started: bool,
    /// The announcement of HTTP/3.
    pub(crate) alt_svc: Place,
    /// Authenticated user, if requests are logged.
    pub(super) user: Option<Box<Credentials>>,
    /// Address of the client of the current request, if rules about addresses or passwords need it.
    pub(crate) client: Option<Box<IpAddr>>,
}

impl ResponseWriter {
    /// A writer for an HTTP/1.1 connection.
    pub(crate) fn connection(transport: Rc<Wire>, stages: Stages, timeouts: &Timeouts) -> Self {
        Self::new(
            Destination::Connection(transport),
            stages,
            timeouts,
            ResponseBuffer::lines(Vec::new()),
        )
    }

    /// A writer for the response of a stream. The buffer uses `memory`.
    pub(crate) fn stream(
        stream: Box<dyn ResponseStream>,
        stages: Stages,
        timeouts: &Timeouts,
        memory: Vec<u8>,
    ) -> Self {
        Self::new(Destination::Stream(stream), stages, timeouts, ResponseBuffer::block(memory))
    }

    fn new(
        destination: Destination,
        stages: Stages,
        timeouts: &Timeouts,
        buffer: ResponseBuffer,
    ) -> Self {
        let (pace, alt_svc) = (Pace::new(timeouts), Place::default());
        Self {
            destination,
            stages,
            pace,
            buffer,
            is_started: false,
            alt_svc,
            user: None,
            client: None,
        }
    }

    /// Whether responses are sent over TLS.
    #[inline]
    pub(crate) fn is_tls(&self) -> bool {
        match &self.destination {
            Destination::Connection(transport) => transport.is_tls(),
            Destination::Stream(stream) => stream.is_tls(),
        }
    }

    /// Sets whether an operation has begun with a stream's request ([`ResponseStream::set_begun`]).
    pub(crate) fn set_begun(&mut self, has_begun: bool) {
        if let Destination::Stream(stream) = &mut self.destination {
            stream.set_begun(has_begun);
        }
    }

    /// Sets the trailer section of a stream's response ([`ResponseStream::set_trailers`]). Those of HTTP/1.1 responses
    /// are dropped, because few clients read them.
    pub(crate) fn set_trailers<'a>(&mut self, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
        if let Destination::Stream(stream) = &mut self.destination {
            let mut block = Vec::new();
            fields.for_each(|(name, value)| encoder::field(&mut block, name, value));
            if !block.is_empty() {
                stream.set_trailers(block);
            }
        }
    }

    /// Waits for `work`, which may take long, before the response begins.
    ///
    /// # Errors
    /// If the client disconnects or resets its stream first; `work` is dropped.
    pub(super) async fn unless_disconnected<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> io::Result<T> {
        let left = async {
            match &mut self.destination {
                Destination::Connection(transport) => disconnected(transport).await,
                Destination::Stream(stream) => poll_fn(|context| stream.poll_closed(context)).await,
            }
        };
        match select(pin!(work), pin!(left)).await {
            Either::Left(done) => Ok(done),
            Either::Right(()) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Counts the latest response, and records it if requests are logged. If there is no response, the client has
    /// disconnected.
    pub(crate) fn log(&mut self, recorder: Option<&mut AccessRecorder>, metrics: &HttpMetrics) {
        let status = match self.buffer.status() {
            0 => CLIENT_CLOSED,
            status => status,
        };
        self.log_as(status, recorder, metrics);
    }

    /// Like [`log`](Self::log), with this status.
    pub(crate) fn log_as(
        &mut self,
        status: u16,
        recorder: Option<&mut AccessRecorder>,
        metrics: &HttpMetrics,
    ) {
        metrics.response(status, self.buffer.content_bytes());
        if let Some(recorder) = recorder {
            let user = self.user.take();
            let user = user.as_ref().map(|user| user.name());
            recorder.finish(user, status, self.buffer.content_bytes());
        }
    }

    /// Sends the gathered bytes.
    pub(crate) async fn send(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.send_with(Bytes::new()).await }
    }

    /// Sends the gathered bytes of a connection that is then closed. The last bytes are sent in one segment with the
    /// end of the stream, which saves a segment.
    pub(crate) async fn send_last(&mut self) -> io::Result<()> {
        if let Destination::Connection(transport) = &self.destination
            && let Wire::Plain(stream) = &**transport
            && !self.buffer.is_empty()
        {
            // This fails only if the connection has ended; the write then reports it.
            drop(stream.set_cork(true));
        }
        self.send().await?;
        buffers::recycle(self.buffer.take());
        Ok(())
    }

    /// Sends the gathered bytes if they exceed [`FLUSH_THRESHOLD`].
    pub(crate) async fn send_if_full(&mut self) -> io::Result<()> {
        if self.buffer.bytes().len() >= FLUSH_THRESHOLD { self.send().await } else { Ok(()) }
    }

    /// Sends the head of a stream's response, and as much of its `content` as the client's windows permit now. Returns
    /// the number of bytes sent; zero if other bytes are gathered.
    pub(super) fn send_now(
        &mut self,
        content: &[u8],
        context: &mut Context<'_>,
    ) -> io::Result<usize> {
        let Destination::Stream(stream) = &mut self.destination else { return Ok(0) };
        if self.is_started || self.buffer.bytes().len() > self.buffer.head_length() {
            return Ok(0);
        }
        self.is_started = true;
        stream.start(self.buffer.bytes(), self.buffer.declared())?;
        self.buffer.clear();
        let sent = match stream.poll_send(content, context) {
            Poll::Ready(sent) => sent?,
            Poll::Pending => 0,
        };
        self.pace.record(sent as u64, Duration::ZERO);
        self.buffer.count(sent as u64);
        Ok(sent)
    }

    /// Sends the gathered bytes followed by `content`.
    pub(super) async fn send_with(&mut self, content: Bytes) -> io::Result<()> {
        let of_content = content.len() as u64;
        match &mut self.destination {
            Destination::Connection(transport) => {
                let length = self.buffer.bytes().len() as u64 + of_content;
                let (begun, limit) = (now(), self.pace.timeout(length));
                let payload = Payload { head: self.buffer.take(), body: content };
                let memory = send(self.stages, transport, payload, limit).await?;
                self.buffer.reuse(memory);
                self.pace.record(length, now() - begun);
            }
            Destination::Stream(stream) => {
                let mut head = 0;
                if !self.is_started {
                    self.is_started = true;
                    head = self.buffer.head_length();
                    stream.start(&self.buffer.bytes()[..head], self.buffer.declared())?;
                }
                let mut step = Step::default();
                for bytes in [&self.buffer.bytes()[head..], &content] {
                    let mut rest = bytes;
                    while !rest.is_empty() {
                        // The windows are nearly always open; then no timer is needed.
                        let (sent, waited) =
                            match poll_fn(|cx| Poll::Ready(stream.poll_send(rest, cx))).await {
                                Poll::Ready(sent) => (sent?, Duration::ZERO),
                                // Boxed, so that HTTP/1.1 connections do not reserve its memory.
                                Poll::Pending => {
                                    let limit = self.pace.stream_timeout(&step, rest.len() as u64);
                                    Box::pin(wait_and_send(&mut **stream, rest, limit)).await?
                                }
                            };
                        step.record(sent as u64, waited);
                        self.pace.record(sent as u64, waited);
                        rest = &rest[sent..];
                    }
                }
                self.buffer.clear();
            }
        }
        self.buffer.count(of_content);
        Ok(())
    }

    /// Ends the response of a stream, which is completely written unless `result` is an error. Returns the buffer's
    /// memory for reuse.
    pub(crate) async fn end(mut self, result: io::Result<()>) -> Vec<u8> {
        let sent = match result {
            Ok(()) => self.send().await,
            Err(error) => Err(error),
        };
        if let Destination::Stream(stream) = &mut self.destination {
            stream.end(sent);
        }
        self.buffer.take()
    }
}

/// Sends the start of `content` when the client's windows permit it. Returns the number of bytes and the time spent
/// waiting for the client.
///
/// # Errors
/// If the wait exceeds `limit`, or if the stream has ended.
async fn wait_and_send(
    stream: &mut dyn ResponseStream,
    content: &[u8],
    limit: Duration,
) -> io::Result<(usize, Duration)> {
    let begun = now();
    let sent = poll_fn(|context| stream.poll_send(content, context));
    let sent =
        timeout(limit, sent).await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    Ok((sent, now() - begun))
}
