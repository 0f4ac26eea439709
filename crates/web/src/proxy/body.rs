//! The body of a request, as it arrives from the client.

use std::io;
use std::rc::Rc;

use phalanx::net::IoTimeout;
use phalanx_http::{Discard, Limits, Reject, Status};
use phalanx_tls::Wire;

use crate::proxy::job::Job;

/// The body of a request.
pub(crate) enum RequestBody {
    None,
    /// On an HTTP/1.1 connection.
    Connection(ConnectionBody),
}

/// Why a body cannot be read.
pub(super) enum BodyError {
    /// The client gets this response.
    Refused(Status),
    /// The client has disconnected.
    Gone,
}

/// A body on an HTTP/1.1 connection.
pub(crate) struct ConnectionBody {
    pub(crate) transport: Rc<Wire>,
    /// Received bytes; those before `taken` were processed.
    pub(crate) input: Vec<u8>,
    pub(crate) taken: usize,
    parser: Discard,
}

impl ConnectionBody {
    /// The body of `job`, which begins in `input` at `taken`.
    ///
    /// # Errors
    /// If the declared length is larger than the limit.
    pub(crate) fn new(
        transport: Rc<Wire>,
        input: Vec<u8>,
        taken: usize,
        job: &Job,
        limits: &Limits,
    ) -> Result<Self, Reject> {
        let limits = Limits { body: job.group.rule.max_body, ..*limits };
        let parser = Discard::new(job.body, &limits)?;
        Ok(Self { transport, input, taken, parser })
    }

    async fn next(&mut self, out: &mut Vec<u8>, timeout: IoTimeout) -> Result<(), BodyError> {
        loop {
            let copied = self.parser.copy(&self.input[self.taken..], out);
            self.taken += copied.map_err(|reject| BodyError::Refused(reject.status))?;
            if !out.is_empty() || self.parser.is_done() {
                return Ok(());
            }
            self.input.clear();
            self.taken = 0;
            match self.transport.read(&mut self.input, timeout).await {
                Ok(1..) => (),
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    return Err(BodyError::Refused(Status::RequestTimeout));
                }
                _ => return Err(BodyError::Gone),
            }
        }
    }
}

impl RequestBody {
    /// Whether all of the body was read.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::None => true,
            Self::Connection(body) => body.parser.is_done(),
        }
    }

    /// Appends the next piece of the content to `out`, which is empty. It stays empty at the end.
    pub(super) async fn next(
        &mut self,
        out: &mut Vec<u8>,
        timeout: IoTimeout,
    ) -> Result<(), BodyError> {
        match self {
            Self::None => Ok(()),
            Self::Connection(body) => body.next(out, timeout).await,
        }
    }

    /// Sends 100 (Continue), unless the client has begun to send.
    pub(super) async fn invite(&mut self, timeout: IoTimeout) -> io::Result<()> {
        match self {
            Self::Connection(body) if body.taken == body.input.len() && !body.parser.is_done() => {
                body.transport.write(phalanx_http::CONTINUE.to_vec(), timeout).await.map(drop)
            }
            Self::Connection(_) | Self::None => Ok(()),
        }
    }
}
