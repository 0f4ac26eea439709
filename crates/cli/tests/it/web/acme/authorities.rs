//! Authorities for tests, and their ways to the server.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use phalanx_testkit::authority::Authority;
use phalanx_testkit::eventually;
use phalanx_testkit::process::{Process, curl_output};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::{ACCOUNT, Setting};

/// Path of Pebble. If it is missing, prints a message past the test harness.
pub(super) fn pebble() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers");
    let folder = std::env::var_os("PHALANX_PEERS").map_or(default, PathBuf::from);
    let path = folder.join("bin/pebble");
    if path.exists() {
        return Some(path);
    }
    let message =
        format!("LEFT OUT: Pebble is not at {}; `.ci/run peers` brings it\n", path.display());
    let _ = std::io::stderr().write_all(message.as_bytes());
    None
}

/// A running Pebble.
pub(super) struct Pebble {
    process: Process,
    /// Port of its management interface.
    management: u16,
}

impl Pebble {
    /// Starts the authority of `setting`, whose certificates are valid for `seconds`. It sends the requests of HTTP-01
    /// challenges to the port `http`, and makes the handshakes of TLS-ALPN-01 at the port `tls`.
    pub(super) fn start(
        program: &Path,
        setting: &Setting,
        seconds: u32,
        (http, tls): (u16, u16),
    ) -> Self {
        let pair = setting.authority.sign("pebble", &["localhost"]);
        let management = free_port();
        let config = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", setting.port),
            "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": pair.certificate,
            "privateKey": pair.key,
            "httpPort": http,
            "tlsPort": tls,
            "externalAccountBindingRequired": true,
            "externalAccountMACKeys": { ACCOUNT[0]: ACCOUNT[1] },
            "profiles": { "default": { "description": "", "validityPeriod": seconds } },
        } });
        let file = setting.home.path().join("pebble.json");
        fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(program);
        command.arg("-config").arg(&file).args(["-dnsserver", &name_server().to_string()]);
        command.envs([
            ("PEBBLE_VA_NOSLEEP", "1"),
            ("PEBBLE_WFE_NONCEREJECT", "0"),
            ("PEBBLE_AUTHZREUSE", "0"),
        ]);
        let process = Process::start(command);
        for port in [setting.port, management] {
            eventually("the authority", || TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok());
        }
        Self { process, management }
    }

    /// Makes it advise to renew a certificate in PEM immediately.
    pub(super) fn advise_renewal(&self, certificate: &str) {
        let window = json!({ "start": "2020-01-01T00:00:00Z", "end": "2020-01-02T00:00:00Z" });
        let response = json!({ "suggestedWindow": window }).to_string();
        let body = json!({ "Certificate": certificate, "ARIResponse": response }).to_string();
        let url = format!("https://127.0.0.1:{}/set-renewal-info/", self.management);
        curl_output(&["--insecure", "--fail", "--data-binary", &body, &url]);
    }

    /// Ends it. Returns the number of orders that it got.
    pub(super) fn end(mut self) -> usize {
        self.process.kill();
        let lines = std::iter::from_fn(|| self.process.next_line());
        lines.filter(|line| line.contains("POST /order-plz")).count()
    }
}

/// Answers all questions for IPv4 addresses with 127.0.0.1 over TCP, which Pebble uses, until the tests end.
fn name_server() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            thread::spawn(move || while answer(&client).is_ok() {});
        }
    });
    address
}

/// Answers a question: a length, a header, labels, the zero at their end, type and class.
fn answer(mut client: &TcpStream) -> std::io::Result<()> {
    let mut length = [0; 2];
    client.read_exact(&mut length)?;
    let mut packet = vec![0; u16::from_be_bytes(length).into()];
    client.read_exact(&mut packet)?;
    let labels = packet[12..].iter().position(|&byte| byte == 0).unwrap();
    packet.truncate(12 + labels + 5);
    let is_ipv4 = packet.ends_with(&[0, 1, 0, 1]);
    packet[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, is_ipv4.into(), 0, 0, 0, 0]);
    if is_ipv4 {
        packet.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    client.write_all(&[&(packet.len() as u16).to_be_bytes()[..], &packet].concat())
}

/// A free port that the kernel gives to no other socket: its range begins at 32,768.
pub(super) fn free_port() -> u16 {
    eventually("a free port", || {
        let port = 20_000 + (RandomState::new().build_hasher().finish() % 12_000) as u16;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    })
}

/// A way to `server` that is closed until it is opened. Clients wait in front of it.
pub(super) struct Gate {
    pub(super) port: u16,
    is_open: Arc<AtomicBool>,
    clients: Arc<AtomicUsize>,
}

impl Gate {
    pub(super) fn new(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (is_open, clients) = <(Arc<AtomicBool>, Arc<AtomicUsize>)>::default();
        let (open, count) = (is_open.clone(), clients.clone());
        thread::spawn(move || {
            while let Ok((client, _)) = listener.accept() {
                count.fetch_add(1, Ordering::Relaxed);
                let open = open.clone();
                thread::spawn(move || {
                    eventually("the gate", || open.load(Ordering::Relaxed).then_some(()));
                    // The end of a client is no failure of the test.
                    let _ = pass(client, server);
                });
            }
        });
        Self { port, is_open, clients }
    }

