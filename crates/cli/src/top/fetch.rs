//! Fetches snapshots from a program's admin address.

use std::io;
use std::net::ToSocketAddrs;

use phalanx::metrics::{SNAPSHOT_VERSION, Snapshot};

use crate::admin::{TIMEOUT, get};

/// Why there is no snapshot.
#[derive(Debug)]
pub(super) enum Failure {
    /// The address is unreachable.
    Unreachable(String, io::Error),
    /// The program does not answer.
    Silent(String),
    /// The response does not come from a compatible Phalanx program.
    Incompatible(String, String),
    /// The program was restarted between two snapshots.
    Restarted,
    /// The terminal failed.
    Terminal(io::Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(name, error) => write!(
                f,
                "cannot reach {name}: {error}; start the program with its admin address, as in \
                 `phalanx web --admin 127.0.0.1:8081`"
            ),
            Self::Silent(name) => write!(
                f,
                "{name} does not answer within {TIMEOUT:?}; the program may be blocked: its stderr reports stalls"
            ),
            Self::Incompatible(name, reason) => {
                write!(f, "{name} is not the admin address of a Phalanx program: {reason}")
            }
            Self::Restarted => f.write_str("the program was restarted; try again"),
            Self::Terminal(error) => write!(f, "cannot use the terminal: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Terminal(error)
    }
}

/// The admin address of a program.
pub(super) struct Target(String);

impl Target {
    /// Parses `HOST:PORT`, optionally with `http://` and a path.
    pub(super) fn new(address: &str) -> Self {
        let address = address.strip_prefix("http://").unwrap_or(address);
        Self(address.split('/').next().unwrap_or_default().to_owned())
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// Fetches a snapshot. Requests it with the IP address as host; a name would need `--admin-hosts`.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Failure> {
        let unreachable = |error| Failure::Unreachable(self.0.clone(), error);
        let mut last_failure =
            unreachable(io::Error::new(io::ErrorKind::NotFound, "no such address"));
        for address in self.0.to_socket_addrs().map_err(unreachable)? {
            match get(address, "/snapshot.json") {
                Ok(body) => {
                    return parse(&body)
                        .map_err(|reason| Failure::Incompatible(self.0.clone(), reason));
                }
                Err(ureq::Error::Io(error)) => last_failure = unreachable(error),
                Err(error @ ureq::Error::ConnectionFailed) => {
                    last_failure = unreachable(io::Error::other(error));
                }
                Err(ureq::Error::Timeout(_)) => last_failure = Failure::Silent(self.0.clone()),
                Err(error) => return Err(Failure::Incompatible(self.0.clone(), error.to_string())),
            }
        }
        Err(last_failure)
    }
}

/// Parses a snapshot.
fn parse(body: &[u8]) -> Result<Snapshot, String> {
    let value: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let version = value.as_ref().and_then(|value| value.get("version")?.as_u64());
    match version {
        None => Err("/snapshot.json is not a snapshot".to_owned()),
        Some(version) if version != u64::from(SNAPSHOT_VERSION) => Err(format!(
            "its snapshots are of version {version}, and version {SNAPSHOT_VERSION} is understood; \
             use the `phalanx` that belongs to it"
        )),
        Some(_) => serde_json::from_slice(body).map_err(|error| error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for text in ["localhost:81", "http://localhost:81", "http://localhost:81/metrics"] {
            assert_eq!(Target::new(text).name(), "localhost:81");
        }
    }

    #[test]
    fn a_program_that_does_not_answer_is_not_taken_for_a_wrong_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::new(&listener.local_addr().unwrap().to_string());
        let failure = target.snapshot().unwrap_err();
        assert!(matches!(failure, Failure::Silent(_)), "{failure}");
    }

    /// Only on a machine with such an address.
    #[test]
    fn the_scope_of_an_address_is_used() {
        let interfaces = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
        let Some(line) = interfaces.lines().find(|line| line.starts_with("fe80")) else { return };
        let fields: Vec<_> = line.split_whitespace().collect();
        let ip = std::net::Ipv6Addr::from_bits(u128::from_str_radix(fields[0], 16).unwrap());
        let scope = u32::from_str_radix(fields[1], 16).unwrap();
        let listener = std::net::TcpListener::bind("[::]:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let failure = Target::new(&format!("[{ip}%{scope}]:{port}")).snapshot().unwrap_err();
        assert!(failure.to_string().contains("refused"), "{failure}");
    }

    #[test]
    fn invalid_snapshots_are_errors() {
        for (body, reason) in [
            ("<html>", "not a snapshot"),
            ("{\"version\":77}", "version 77"),
            ("{\"version\":1}", "missing field"),
        ] {
            let error = parse(body.as_bytes()).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }
}
