//! Message body framing (RFC 9112, 6).

use crate::reject::Reject;
use crate::status::Status;
use crate::syntax::bytes::{elements, exact_number};
use crate::version::Version;

/// Body that follows a request's head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// None: the next byte starts the next request.
    None,
    /// This many bytes, at least one.
    Length(u64),
    /// Chunks (RFC 9112, 7.1).
    Chunked,
}

/// Framing fields seen so far.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Framing {
    length: Option<u64>,
    coded: bool,
    chunked: bool,
}

impl Framing {
    /// Processes a `Content-Length` line. A repeated equal value is allowed (6.3); anything else that is not
    /// a plain decimal number is rejected.
    pub(crate) fn content_length(&mut self, value: &[u8]) -> Result<(), Reject> {
        for element in value.split(|&byte| byte == b',') {
            let number = exact_number(crate::syntax::bytes::trim(element))
                .ok_or(Reject::bad("invalid Content-Length"))?;
            if self.length.is_some_and(|length| length != number) {
                return Err(Reject::bad("two different Content-Lengths"));
            }
            self.length = Some(number);
        }
        Ok(())
    }

    /// Processes a `Transfer-Encoding` line. Only a single `chunked` is supported (6.1, 7).
    pub(crate) fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Reject> {
        self.coded = true;
        for coding in elements(value) {
            if self.chunked {
                return Err(Reject::bad("chunked is not the last transfer coding"));
            }
            if !coding.eq_ignore_ascii_case(b"chunked") {
                return Err(Reject::new(Status::NotImplemented, "unknown transfer coding"));
            }
            self.chunked = true;
        }
        Ok(())
    }

    /// The framing, once all fields were processed.
    pub(crate) fn body(self, version: Version) -> Result<Body, Reject> {
        match (self.coded, self.length) {
            (false, None | Some(0)) => Ok(Body::None),
            (false, Some(length)) => Ok(Body::Length(length)),
            // Request smuggling: two recipients find different ends (6.1, 11.2).
            (true, Some(_)) => Err(Reject::bad("both Content-Length and Transfer-Encoding")),
            // An intermediary with HTTP/1.0 may have forwarded a field that it does not support (6.1).
            (true, None) if version == Version::Http10 => {
                Err(Reject::bad("Transfer-Encoding in HTTP/1.0"))
            }
            (true, None) if !self.chunked => Err(Reject::bad("empty Transfer-Encoding")),
            (true, None) => Ok(Body::Chunked),
        }
    }
}
