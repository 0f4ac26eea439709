//! The URL of a server.

use std::fmt;
use std::str::FromStr;

use percent_encoding::percent_decode_str;
use phalanx_tls::Authority;

/// The address of a server, such as `nats://nats.example.org:4222`, or `tls://` if the connection must be encrypted.
///
/// ```
/// use phalanx_nats::ServerAddress;
///
/// let server: ServerAddress = "nats://user:secret@nats.example.org".parse()?;
/// assert_eq!((server.host.as_str(), server.port, server.is_tls), ("nats.example.org", 4222, false));
/// // The credentials are not shown.
/// assert_eq!(server.to_string(), "nats://nats.example.org:4222");
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// Whether the connection must be encrypted.
    pub is_tls: bool,
    /// A host name or an IP address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
    /// The user and the password in the URL; without a password, the first is a token.
    pub login: Option<(String, Option<String>)>,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "tls" } else { "nats" };
        let Self { host, port, .. } = self.clone();
        write!(f, "{scheme}://{}", Authority { host, port })
    }
}

impl FromStr for ServerAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let invalid = || format!("{text:?}: expected nats://HOST:PORT, or tls://HOST:PORT for TLS");
        let (scheme, rest) = text.split_once("://").unwrap_or(("nats", text));
        let is_tls = match scheme {
            "nats" => false,
            "tls" => true,
            _ => return Err(invalid()),
        };
        let (login, rest) = match rest.rsplit_once('@') {
            None => (None, rest),
            Some((login, rest)) => {
                let decode = |part: &str| {
                    percent_decode_str(part).decode_utf8().map(Into::into).map_err(|_| invalid())
                };
                let (user, password) = match login.split_once(':') {
                    None => (login, None),
                    Some((user, password)) => (user, Some(decode(password)?)),
                };
                (Some((decode(user)?, password)), rest)
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let Authority { host, port } =
            Authority::parse(rest, 4222).map_err(|reason| format!("{}: {reason}", invalid()))?;
        Ok(Self { is_tls, host, port, login })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_servers() {
        for (text, expected) in [
            ("a", "nats://a:4222"),
            ("nats://a:7/", "nats://a:7"),
            ("tls://[::1]", "tls://[::1]:4222"),
            ("nats://u:p%40@10.0.0.1:1", "nats://10.0.0.1:1"),
        ] {
            let server: ServerAddress = text.parse().unwrap();
            assert_eq!(server.to_string(), expected);
        }
        let login = |text: &str| text.parse::<ServerAddress>().unwrap().login;
        assert_eq!(login("u:p%40@a"), Some(("u".into(), Some("p@".into()))));
        assert_eq!(login("token@a"), Some(("token".into(), None)));
        for text in ["", "http://a", "a:0", "a:x", "nats://", "a/b", "[::1", "[::1]8"] {
            assert!(text.parse::<ServerAddress>().is_err(), "{text}");
        }
    }
}
