//! A parsed request head.

use crate::request::framing::Body;
use crate::request::host::{Target, strip_prefix};
use crate::request::line::{Line, Method};
use crate::syntax::bytes::{FieldLines, field_values};
use crate::version::Version;

/// A parsed request head. It borrows from the parsed bytes.
///
/// Field values are raw, without surrounding white space. A list field with several lines contains its first
/// line; [`Request::values`] returns all. A field that may occur only once but occurs twice has an empty
/// value, which is ignored everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// The method.
    pub method: Method<'a>,
    /// The target as received, for logs.
    pub target: &'a str,
    /// Path of the target, still percent-encoded: starts with `/`, or is `*` (OPTIONS only).
    pub path: &'a str,
    /// The part of the target after the first `?`, if any.
    pub query: Option<&'a str>,
    /// Version of the protocol.
    pub version: Version,
    /// Host and port of an absolute target, or else of the `Host` field (RFC 9112, 3.2.2). May be absent in
    /// HTTP/1.0.
    pub host: Option<&'a str>,
    /// Whether the connection persists after the response (RFC 9112, 9.3).
    pub keep_alive: bool,
    /// Body that follows the head.
    pub body: Body,
    /// Whether the client waits for [`CONTINUE`](crate::CONTINUE) before sending the body (RFC 9110, 10.1.1).
    /// Never set without a body or in HTTP/1.0.
    pub expect_continue: bool,
    /// `If-Match`.
    pub if_match: Option<&'a [u8]>,
    /// `If-None-Match`.
    pub if_none_match: Option<&'a [u8]>,
    /// `If-Modified-Since`.
    pub if_modified_since: Option<&'a [u8]>,
    /// `If-Unmodified-Since`.
    pub if_unmodified_since: Option<&'a [u8]>,
    /// `If-Range`.
    pub if_range: Option<&'a [u8]>,
    /// `Range`.
    pub range: Option<&'a [u8]>,
    /// `Accept-Encoding`.
    pub accept_encoding: Option<&'a [u8]>,
    /// `User-Agent`, for logs.
    pub user_agent: Option<&'a [u8]>,
    /// `Referer`, for logs.
    pub referer: Option<&'a [u8]>,
    /// Whether a list field has more lines than the stored one.
    pub(crate) repeated: bool,
    /// The field lines, each with CR LF.
    fields: &'a [u8],
}

impl<'a> Request<'a> {
    /// A request without fields. Always inlined: a copy would cost more than the rest of the call.
    #[inline(always)]
    pub(super) fn new(line: Line<'a>, target: Target<'a>, fields: &'a [u8]) -> Request<'a> {
        let Line { method, target: whole, version } = line;
        let Target { authority, path, query } = target;
        Request {
            method,
            target: whole,
            path,
            query,
            version,
            host: authority,
            keep_alive: false,
            body: Body::None,
            expect_continue: false,
            if_match: None,
            if_none_match: None,
            if_modified_since: None,
            if_unmodified_since: None,
            if_range: None,
            range: None,
            accept_encoding: None,
            user_agent: None,
            referer: None,
            repeated: false,
            fields,
        }
    }

    /// The request line without its line end, for logs, in pieces.
    pub fn line(&self) -> [&'a str; 5] {
        [self.method.as_str(), " ", self.target, " ", self.version.name()]
    }

    /// The values of all lines of a field, in order, without surrounding white space. The name is
    /// case-insensitive. Scans all lines; intended for fields that [`Request`] does not store.
    ///
    /// ```
    /// # use phalanx_http::{Limits, Parse, parse};
    /// let bytes = b"GET / HTTP/1.1\r\nHost: a\r\nDNT: 1\r\n\r\n";
    /// let Ok(Parse::Complete(request, _)) = parse(bytes, &Limits::default()) else { panic!() };
    /// assert_eq!(request.values("dnt").next(), Some(&b"1"[..]));
    /// ```
    pub fn values<'n>(
        &self,
        name: &'n str,
    ) -> impl DoubleEndedIterator<Item = &'a [u8]> + use<'a, 'n> {
        field_values(self.fields, name)
    }

    /// Names and values of all field lines, in order.
    pub fn fields(&self) -> impl DoubleEndedIterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        FieldLines(self.fields)
    }

    /// Whether the target is a URL with `https`, which only a connection with TLS may request (RFC 9110, 7.4).
    #[inline]
    pub fn has_https_target(&self) -> bool {
        !self.target.starts_with('/') && strip_prefix(self.target, "https://").is_some()
    }

    /// Whether this is `OPTIONS *`, which concerns the server rather than a resource.
    pub fn is_asterisk(&self) -> bool {
        self.path == "*"
    }
}
