//! Forwarded requests, and their heads.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use phalanx_guard::ForwardedField;
use phalanx_http::{Body, FieldBlock, Method, Request, Status, Version, elements};

use crate::proxy::fields::{Field, Named, collect, is_for_server};
use crate::proxy::protocols::Protocols;
use crate::site::{HostIndex, Site};
use crate::socket::buffers;
use crate::socket::peer::Claims;
use crate::upstream::{Group, Member};

/// The end of a request line with HTTP/1.1, and the name of `Host`.
const HOST: &str = " HTTP/1.1\r\nHost: ";

/// A request to forward to a server, except its body.
pub(crate) struct Job {
    pub(super) group: Arc<Group>,
    /// The host of the request, if known.
    pub(crate) host_index: Option<HostIndex>,
    /// Whether a rule protects the path, so that shared caches must not store the response.
    pub(super) is_private: bool,
    /// The request line for HTTP/1.1, and `Host` without its line end. The value is empty for the host of the server's URL.
    start: String,
    /// The ends of the method and the target in `start`.
    ends: [usize; 2],
    /// The field lines, except `Host` and those that frame the content or concern one connection.
    lines: Vec<u8>,
    /// Whether the client reads trailers.
    pub(super) takes_trailers: bool,
    pub(super) body: Body,
    pub(super) head_only: bool,
    /// Whether sending the request twice has the same effect as sending it once (RFC 9110 §9.2.2).
    is_idempotent: bool,
    /// Whether the client waits for 100 (Continue).
    pub(super) expects: bool,
    /// The protocols that the client proposes.
    pub(super) protocols: Protocols,
}

/// The client of a request.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    pub(crate) address: Option<IpAddr>,
    pub(crate) is_tls: bool,
    /// The kind of its fields, if the request comes from a trusted proxy that names the requested host.
    pub(crate) field: Option<ForwardedField>,
}

impl Origin {
    /// The client of a connection with its `own` address, or the one that a proxy has named in its claims.
    pub(crate) fn of(is_tls: bool, claims: Claims, own: impl FnOnce() -> Option<IpAddr>) -> Self {
        Self {
            address: claims.address.or_else(own),
            is_tls: claims.is_tls.unwrap_or(is_tls),
            field: claims.field,
        }
    }
}

impl Job {
    /// The group of servers for `request`, if any.
    pub(crate) fn group<'a>(site: &'a Site, request: &Request<'_>) -> Option<&'a Arc<Group>> {
        let host = &site[site.host(request.host)?];
        host.upstreams.iter().find(|group| group.path(request.path).is_some())
    }

    /// The job of forwarding `request`, which has this body, to `group`.
    ///
    /// # Errors
    /// The status of the response if the request must not be forwarded.
    pub(crate) fn new(
        group: &Arc<Group>,
        request: &Request<'_>,
        body: Body,
        origin: Origin,
    ) -> Result<Box<Self>, Status> {
        let method = request.method.as_str();
        // The response would show the client the fields that this proxy adds (RFC 9110 §9.3.8).
        if method == "TRACE" {
            return Err(Status::NotImplemented);
        }
        let path = group.path(request.path).ok_or(Status::NotFound)?;
        // Some servers read a backslash as a slash, and two leading slashes as the start of a host.
        if has_dots(request.path) || path.starts_with("/\\") {
            return Err(Status::BadRequest);
        }
        if matches!(body, Body::Length(length) if length > group.rule.max_body) {
            return Err(Status::ContentTooLarge);
        }
        let query = request.query.map_or(["", ""], |query| ["?", query]);
        let host = request.host.filter(|_| group.rule.preserve_host).unwrap_or_default();
        let start = [method, " ", path, query[0], query[1], HOST, host].concat();
        let fields = collect(request.fields());
        let named = Named::of(&fields);
        Ok(Box::new(Self {
            group: group.clone(),
            host_index: None,
            is_private: false,
            ends: [method.len(), start.len() - HOST.len() - host.len()],
            start,
            lines: lines(request, (&fields, &named), origin),
            takes_trailers: takes_trailers(request),
            body,
            head_only: request.method == Method::Head,
            is_idempotent: matches!(method, "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE"),
            expects: request.expect_continue,
            protocols: Protocols::of(request, body, &named),
        }))
    }

    pub(super) fn method(&self) -> &str {
        &self.start[..self.ends[0]]
    }

    /// Path and query.
    pub(super) fn target(&self) -> &str {
        &self.start[self.ends[0] + 1..self.ends[1]]
    }

    /// The value of `Host` for a server.
    pub(super) fn host<'a>(&'a self, member: &'a Member) -> &'a str {
        match &self.start[self.ends[1] + HOST.len()..] {
            "" => &member.authority,
            host => host,
        }
    }