    pub(super) fn has_clients(&self) {
        eventually("a client", || (self.clients.load(Ordering::Relaxed) > 0).then_some(()));
    }

    pub(super) fn open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }
}

/// Passes bytes in both directions.
fn pass(client: TcpStream, server: SocketAddr) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = std::io::copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Write)
    });
    std::io::copy(&mut &server, &mut &client)?;
    client.shutdown(Shutdown::Both)
}

/// A response: the status, with further fields, and the content.
type Response = (String, serde_json::Value);

/// An authority that refuses all accounts: the first requests with these statuses, and further ones with the last of
/// them. Returns the number of its requests for an account.
pub(super) fn refusing_authority(
    authority: &Authority,
    port: u16,
    statuses: &'static [&'static str],
) -> Arc<AtomicUsize> {
    let refused = Arc::new(AtomicUsize::new(0));
    let count = refused.clone();
    serve(authority, port, move |_| {
        let before = count.fetch_add(1, Ordering::Relaxed);
        let kind = "urn:ietf:params:acme:error:rateLimited";
        let problem = json!({ "type": kind, "detail": "too many accounts" });
        (statuses[before.min(statuses.len() - 1)].to_owned(), problem)
    });
    refused
}

/// An authority that has reached a limit of orders. Returns the number of its requests for one.
pub(super) fn limiting_authority(authority: &Authority, port: u16) -> Arc<AtomicUsize> {
    let orders = Arc::new(AtomicUsize::new(0));
    let count = orders.clone();
    let detail = "wait\nphalanx: forged";
    let problem = move |kind: &str| json!({ "type": format!("urn:ietf:params:acme:error:{kind}"), "detail": detail });
    serve(authority, port, move |path| match path {
        "/account" => {
            let created = format!("201 Created\r\nLocation: https://localhost:{port}/account/1");
            (created, json!({ "status": "valid" }))
        }
        "/order" => {
            count.fetch_add(1, Ordering::Relaxed);
            ("429 Too Many Requests\r\nRetry-After: 7200".to_owned(), problem("rateLimited"))
        }
        _ => ("404 Not Found".to_owned(), problem("malformed")),
    });
    orders
}

/// An authority that proves the control of names in the DNS only.
pub(super) fn dns_authority(authority: &Authority, port: u16) {
    serve(authority, port, move |path| {
        let url = |name: &str| format!("https://localhost:{port}/{name}");
        let created = |name: &str| format!("201 Created\r\nLocation: {}", url(name));
        let identifier = json!({ "type": "dns", "value": "a.test" });
        match path {
            "/account" => (created("account/1"), json!({ "status": "valid" })),
            "/authorization" => {
                let challenge = json!({
                    "type": "dns-01", "url": url("challenge"), "token": "t", "status": "pending"
                });
                let challenges = [challenge];
                let authorization = json!({ "identifier": identifier, "status": "pending", "challenges": challenges });
                ("200 OK".to_owned(), authorization)
            }
            // A new order, or the same one.
            _ => {
                let order = json!({
                    "status": "pending", "identifiers": [identifier],
                    "authorizations": [url("authorization")], "finalize": url("finalize")
                });
                (created("order/1"), order)
            }
        }
    });
}

/// Serves the directory and nonces of an authority, and for all other paths the responses of `answer`.
fn serve(
    authority: &Authority,
    port: u16,
    answer: impl Fn(&str) -> Response + Send + Sync + 'static,
) {
    let pair = authority.sign("authority", &["localhost"]);
    let chain = CertificateDer::pem_file_iter(&pair.certificate).unwrap().map(Result::unwrap);
    let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let config = Arc::new(config);
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let session = ServerConnection::new(config.clone()).unwrap();
            // The end of a client is no failure of the test.
            let _ = respond(StreamOwned::new(session, client), port, &answer);
        }
    });
}

/// Answers one request, and closes.
fn respond(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    port: u16,
    answer: &dyn Fn(&str) -> Response,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        request.extend(byte);
    }
    let request = String::from_utf8_lossy(&request).to_ascii_lowercase();
    let length = request.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    stream.read_exact(&mut vec![0; length])?;
    let path = request.split(' ').nth(1).unwrap();
    let url = |name: &str| format!("https://localhost:{port}/{name}");
    let (status, body) = match path {
        "/dir" => {
            let directory = json!({
                "newNonce": url("nonce"), "newAccount": url("account"), "newOrder": url("order"),
                "renewalInfo": url("renewal")
            });
            ("200 OK".to_owned(), directory.to_string())
        }
        "/nonce" => ("200 OK".to_owned(), String::new()),
        path => {
            let (status, body) = answer(path);
            (status, body.to_string())
        }
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nReplay-Nonce: n\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(&[head, body].concat().into_bytes())?;
    stream.conn.send_close_notify();
    stream.flush()
}
