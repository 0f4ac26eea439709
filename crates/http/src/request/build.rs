//! Building a request: from a parsed head, or from decoded fields.

use httparse::Header;

use crate::limits::{Limits, MAX_FIELDS};
use crate::reject::Reject;
use crate::request::fields::ParsedFields;
use crate::request::framing::Body;
use crate::request::head::Request;
use crate::request::host::{Target, is_authority};
use crate::request::line::{Line, Method};
use crate::status::Status;
use crate::version::Version;

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
        let target = Target::parse(line.target, line.method)?;
        let absolute = target.authority;
        let mut request = Request::new(line, target, fields);
        request.host = None;
        let headers = match httparse::parse_headers(fields, headers) {
            Ok(httparse::Status::Complete((end, headers))) if end == fields.len() => headers,
            Ok(_) => return Err(Reject::bad("misplaced end of the head")),
            Err(error) => return Err(Reject::bad(explain(error))),
        };
        let mut parsed = ParsedFields::default();
        for header in headers {
            parsed.take(&mut request, header.name.as_bytes(), header.value)?;
        }
        let persists = line.version == Version::Http11;
        if request.host.is_none() && persists {
            return Err(Reject::bad("no Host"));
        }
        request.host = absolute.or(request.host);
        request.keep_alive = !parsed.close && (persists || parsed.keep_alive);
        request.body = parsed.framing.body(line.version)?;
        request.expect_continue = parsed.expects && persists && request.body != Body::None;
        Ok(request)
    }

    /// A request over HTTP/2 or HTTP/3, from its decoded head. The decoder has validated names and values, and has
    /// checked that `authority` and a `Host` field agree. `fields` are the names, in lower case, and values of
    /// the same fields as `lines`, which are `name: value` with CR LF.
    ///
    /// The stream frames the content, so the caller sets [`body`](Self::body) and
    /// [`expect_continue`](Self::expect_continue), and for HTTP/3 the [`version`](Self::version).
    ///
    /// All `cookie` fields count as one, because clients may split the single field of HTTP/1.1 (RFC 9113, 8.2.3).
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
        let mut request = Request::new(line, Target::parse(target, line.method)?, lines);
        if !is_authority(authority.as_bytes()) {
            return Err(Reject::bad("invalid authority"));
        }
        request.host = request.host.or(Some(authority));
        request.keep_alive = true;
        let (mut parsed, mut count, mut has_cookie) = (ParsedFields::default(), 0, false);
        for (name, value) in fields {
            let is_cookie = name == b"cookie";
            if !(is_cookie && has_cookie) {
                count += 1;
            }
            has_cookie |= is_cookie;
            if !matches!(name, b"host" | b"content-length" | b"expect") {
                parsed.take(&mut request, name, value)?;
            }
        }
        match count > limits.headers.min(MAX_FIELDS) {
            true => Err(Reject::new(Status::FieldsTooLarge, "too many fields")),
            false => Ok(request),
        }
    }
}

fn explain(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "invalid field name",
        httparse::Error::HeaderValue => "invalid byte in a field value",
        _ => "invalid field line",
    }
}