    /// The fields for a server, except `Host` and those that frame the content or concern one connection.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = &self.lines[..];
        std::iter::from_fn(move || {
            // The parser rejects line breaks within a field, and names contain no colon.
            let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
            let colon = rest.iter().position(|byte| *byte == b':')?;
            let field = (&rest[..colon], &rest[colon + 2..end]);
            rest = &rest[end + 2..];
            Some(field)
        })
    }

    /// The length that a request to a server declares.
    pub(super) fn length(&self) -> Option<u64> {
        match self.body {
            Body::Length(length) => Some(length),
            Body::Chunked => None,
            // Servers expect a length with methods that usually have content (RFC 9110 §8.6).
            Body::None => (!matches!(self.method(), "GET" | "HEAD" | "OPTIONS")).then_some(0),
        }
    }

    /// The head for a server with HTTP/1.1.
    pub(super) fn head(&self, member: &Member) -> Vec<u8> {
        let mut framing = String::new();
        if let Some(length) = self.length() {
            framing = format!("Content-Length: {length}\r\n");
        } else if self.body == Body::Chunked {
            framing.push_str("Transfer-Encoding: chunked\r\n");
        }
        let protocols = self.protocols.value();
        let (upgrade, end) = match &protocols {
            Some(_) => (&b"Connection: upgrade\r\nUpgrade: "[..], &b"\r\n\r\n"[..]),
            None => (&b""[..], &b"\r\n"[..]),
        };
        let parts = [
            &self.start.as_bytes()[..self.ends[1]],
            HOST.as_bytes(),
            self.host(member).as_bytes(),
            b"\r\n",
            &self.lines,
            framing.as_bytes(),
            upgrade,
            protocols.as_deref().unwrap_or_default(),
            end,
        ];
        let mut out = buffers::get();
        parts.iter().for_each(|part| out.extend_from_slice(part));
        out
    }

    /// The fields of all responses of the host.
    pub(super) fn transport_fields<'a>(
        &self,
        site: &'a Site,
        is_tls: bool,
    ) -> Option<&'a FieldBlock> {
        site.transport_fields(self.host_index?, is_tls)
    }

    /// Whether the request may be sent again after a failure.
    pub(super) fn may_repeat(&self) -> bool {
        self.is_idempotent && self.body == Body::None
    }
}

/// Whether the client reads trailers, and this proxy passes them on to it.
fn takes_trailers(request: &Request<'_>) -> bool {
    matches!(request.version, Version::Http2 | Version::Http3)
        && request.values("te").flat_map(elements).any(|it| it.eq_ignore_ascii_case(b"trailers"))
}

