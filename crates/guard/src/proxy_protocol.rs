//! The header of the PROXY protocol, versions 1 and 2, by which a load balancer names the client of a connection.
//!
//! The header is in front of the client's bytes. It says itself how long it is, so [`missing`] tells how many bytes to read
//! next without reading too many.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Start of a header of version 2.
const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// Start of a header of version 1.
const TEXT: &[u8] = b"PROXY ";
/// The shortest header: `PROXY UNKNOWN` with its line end.
const MIN_HEADER_BYTES: usize = 15;
/// The longest header of version 1, with its line end.
const MAX_TEXT_HEADER_BYTES: usize = 107;
/// Bytes of version 2 before the addresses.
const FIXED_HEADER_BYTES: usize = 16;
/// The longest header of version 2: the addresses, and what load balancers add about the connection.
const MAX_HEADER_BYTES: usize = FIXED_HEADER_BYTES + 4096;

/// Why a header is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyHeaderError {
    /// The bytes are not the start of a header.
    NotAHeader,
    /// The header is longer than the server accepts.
    TooLong,
    /// The header names addresses that cannot be read.
    Invalid,
}

impl std::fmt::Display for ProxyHeaderError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NotAHeader => "the connection does not begin with a PROXY header",
            Self::TooLong => "the PROXY header is too long",
            Self::Invalid => "the PROXY header is malformed",
        })
    }
}

impl std::error::Error for ProxyHeaderError {}

/// How many bytes to read next so that none behind the header is read; zero once `header` is complete.
///
/// # Errors
/// If the bytes so far are not the start of a header, or if the header is too long.
///
/// ```
/// use phalanx_guard::proxy_protocol::{missing, source};
///
/// let bytes = b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 80\r\nGET / HTTP/1.1\r\n";
/// let mut header = Vec::new();
/// while let more @ 1.. = missing(&header)? {
///     header.extend_from_slice(&bytes[header.len()..][..more]);
/// }
/// assert_eq!(source(&header)?.unwrap().to_string(), "203.0.113.9:4711");
/// assert!(bytes[header.len()..].starts_with(b"GET"));
/// # Ok::<(), phalanx_guard::ProxyHeaderError>(())
/// ```
pub fn missing(header: &[u8]) -> Result<usize, ProxyHeaderError> {
    let starts_with =
        |with: &[u8]| header.iter().zip(with).all(|(byte, expected)| byte == expected);
    if starts_with(SIGNATURE) {
        let Some(fixed) = header.get(..FIXED_HEADER_BYTES) else {
            // The shortest header of the other version is shorter.
            return Ok(if header.len() < MIN_HEADER_BYTES {
                MIN_HEADER_BYTES
            } else {
                FIXED_HEADER_BYTES
            } - header.len());
        };
        let length = FIXED_HEADER_BYTES + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
        return match length {
            ..=MAX_HEADER_BYTES => Ok(length.saturating_sub(header.len())),
            _ => Err(ProxyHeaderError::TooLong),
        };
    }
    if !starts_with(TEXT) {
        return Err(ProxyHeaderError::NotAHeader);
    }
    match header {
        [.., b'\r', b'\n'] if header.len() >= MIN_HEADER_BYTES => Ok(0),
        _ if header.len() >= MAX_TEXT_HEADER_BYTES => Err(ProxyHeaderError::TooLong),
        _ if header.len() < MIN_HEADER_BYTES => Ok(MIN_HEADER_BYTES - header.len()),
        [.., b'\r'] => Ok(1),
        _ => Ok(2.min(MAX_TEXT_HEADER_BYTES - header.len())),
    }
}

/// The client that a complete header names; `None` if the load balancer has opened the connection for itself, or does
/// not know the client.
///
/// # Errors
/// If the header is malformed.
pub fn source(header: &[u8]) -> Result<Option<SocketAddr>, ProxyHeaderError> {
    match header.strip_prefix(SIGNATURE) {
        Some(rest) => binary(rest),
        None => text(header),
    }
    .ok_or(ProxyHeaderError::Invalid)
}

/// Whether a complete header says that the client has used TLS to reach the load balancer. Only version 2 can say so.
///
/// ```
/// use phalanx_guard::proxy_protocol::is_tls;
///
/// let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x14".to_vec();
/// header.extend([203, 0, 113, 9, 10, 0, 0, 1, 0x12, 0x34, 1, 187]);
/// header.extend([0x20, 0, 5, 1, 0, 0, 0, 0]);
/// assert!(is_tls(&header));
/// ```
pub fn is_tls(header: &[u8]) -> bool {
    const SSL: u8 = 0x20;
    const CLIENT_BIT: u8 = 1;
    let Some([0x21, family, _, _, rest @ ..]) = header.strip_prefix(SIGNATURE) else {
        return false;
    };
    let addresses = match family >> 4 {
        1 => 12,
        2 => 36,
        3 => 216,
        _ => 0,
    };
    let mut rest = rest.get(addresses..).unwrap_or_default();
    // Type, length and value of each addition.
    while let [kind, high, low, values @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some((value, after)) = values.split_at_checked(length) else { return false };
        if *kind == SSL {
            return value.first().is_some_and(|client| client & CLIENT_BIT != 0);
        }
        rest = after;
    }
    false
}

/// Reads version 1. The outer option is `None` if it is malformed.
fn text(header: &[u8]) -> Option<Option<SocketAddr>> {
    let line = str::from_utf8(header.strip_prefix(TEXT)?.strip_suffix(b"\r\n")?).ok()?;
    let mut words = line.split(' ');
    let family = words.next()?;
    if family == "UNKNOWN" {
        return Some(None);
    }
    let mut address = || -> Option<IpAddr> {
        let word = words.next()?;
        match family {
            "TCP4" => word.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => word.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let (client, _server) = (address()?, address()?);
    let mut port = || -> Option<u16> {
        let word = words.next()?;
        // `parse` would also accept a sign.
        word.bytes().all(|byte| byte.is_ascii_digit()).then(|| word.parse().ok())?
    };
    let (port, _server) = (port()?, port()?);
    words.next().is_none().then(|| Some(SocketAddr::new(client.to_canonical(), port)))
}

/// Reads version 2 behind its signature. The outer option is `None` if it is malformed.
fn binary(rest: &[u8]) -> Option<Option<SocketAddr>> {
    let (&[command, family, high, low], rest) = rest.split_first_chunk::<4>()?;
    if rest.len() != usize::from(u16::from_be_bytes([high, low])) {
        return None;
    }
    match command {
        // LOCAL: the addresses are to be ignored.
        0x20 => return Some(None),
        0x21 => (),
        _ => return None,
    }
    let port = |rest: &[u8], at: usize| {
        rest.get(at..at + 2).map(|port| u16::from_be_bytes([port[0], port[1]]))
    };
    Some(match family {
        0x11 => {
            let address = Ipv4Addr::from(*rest.first_chunk::<4>()?);
            port(rest, 10)?;
            Some(SocketAddr::new(address.into(), port(rest, 8)?))
        }
        0x21 => {
            let address = IpAddr::from(*rest.first_chunk::<16>()?).to_canonical();
            port(rest, 34)?;
            Some(SocketAddr::new(address, port(rest, 32)?))
        }
        // Unspecified, datagrams, or a Unix socket: no address of a network.
        _ if family >> 4 <= 3 && family & 15 <= 2 => None,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
