//! The HTTP request that opens a WebSocket (RFC 6455 §4), and its response.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha1::{Digest, Sha1};

/// Maximum length of a request's head, in bytes.
pub const MAX_HEAD: usize = 8192;
const MAX_FIELDS: usize = 64;

/// The status of a request that should become a WebSocket.
const UPGRADE: &str = "426 Upgrade Required";

/// The GUID that the standard appends to a key.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A request to open a WebSocket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade<'a> {
    /// Origin of the page that made the request in a browser; `None` for other clients.
    pub origin: Option<&'a str>,
    /// The response that accepts the request.
    pub accept: Vec<u8>,
    /// Length of the request in bytes; frames follow it.
    pub length: usize,
}

/// A request that does not open a WebSocket, with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct UpgradeError {
    status: &'static str,
    message: &'static str,
}

impl UpgradeError {
    /// The origin is not allowed.
    pub const ORIGIN: Self =
        Self { status: "403 Forbidden", message: "this origin is not allowed" };

    /// The response; close the connection after it.
    ///
    /// ```
    /// let answer = phalanx_websocket::UpgradeError::ORIGIN.answer();
    /// assert!(answer.starts_with(b"HTTP/1.1 403 Forbidden\r\n"));
    /// ```
    pub fn answer(self) -> Vec<u8> {
        let Self { status, message } = self;
        let length = message.len() + 1;
        // The field concerns this connection only (RFC 9110 §7.8).
        let connection = match status {
            UPGRADE => "close, upgrade\r\nupgrade: websocket",
            _ => "close",
        };
        format!(
            "HTTP/1.1 {status}\r\nconnection: {connection}\r\nsec-websocket-version: 13\r\n\
             content-type: text/plain\r\ncontent-length: {length}\r\n\r\n{message}\n"
        )
        .into_bytes()
    }
}

fn bad_request(message: &'static str) -> UpgradeError {
    UpgradeError { status: "400 Bad Request", message }
}

impl<'a> Upgrade<'a> {
    /// Reads the request at the start of `input`, for a WebSocket with the subprotocol `protocol`. Returns
    /// `None` until the request is complete.
    ///
    /// ```
    /// let request = b"GET /mqtt HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
    ///     Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
    ///     Sec-WebSocket-Protocol: mqtt\r\n\r\n";
    /// let upgrade = phalanx_websocket::Upgrade::read(request, "mqtt")?.expect("it is whole");
    /// assert_eq!(upgrade.length, request.len());
    /// let answer = String::from_utf8_lossy(&upgrade.accept);
    /// assert!(answer.contains("sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"));
    /// # Ok::<(), phalanx_websocket::UpgradeError>(())
    /// ```
    ///
    /// # Errors
    /// [`UpgradeError`], with the [response](UpgradeError::answer) to send.
    pub fn read(input: &'a [u8], protocol: &str) -> Result<Option<Self>, UpgradeError> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let head = &input[..input.len().min(MAX_HEAD)];
        let length = match request.parse(head) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if input.len() < MAX_HEAD => return Ok(None),
            Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
                let status = "431 Request Header Fields Too Large";
                return Err(UpgradeError { status, message: "the request header is too long" });
            }
            Err(_) => return Err(bad_request("not an HTTP request")),
        };
        if request.method != Some("GET") || request.version != Some(1) {
            return Err(bad_request("a WebSocket handshake requires GET and HTTP/1.1"));
        }
        let fields = &*request.headers;
        let all = |name: &'static str| {
            let matching = fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
            matching.map(|field| std::str::from_utf8(field.value).unwrap_or_default().trim())
        };
        let one = |name| {
            let mut all = all(name);
            let first = all.next();
            if all.next().is_some() { None } else { first }
        };
        let has_token = |name, expected: &str| {
            let mut tokens = all(name).flat_map(|value| value.split(',')).map(str::trim);
            tokens.any(|token| token.eq_ignore_ascii_case(expected))
        };
        if one("host").is_none() {
            return Err(bad_request("the request must have exactly one Host header"));
        }
        if !has_token("upgrade", "websocket") || !has_token("connection", "upgrade") {
            return Err(UpgradeError {
                status: UPGRADE,
                message: "only WebSocket is supported here",
            });
        }
        if one("sec-websocket-version") != Some("13") {
            return Err(UpgradeError {
                status: UPGRADE,
                message: "only WebSocket version 13 is supported",
            });
        }
        let key = one("sec-websocket-key").unwrap_or_default();
        if !STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16) {
            return Err(bad_request("Sec-WebSocket-Key is not 16 bytes in Base64"));
        }
        // Names of subprotocols are case-sensitive.
        let mut protocols = all("sec-websocket-protocol").flat_map(|value| value.split(','));
        if !protocols.any(|protocols| protocols.trim() == protocol) {
            return Err(bad_request("the required subprotocol was not offered"));
        }
        if all("origin").count() > 1 {
            return Err(bad_request("the request has several origins"));
        }
        let digest = STANDARD.encode(Sha1::new().chain_update(key).chain_update(MAGIC).finalize());
        let accept = format!(
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
             sec-websocket-accept: {digest}\r\nsec-websocket-protocol: {protocol}\r\n\r\n"
        );
        Ok(Some(Self { origin: one("origin"), accept: accept.into_bytes(), length }))
    }
}
