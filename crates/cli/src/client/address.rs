//! Broker addresses: `mqtt://user@host:port` and its shorter forms.

use std::ffi::OsStr;
use std::net::Ipv6Addr;
use std::str::FromStr;

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use phalanx_tls::Authority;

/// A broker's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) user: Option<String>,
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether to use TLS.
    pub(super) tls: bool,
}

/// Parses an address for clap, whose own errors would contain a password in the text.
#[derive(Clone)]
pub(super) struct Parser;

impl TypedValueParser for Parser {
    type Value = Address;

    fn parse_ref(
        &self,
        command: &Command,
        _: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Address, Error> {
        let parsed = value.to_str().ok_or("it is not UTF-8".to_owned()).and_then(str::parse);
        parsed.map_err(|reason: String| {
            let message =
                format!("invalid address of the broker (--broker, PHALANX_BROKER): {reason}\n");
            Error::raw(ErrorKind::ValueValidation, message).with_cmd(command)
        })
    }
}

const PORT: u16 = 1883;
const TLS_PORT: u16 = 8883;

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, rest) = match text.split_once("://") {
            None => (false, text),
            Some(("mqtt" | "tcp", rest)) => (false, rest),
            Some(("mqtts" | "ssl" | "tls", rest)) => (true, rest),
            Some(("ws" | "wss", _)) => {
                return Err("WebSocket is not supported; use mqtt:// or mqtts://".into());
            }
            Some((other, _)) => {
                return Err(format!("unsupported scheme {other}://; use mqtt:// or mqtts://"));
            }
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains('/') {
            return Err("unexpected text after the port; topics are given by --topic".into());
        }
        let (user, authority) = match rest.rsplit_once('@') {
            Some((user, authority)) => (Some(user), authority),
            None => (None, rest),
        };
        if user.is_some_and(|user| user.contains(':')) {
            let reason = "a password on the command line is visible to others; use PHALANX_PASSWORD or --password-file";
            return Err(reason.into());
        }
        if user == Some("") {
            return Err("no name before the @".into());
        }
        let default_port = if tls { TLS_PORT } else { PORT };
        let Authority { host, port } = match authority.parse::<Ipv6Addr>() {
            // Without a port, brackets are not needed.
            Ok(_) => Authority { host: authority.to_owned(), port: default_port },
            Err(_) => Authority::parse(authority, default_port)?,
        };
        Ok(Self { user: user.map(str::to_owned), host, port, tls })
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.tls { "mqtts" } else { "mqtt" };
        let Self { host, port, .. } = self.clone();
        write!(f, "{scheme}://{}", Authority { host, port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let parts = |text: &str| {
            let Address { user, host, port, .. } = text.parse().unwrap();
            (user.unwrap_or_default(), host, port)
        };
        let address = |user: &str, host: &str, port| (user.to_owned(), host.to_owned(), port);
        assert_eq!(
            parts("mqtt://ann@broker.example:1884/"),
            address("ann", "broker.example", 1884)
        );
        assert_eq!(parts("ann@x@broker"), address("ann@x", "broker", 1883));
        assert_eq!(parts("localhost:7"), address("", "localhost", 7));
        assert_eq!(parts("mqtt://[::1]:7"), address("", "::1", 7));
        assert_eq!(
            (parts("[::1]"), parts("::1")),
            (address("", "::1", 1883), address("", "::1", 1883))
        );
        let sealed: Address = "mqtts://a".parse().unwrap();
        assert_eq!(
            (sealed.tls, sealed.port, sealed.to_string()),
            (true, 8883, "mqtts://a:8883".into())
        );
        for (text, expected) in [
            ("wss://a", "WebSocket is not supported"),
            ("http://a", "unsupported scheme http://"),
            ("mqtt://ann:secret@a", "PHALANX_PASSWORD"),
            ("mqtt://a:0", "not a port"),
            ("mqtt://a:x", "not a port"),
            ("mqtt://", "no host"),
            ("mqtt://@a", "no name"),
            ("mqtt://a/topic", "--topic"),
            ("[::1", "not closed"),
            ("[::1]x", ":PORT"),
        ] {
            let error = text.parse::<Address>().unwrap_err();
            assert!(error.contains(expected) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
