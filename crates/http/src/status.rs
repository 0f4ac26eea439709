//! Status codes that a static server answers with (RFC 9110, 15).

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
            /// Every status, in order of its code.
            pub const ALL: &'static [Status] = &[$(Status::$name,)*];

            /// The reason phrase, as the registry has it.
            pub const fn reason(self) -> &'static str {
                match self { $(Status::$name => $reason,)* }
            }

            /// The whole status line with its line end, ready to be copied.
            pub(crate) const fn line(self) -> &'static str {
                match self {
                    $(Status::$name => concat!("HTTP/1.1 ", $code, " ", $reason, "\r\n"),)*
                }
            }
        }
    };
}

statuses! {
    /// An interim answer: send the body (15.2.1).
    Continue = 100 "Continue",
    /// All of the representation follows (15.3.1).
    Ok = 200 "OK",
    /// Done, and there is nothing to send (15.3.5).
    NoContent = 204 "No Content",
    /// One range of the representation follows, or several (15.3.7).
    PartialContent = 206 "Partial Content",
    /// The resource lives elsewhere for good; a client may change POST to GET (15.4.2).
    MovedPermanently = 301 "Moved Permanently",
    /// The resource is elsewhere for now; a client may change POST to GET (15.4.3).
    Found = 302 "Found",
    /// What the client has is still current (15.4.5).
    NotModified = 304 "Not Modified",
    /// The resource is elsewhere for now; the method stays (15.4.8).
    TemporaryRedirect = 307 "Temporary Redirect",
    /// The resource lives elsewhere for good; the method stays (15.4.9).
    PermanentRedirect = 308 "Permanent Redirect",
    /// The message breaks the syntax or the framing rules (15.5.1).
    BadRequest = 400 "Bad Request",
    /// A name and a password are asked for (15.5.2).
    Unauthorized = 401 "Unauthorized",
    /// Understood, and refused (15.5.4).
    Forbidden = 403 "Forbidden",
    /// Nothing here, or nothing that may be told of (15.5.5).
    NotFound = 404 "Not Found",
    /// The resource does not know the method; `Allow` says which it knows (15.5.6).
    MethodNotAllowed = 405 "Method Not Allowed",
    /// There is no representation that the request's `Accept` fields allow (15.5.7).
    NotAcceptable = 406 "Not Acceptable",
    /// The request was not complete in time (15.5.9).
    RequestTimeout = 408 "Request Timeout",
    /// A condition in the request is false (15.5.13).
    PreconditionFailed = 412 "Precondition Failed",
    /// The body is larger than will be read (15.5.14).
    ContentTooLarge = 413 "Content Too Large",
    /// The request line is longer than will be read (15.5.15).
    UriTooLong = 414 "URI Too Long",
    /// No byte of the range exists; `Content-Range` says how many there are (15.5.17).
    RangeNotSatisfiable = 416 "Range Not Satisfiable",
    /// The `Expect` field asks for something unknown (15.5.18).
    ExpectationFailed = 417 "Expectation Failed",
    /// The request is for a host that is not served here (15.5.20).
    MisdirectedRequest = 421 "Misdirected Request",
    /// The client asks too often (RFC 6585, 4).
    TooManyRequests = 429 "Too Many Requests",
    /// The head is larger, or has more fields, than will be read (RFC 6585, 5).
    FieldsTooLarge = 431 "Request Header Fields Too Large",
    /// Something went wrong that is not the client's doing (15.6.1).
    InternalServerError = 500 "Internal Server Error",
    /// The request needs something this server does not have (15.6.2).
    NotImplemented = 501 "Not Implemented",
    /// Too much to do at present (15.6.4).
    ServiceUnavailable = 503 "Service Unavailable",
    /// Another major version of HTTP (15.6.6).
    VersionNotSupported = 505 "HTTP Version Not Supported",
}

impl Status {
    /// The three digits as a number.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// The status with this code, if it is one of [`Status::ALL`].
    pub fn from_code(code: u16) -> Option<Status> {
        Status::ALL.iter().copied().find(|status| status.code() == code)
    }

    /// Whether a response with this status can carry content at all (RFC 9112, 6.3, rule 1).
    pub const fn has_content(self) -> bool {
        !matches!(self, Status::Continue | Status::NoContent | Status::NotModified)
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
