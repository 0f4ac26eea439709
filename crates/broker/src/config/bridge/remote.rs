//! The address of a remote broker.

use std::fmt;
use std::str::FromStr;

use phalanx_config::{Given, Value, Written};
use phalanx_tls::Authority;

/// The address of a remote broker, such as `mqtts://broker.example.org`.
///
/// ```
/// use phalanx_broker::Remote;
///
/// let remote: Remote = "mqtts://broker.example.org".parse()?;
/// assert_eq!((remote.is_tls, remote.port), (true, 8883));
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Whether the connection uses TLS.
    pub is_tls: bool,
    /// A host name or an IP address.
    pub host: String,
    /// The TCP port.
    pub port: u16,
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "mqtts" } else { "mqtt" };
        let Self { host, port, .. } = self.clone();
        write!(f, "{scheme}://{}", Authority { host, port })
    }
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            // It may contain a password, and errors are shown.
            let shown = if text.contains('@') { "the URL" } else { text };
            format!("{shown:?}: expected {}", <Self as Value>::expected())
        };
        let (scheme, rest) = text.split_once("://").unwrap_or(("mqtt", text));
        let is_tls = match scheme {
            "mqtt" => false,
            "mqtts" => true,
            _ => return Err(wrong()),
        };
        let default_port = if is_tls { 8883 } else { 1883 };
        let Authority { host, port } = Authority::parse(rest, default_port)
            .map_err(|reason| format!("{}: {reason}", wrong()))?;
        Ok(Self { is_tls, host, port })
    }
}

impl Value for Remote {
    fn kind() -> String {
        "url".into()
    }

    fn expected() -> String {
        "a URL such as \"mqtt://HOST:1883\", or \"mqtts://HOST\" for TLS; the default ports are 1883 and 8883".into()
    }

    fn read(value: &Given<'_>) -> Result<Self, String> {
        value.as_str().and_then(|text| text.parse().ok()).ok_or_else(String::new)
    }

    fn print(value: &Self) -> Written {
        value.to_string().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_remote_brokers() {
        for (text, printed) in [
            ("mqtt://a", "mqtt://a:1883"),
            ("a.example.org:7", "mqtt://a.example.org:7"),
            ("mqtts://[::1]", "mqtts://[::1]:8883"),
            ("mqtts://[::1]:9", "mqtts://[::1]:9"),
            ("mqtt://10.0.0.1:1", "mqtt://10.0.0.1:1"),
        ] {
            let remote: Remote = text.parse().unwrap();
            assert_eq!(remote.to_string(), printed);
            assert_eq!(printed.parse::<Remote>().unwrap(), remote);
        }
        for text in ["", "ws://a", "a:0", "a:x", "mqtt://", "a/b", "[::1", "[::1]8", "mqtt://u@a"] {
            assert!(text.parse::<Remote>().is_err(), "{text}");
        }
    }
}
