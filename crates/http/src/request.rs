//! A parsed request head.

use httparse::Header;

use crate::bytes::trim;
use crate::fields::Gathered;
use crate::host::{Target, is_authority};
use crate::line::Line;
use crate::{Body, Limits, MAX_FIELDS, Method, Reject, Status, Version};

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
    /// Parses a complete head. `line` has no line end, `fields` ends with the empty line, every line ends
    /// with CR LF, and `count` is the number of field lines.
    pub(crate) fn read(
        line: &'a [u8],
        fields: &'a [u8],
        count: usize,
    ) -> Result<Request<'a>, Reject> {
        // The array is initialized with empty headers, so a short head uses a short array.
        if count <= 16 {
            Request::read_into(line, fields, &mut [httparse::EMPTY_HEADER; 16])
        } else {
            Request::read_into(line, fields, &mut [httparse::EMPTY_HEADER; MAX_FIELDS])
        }
    }

    #[inline]
    fn read_into(
        line: &'a [u8],
        fields: &'a [u8],
        headers: &mut [Header<'a>],
    ) -> Result<Request<'a>, Reject> {
        let line = Line::parse(line)?;
        let mut request = Request::new(line, fields)?;
        let absolute = request.host.take();
        let headers = match httparse::parse_headers(fields, headers) {
            Ok(httparse::Status::Complete((end, headers))) if end == fields.len() => headers,
            Ok(_) => return Err(Reject::bad("misplaced end of the head")),
            Err(error) => return Err(Reject::bad(explain(error))),
        };
        let mut gathered = Gathered::default();
        for header in headers {
            gathered.take(&mut request, header.name.as_bytes(), header.value)?;
        }
        let persists = line.version == Version::Http11;
        if request.host.is_none() && persists {
            return Err(Reject::bad("no Host"));
        }
        request.host = absolute.or(request.host);
        request.keep_alive = !gathered.close && (persists || gathered.keep_alive);
        request.body = gathered.framing.body(line.version)?;
        request.expect_continue = gathered.expects && persists && request.body != Body::None;
        Ok(request)
    }

    /// A request over HTTP/2, from its decoded head. The decoder has validated names and values, and has
    /// checked that `authority` and a `Host` field agree. `fields` are the names, in lower case, and values of
    /// the same fields as `lines`, which are `name: value` with CR LF.
    ///
    /// The request has no [`body`](Self::body), because the stream frames it, and no expectation: instead of 100
    /// (Continue), its client gets the final response.
    ///
    /// # Errors
    /// [`Reject`] if the target or the authority is invalid, or if the head exceeds a limit.
    pub fn from_fields(
        [method, target, authority]: [&'a str; 3],
        lines: &'a [u8],
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        limits: &Limits,
    ) -> Result<Request<'a>, Reject> {
        let version = Version::Http2;
        if method.len() + target.len() + version.name().len() + 2 > limits.request_line {
            return Err(Reject::new(Status::UriTooLong, "target too long"));
        }
        let line = Line { method: Method::named(method)?, target, version };
        let mut request = Request::new(line, lines)?;
        if !is_authority(authority.as_bytes()) {
            return Err(Reject::bad("invalid authority"));
        }
        let absolute = request.host.replace(authority);
        request.host = absolute.or(request.host);
        request.keep_alive = true;
        let (mut gathered, mut count) = (Gathered::default(), 0);
        for (name, value) in fields {
            count += 1;
            if !matches!(name, b"host" | b"content-length" | b"expect") {
                gathered.take(&mut request, name, value)?;
            }
        }
        match count > limits.headers.min(MAX_FIELDS) {
            true => Err(Reject::new(Status::FieldsTooLarge, "too many fields")),
            false => Ok(request),
        }
    }

    /// A request without fields.
    fn new(line: Line<'a>, fields: &'a [u8]) -> Result<Request<'a>, Reject> {
        let Line { method, target, version } = line;
        let Target { authority, path, query } = Target::parse(target, method)?;
        Ok(Request {
            method,
            target,
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
        })
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
    pub fn values<'n>(&self, name: &'n str) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        // Parsing has verified that each line has a colon and ends with CR LF.
        self.fields.split(|&byte| byte == b'\n').filter_map(move |line| {
            let (found, value) = line.split_at(memchr::memchr(b':', line)?);
            let value = trim(value[1..].strip_suffix(b"\r")?);
            found.eq_ignore_ascii_case(name.as_bytes()).then_some(value)
        })
    }

    /// Whether this is `OPTIONS *`, which concerns the server rather than a resource.
    pub fn is_asterisk(&self) -> bool {
        self.path == "*"
    }
}

fn explain(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "invalid field name",
        httparse::Error::HeaderValue => "invalid byte in a field value",
        _ => "invalid field line",
    }
}
