//! How a request determines the form of its response.

use crate::request::head::Request;
use crate::request::line::Method;
use crate::version::Version;

/// The interim response for [`Request::expect_continue`]: send it before reading the body.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// Properties of a request that determine the form of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reply {
    /// Version of the request.
    pub version: Version,
    /// Whether the connection persists.
    pub keep_alive: bool,
    /// Whether the request was HEAD: the same head without content (RFC 9110, 9.3.2).
    pub head_only: bool,
}

impl Reply {
    /// The form for this request.
    pub fn to(request: &Request<'_>) -> Reply {
        Reply {
            version: request.version,
            keep_alive: request.keep_alive,
            head_only: request.method == Method::Head,
        }
    }

    /// For the last response on a connection: after a [`Reject`](crate::Reject), or when shedding load.
    pub const CLOSE: Reply =
        Reply { version: Version::Http11, keep_alive: false, head_only: false };

    /// For the last response on a connection whose request was rejected before its head was parsed; `bytes`
    /// is its beginning. A response to HEAD has no content, even if the request is invalid (RFC 9110, 9.3.2).
    ///
    /// ```
    /// use phalanx_http::Reply;
    ///
    /// assert!(Reply::to_refused(b"HEAD / HTTP/1.1\r\nX : y\r\n").head_only);
    /// assert!(!Reply::to_refused(b"HEADS / HTTP/1.1\r\n").head_only);
    /// assert_eq!(Reply::to_refused(b"GET"), Reply::CLOSE);
    /// ```
    pub fn to_refused(bytes: &[u8]) -> Reply {
        let line = bytes.iter().position(|byte| !b"\r\n".contains(byte)).unwrap_or(bytes.len());
        Reply { head_only: bytes[line..].starts_with(b"HEAD "), ..Reply::CLOSE }
    }

    /// The same form, for the last response on the connection.
    #[must_use]
    pub fn closing(self) -> Reply {
        Reply { keep_alive: false, ..self }
    }
}
