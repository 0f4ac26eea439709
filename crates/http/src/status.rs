//! Status codes that the server sends, and common ones that it relays (RFC 9110, 15).

use std::fmt;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $code:literal $reason:literal,)*) => {
        /// A response's status code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Status {
            $($(#[$doc])* $name = $code,)*
        }

        impl Status {
            /// All statuses, ordered by code.
            pub const ALL: &'static [Status] = &[$(Status::$name,)*];

            /// The registered reason phrase.
            pub const fn reason(self) -> &'static str {
                match self { $(Status::$name => $reason,)* }
            }

            /// The complete status line with its line end.
            pub(crate) const fn line(self) -> &'static str {
                match self {
                    $(Status::$name => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n"),)*
                }
            }
        }
    };
}

statuses! {
    /// Interim response: the client should send the body (15.2.1).
    Continue = 100 "Continue",
    /// Interim response: the connection changes to the protocol that the client has proposed (15.2.2).
    SwitchingProtocols = 101 "Switching Protocols",
    /// The representation follows (15.3.1).
    Ok = 200 "OK",
    /// A resource was created (15.3.2).
    Created = 201 "Created",
    /// The request is processed later (15.3.3).
    Accepted = 202 "Accepted",
    /// Success without content (15.3.5).
    NoContent = 204 "No Content",
    /// One or several ranges of the representation follow (15.3.7).
    PartialContent = 206 "Partial Content",
    /// The resource has moved permanently; a client may change POST to GET (15.4.2).
    MovedPermanently = 301 "Moved Permanently",
    /// The resource has moved temporarily; a client may change POST to GET (15.4.3).
    Found = 302 "Found",
    /// Another resource answers the request, for GET (15.4.4).
    SeeOther = 303 "See Other",
    /// The client's copy is current (15.4.5).
    NotModified = 304 "Not Modified",
    /// The resource has moved temporarily; the method is kept (15.4.8).
    TemporaryRedirect = 307 "Temporary Redirect",
    /// The resource has moved permanently; the method is kept (15.4.9).
    PermanentRedirect = 308 "Permanent Redirect",
    /// The message violates the syntax or framing rules (15.5.1).
    BadRequest = 400 "Bad Request",
    /// Authentication is required (15.5.2).
    Unauthorized = 401 "Unauthorized",
    /// Access is denied (15.5.4).
    Forbidden = 403 "Forbidden",
    /// The resource does not exist, or its existence is not disclosed (15.5.5).
    NotFound = 404 "Not Found",
    /// The resource does not support the method; `Allow` lists those it supports (15.5.6).
    MethodNotAllowed = 405 "Method Not Allowed",
    /// No representation matches the request's `Accept` fields (15.5.7).
    NotAcceptable = 406 "Not Acceptable",
    /// The request was not completed in time (15.5.9).
    RequestTimeout = 408 "Request Timeout",
    /// The request conflicts with the state of the resource (15.5.10).
    Conflict = 409 "Conflict",
    /// The resource was removed for good (15.5.11).
    Gone = 410 "Gone",
    /// A condition in the request is false (15.5.13).
    PreconditionFailed = 412 "Precondition Failed",
    /// The body exceeds the limit (15.5.14).
    ContentTooLarge = 413 "Content Too Large",
    /// The request line exceeds the limit (15.5.15).
    UriTooLong = 414 "URI Too Long",
    /// No byte of the range exists; `Content-Range` contains the length (15.5.17).
    RangeNotSatisfiable = 416 "Range Not Satisfiable",
    /// The expectation in `Expect` is not supported (15.5.18).
    ExpectationFailed = 417 "Expectation Failed",
    /// The request is for a host that this server does not serve (15.5.20).
    MisdirectedRequest = 421 "Misdirected Request",
    /// The content is well-formed but cannot be processed (15.5.21).
    UnprocessableContent = 422 "Unprocessable Content",
    /// The client exceeds its request rate (RFC 6585, 4).
    TooManyRequests = 429 "Too Many Requests",
    /// The head exceeds the limits on its size or number of fields (RFC 6585, 5).
    FieldsTooLarge = 431 "Request Header Fields Too Large",
    /// A server error (15.6.1).
    InternalServerError = 500 "Internal Server Error",
    /// The server does not support the functionality of the request (15.6.2).
    NotImplemented = 501 "Not Implemented",
    /// The server behind this one has no usable response (15.6.3).
    BadGateway = 502 "Bad Gateway",
    /// The server is overloaded (15.6.4).
    ServiceUnavailable = 503 "Service Unavailable",
    /// The server behind this one has not responded in time (15.6.5).
    GatewayTimeout = 504 "Gateway Timeout",
    /// The major version of HTTP is not supported (15.6.6).
    VersionNotSupported = 505 "HTTP Version Not Supported",
}

impl Status {
    /// The code as a number.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The status with this code, if it is in [`Status::ALL`].
    pub fn from_code(code: u16) -> Option<Status> {
        Status::ALL.iter().copied().find(|status| status.code() == code)
    }

    /// Whether a response with this status can have content (RFC 9112, 6.3, rule 1).
    pub const fn has_content(self) -> bool {
        !matches!(
            self,
            Status::Continue | Status::SwitchingProtocols | Status::NoContent | Status::NotModified
        )
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code(), self.reason())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_line_reads_back() {
        for &status in Status::ALL {
            assert_eq!(status.line(), format!("HTTP/1.1 {status}\r\n"));
            assert_eq!(Status::from_code(status.code()), Some(status));
        }
        assert_eq!(Status::from_code(418), None);
    }
}