/// The field lines of a request, without `Host` and those that frame the content or concern one connection.
fn lines(
    request: &Request<'_>,
    (fields, named): (&[Field<'_>], &Named<'_>),
    origin: Origin,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    let hops = max_forwards(request);
    // HTTP/2 may divide cookies among several fields, HTTP/1.1 may not (RFC 9113 §8.2.3).
    let mut cookies = Vec::new();
    for (name, value) in fields {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        if is("cookie") {
            cookies.push(*value);
        } else if is_for_server(name, named) && !(hops.is_some() && is("max-forwards")) {
            out.extend_from_slice(name);
            line(&mut out, ": ", value);
        }
    }
    if let Some(hops) = hops {
        line(&mut out, "Max-Forwards: ", hops.saturating_sub(1).to_string().as_bytes());
    }
    if !cookies.is_empty() && is_for_server(b"cookie", named) {
        line(&mut out, "Cookie: ", &cookies.join(&b"; "[..]));
    }
    let proto = if origin.is_tls { "https" } else { "http" };
    let client = origin.address.map(|address| address.to_canonical());
    let text = client.map(address_text).unwrap_or_default();
    let text = &*text;
    if client.is_some() {
        line(&mut out, "X-Forwarded-For: ", text);
    }
    line(&mut out, "X-Forwarded-Proto: ", proto.as_bytes());
    let proxied = origin.field;
    let claimed = proxied.and_then(|field| field.host(request.values(field.host_name())));
    let host = claimed.or(request.host).filter(|host| is_single_host(host));
    if let Some(host) = host {
        line(&mut out, "X-Forwarded-Host: ", host.as_bytes());
    }
    if let Some(port) = proxied.and_then(|field| field.port(request.values("x-forwarded-port"))) {
        line(&mut out, "X-Forwarded-Port: ", port.to_string().as_bytes());
    }
    let [start, node, end] = match client {
        None => [&b""[..], b"unknown", b""],
        Some(IpAddr::V4(_)) => [b"", text, b""],
        Some(IpAddr::V6(_)) => [b"\"[", text, b"]\""],
    };
    let host = host.map_or([&b""[..]; 3], |host| [b";host=\"", host.as_bytes(), b"\""]);
    let parts = [b"Forwarded: for=", start, node, end, b";proto=", proto.as_bytes()];
    parts.iter().chain(&host).for_each(|part| out.extend_from_slice(part));
    let received = request.version.name().strip_prefix("HTTP/").unwrap_or_default();
    out.extend_from_slice(b"\r\nVia: ");
    line(&mut out, received, b" phalanx");
    out
}

/// The text of an address. For IPv4, its `Display` implementation costs ten times as much as this code.
fn address_text(address: IpAddr) -> Vec<u8> {
    let IpAddr::V4(address) = address else { return address.to_string().into() };
    let mut text = Vec::with_capacity("255.255.255.255".len());
    for octet in address.octets() {
        if !text.is_empty() {
            text.push(b'.');
        }
        text.extend_from_slice(itoa::Buffer::new().format(octet).as_bytes());
    }
    text
}

/// Ends a line with these two parts.
fn line(out: &mut Vec<u8>, start: &str, value: &[u8]) {
    out.extend_from_slice(start.as_bytes());
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// The value of `Max-Forwards` of an OPTIONS request (RFC 9110 §7.6.2).
pub(super) fn max_forwards(request: &Request<'_>) -> Option<u64> {
    if request.method != Method::Options {
        return None;
    }
    let value = str::from_utf8(request.values("max-forwards").next()?).ok()?;
    // A value with a sign is malformed.
    value.parse().ok().filter(|_| value.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether a path contains a segment of dots, in any spelling that a server might decode. Clients resolve these before
/// sending (RFC 3986 §5.2.4); a server that resolved them would leave the prefix.
fn has_dots(path: &str) -> bool {
    let mut plain = Cow::Borrowed(path);
    if path.contains(['%', '\\']) {
        let mut decoded = path.to_ascii_lowercase().replace("%2e", ".");
        for separator in ["%2f", "%5c", "\\"] {
            decoded = decoded.replace(separator, "/");
        }
        plain = decoded.into();
    }
    // Some servers remove parameters from segments before they resolve dots.
    let mut segments = plain.as_bytes().split(|byte| *byte == b'/');
    segments.any(|segment| {
        let name = segment.split(|byte| *byte == b';').next();
        matches!(name, Some(b"." | b".."))
    })
}

/// Whether every server reads the host as a single name or address, with or without a port. A server may read
/// `evil.example,example.org` in X-Forwarded-Host as two hosts.
fn is_single_host(host: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use phalanx_http::{Limits, Parse, parse};

    use super::*;
    use crate::config::Proxy;

    fn job(text: &str, strip_prefix: bool) -> Result<String, Status> {
        job_of(text, strip_prefix, None)
    }

    fn job_of(
        text: &str,
        strip_prefix: bool,
        field: Option<ForwardedField>,
    ) -> Result<String, Status> {
        let bytes = text.replace('\n', "\r\n");
        let Ok(Parse::Complete(request, _)) = parse(bytes.as_bytes(), &Limits::default()) else {
            panic!("{text}")
        };
        let to = vec!["http://10.0.0.2:3000".parse().unwrap()];
        let rule = Proxy { prefix: "/api".into(), to, strip_prefix, ..Proxy::default() };
        let group = Group::new(&rule, 1, None);
        let origin = Origin { address: Some([10, 0, 0, 9].into()), is_tls: false, field };
        let job = Job::new(&group, &request, request.body, origin)?;
        Ok(String::from_utf8(job.head(&group.members[0])).unwrap().replace("\r\n", "\n"))
    }

    #[test]
    fn heads_are_written_anew() {
        let text = "POST /api/x?y=z HTTP/1.1\nHost: a.example\nConnection: close, x-own\nX-Own: 1\n\
                    X-Forwarded-For: 1.2.3.4\nForwarded: for=1.2.3.4\nAccept: */*\nTE: trailers\n\
                    Content-Length: 05\nCookie: a=b\nCookie: c=d\n\nhello";
        let wanted = "POST /x?y=z HTTP/1.1\nHost: a.example\nAccept: */*\nCookie: a=b; c=d\n\
                      X-Forwarded-For: 10.0.0.9\nX-Forwarded-Proto: http\nX-Forwarded-Host: a.example\n\
                      Forwarded: for=10.0.0.9;proto=http;host=\"a.example\"\nVia: 1.1 phalanx\n\
                      Content-Length: 5\n\n";
        assert_eq!(job(text, true).unwrap(), wanted);
        let text = "GET http://b.example/api HTTP/1.1\nHost: a\nUpgrade: websocket\nConnection: Upgrade\n\n";
        let head = job(text, false).unwrap();
        assert!(head.starts_with("GET /api HTTP/1.1\nHost: b.example\n"), "{head}");
        assert!(head.ends_with("Connection: upgrade\nUpgrade: websocket\n\n"), "{head}");
        let head = job("GET /api HTTP/1.0\nUpgrade: websocket\nConnection: Upgrade\n\n", false);
        let head = head.unwrap();
        assert!(head.contains("Host: 10.0.0.2:3000\n") && !head.contains("pgrade"), "{head}");
    }

    /// The requested host and port are taken only from a trusted proxy.
    #[test]
    fn hosts_of_trusted_proxies() {
        let text = "GET /api HTTP/1.1\nHost: inner\nX-Forwarded-Host: evil, a.example\n\
                    X-Forwarded-Port: 8443\nForwarded: host=b.example\n\n";
        for (field, host, port) in [
            (None, "inner", ""),
            (Some(ForwardedField::XForwardedFor), "a.example", "X-Forwarded-Port: 8443\n"),
            (Some(ForwardedField::Forwarded), "b.example", ""),
        ] {
            let wanted = format!(
                "GET /api HTTP/1.1\nHost: inner\nX-Forwarded-For: 10.0.0.9\nX-Forwarded-Proto: http\n\
                 X-Forwarded-Host: {host}\n{port}Forwarded: for=10.0.0.9;proto=http;host=\"{host}\"\n\
                 Via: 1.1 phalanx\n\n"
            );
            assert_eq!(job_of(text, false, field).unwrap(), wanted);
        }
        let wrong =
            "GET /api HTTP/1.1\nHost: inner\nX-Forwarded-Host: a/b\nX-Forwarded-Port: x\n\n";
        let head = job_of(wrong, false, Some(ForwardedField::XForwardedFor)).unwrap();
        assert!(head.contains("X-Forwarded-Host: inner\nForwarded: "), "{head}");
    }

    #[test]
    fn protocols_of_one_connection_are_not_proposed() {
        let head = |upgrade: &str| {
            let text =
                format!("GET /api HTTP/1.1\nHost: a\nConnection: upgrade\nUpgrade: {upgrade}\n\n");
            job(&text, false).unwrap()
        };
        let some = head("h2c, websocket,TLS/1.0, a/1");
        assert!(some.ends_with("Connection: upgrade\nUpgrade: websocket, a/1\n\n"), "{some}");
        let none = head("h2c, HTTP/2.0");
        assert!(!none.contains("pgrade"), "{none}");
    }

    #[test]
    fn hops_are_counted() {
        for (method, value, wanted) in [
            ("OPTIONS", "5", "4"),
            ("OPTIONS", "0", "0"),
            ("OPTIONS", "+5", "+5"),
            ("OPTIONS", "many", "many"),
            ("GET", "5", "5"),
        ] {
            let text = format!("{method} /api HTTP/1.1\nHost: a\nMax-Forwards: {value}\n\n");
            let head = job(&text, false).unwrap();
            let found: Vec<_> = head.lines().filter(|line| line.starts_with("Max-")).collect();
            assert_eq!(found, [format!("Max-Forwards: {wanted}")], "{method}");
        }
    }

    #[test]
    fn some_requests_are_refused() {
        for (line, status) in [
            ("GET /api/../a", Status::BadRequest),
            ("GET /api/%2E%2e/a", Status::BadRequest),
            ("GET /api/x%2f..%5Ca", Status::BadRequest),
            ("GET /api/.;v=1/a", Status::BadRequest),
            ("TRACE /api", Status::NotImplemented),
        ] {
            assert_eq!(job(&format!("{line} HTTP/1.1\nHost: a\n\n"), false), Err(status), "{line}");
        }
        for text in [r"/api/\a/b", r"/api//\a/b"] {
            let text = format!("GET {text} HTTP/1.1\nHost: a\n\n");
            assert_eq!(job(&text, true), Err(Status::BadRequest), "{text}");
        }
        for path in ["/api/..a", "/api/.git", "/api/a..", "/api/a%2fb"] {
            assert!(job(&format!("GET {path} HTTP/1.1\nHost: a\n\n"), false).is_ok(), "{path}");
        }
        let large = format!("PUT /api HTTP/1.1\nHost: a\nContent-Length: {}\n\n", 1_u64 << 40);
        assert_eq!(job(&large, false), Err(Status::ContentTooLarge));
    }
}
