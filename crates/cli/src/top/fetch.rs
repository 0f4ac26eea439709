//! Fetches snapshots from a program's admin address.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use phalanx::metrics::{SNAPSHOT_VERSION, Snapshot};
use phalanx_http::client::{Content, parse_response, write_get};
use phalanx_http::{Body, client};

/// Timeout for connecting, reading and writing.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum size of a response; a thousand processors with sixty stages need less.
const MAX_BODY_BYTES: u64 = 256 << 20;

/// Why there is no snapshot.
#[derive(Debug)]
pub(super) enum Failure {
    /// The address is unreachable.
    Unreachable(String, io::Error),
    /// The response is not that of a compatible Phalanx program.
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
            Self::Incompatible(name, why) => {
                write!(f, "{name} is not the admin address of a Phalanx program: {why}")
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

    /// Fetches a snapshot.
    pub(super) fn snapshot(&self) -> Result<Snapshot, Failure> {
        let answer = self.get().map_err(|error| Failure::Unreachable(self.0.clone(), error))?;
        let incompatible = |why: String| Failure::Incompatible(self.0.clone(), why);
        read(&answer).map_err(incompatible)
    }

    fn get(&self) -> io::Result<Vec<u8>> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "no such address");
        for address in self.0.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, TIMEOUT) {
                Ok(stream) => return ask(stream, address),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// Requests the snapshot with the IP address as host; a name would need `--admin-hosts`.
fn ask(mut stream: TcpStream, address: SocketAddr) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut request = Vec::new();
    // Without the scope of an IPv6 address, which is not part of `Host`.
    let host = SocketAddr::new(address.ip(), address.port()).to_string();
    write_get(&mut request, &host, "/snapshot.json", false);
    stream.write_all(&request)?;
    let mut answer = Vec::new();
    match stream.take(MAX_BODY_BYTES).read_to_end(&mut answer) {
        // A reset after the answer does not invalidate it.
        Err(error) if answer.is_empty() => Err(error),
        _ => Ok(answer),
    }
}

/// Parses the snapshot in a response.
fn read(answer: &[u8]) -> Result<Snapshot, String> {
    #[derive(Debug)]
    struct Version(u64);
    fn version(body: &[u8]) -> Option<Version> {
        let value: serde_json::Value = serde_json::from_slice(body).ok()?;
        value.get("version")?.as_u64().map(Version)
    }
    let response: Option<client::Response> =
        parse_response(answer, false).map_err(|error| error.to_string())?;
    let response = response.ok_or("incomplete response")?;
    if response.status != 200 {
        return Err(format!("status {} for /snapshot.json", response.status));
    }
    let body = &answer[response.head..];
    let body = match response.content {
        Content::Framed(Body::Length(length)) => {
            body.get(..length as usize).ok_or("truncated response")?
        }
        Content::Framed(_) | Content::UntilClose => body,
    };
    match version(body) {
        None => Err("/snapshot.json is not a snapshot".to_owned()),
        Some(Version(theirs)) if theirs != u64::from(SNAPSHOT_VERSION) => Err(format!(
            "its snapshots are of version {theirs}, and version {SNAPSHOT_VERSION} is understood; \
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
    fn invalid_responses_are_errors() {
        let whole =
            |body: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        for (answer, why) in [
            ("SSH-2.0\r\n\r\n".to_owned(), "not an HTTP/1 response"),
            ("HTTP/1.1 200 OK\r\n".to_owned(), "incomplete response"),
            ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), "status 404"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}".to_owned(), "truncated response"),
            (whole("<html>"), "not a snapshot"),
            (whole("{\"version\":77}"), "version 77"),
            (whole("{\"version\":1}"), "missing field"),
        ] {
            let said = read(answer.as_bytes()).expect_err(why);
            assert!(said.contains(why), "{said}");
        }
    }
}
