//! Certificates from Pebble, an ACME authority for tests.
//!
//! `.ci/run` installs it in `bin` of the folder named by the environment variable `PHALANX_PEERS`. Without it, the tests
//! that need it are left out with a message.

use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use phalanx_testkit::authority::Authority;
use phalanx_testkit::eventually;
use phalanx_testkit::http::get;
use phalanx_testkit::process::{Process, Signal};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;
use tempfile::TempDir;

use crate::on_each_driver;
use crate::server::{Server, bare};

on_each_driver!(by_http, by_tls, renewed_and_kept, limits_are_respected);

/// Path of Pebble. If it is missing, prints a message past the test harness.
fn pebble() -> Option<PathBuf> {
    let default = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../peers");
    let folder = std::env::var_os("PHALANX_PEERS").map_or(default, PathBuf::from);
    let path = folder.join("bin/pebble");
    if path.exists() {
        return Some(path);
    }
    let said =
        format!("LEFT OUT: Pebble is not at {}; `.ci/run peers` brings it\n", path.display());
    let _ = std::io::stderr().write_all(said.as_bytes());
    None
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
fn free_port() -> u16 {
    eventually("a free port", || {
        let port = 20_000 + (RandomState::new().build_hasher().finish() % 12_000) as u16;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    })
}

/// A server that gets the certificate of `a.test` and `www.a.test` from an authority that is not there yet.
struct Setting {
    home: TempDir,
    authority: Authority,
    port: u16,
    server: Server,
    http: Option<SocketAddr>,
}

/// Account at the authority and its MAC key.
const ACCOUNT: [&str; 2] =
    ["kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"];

impl Setting {
    fn new(driver: &str, challenge: &str) -> Self {
        let (home, authority) = (tempfile::tempdir().unwrap(), Authority::new());
        let port = free_port();
        fs::create_dir(home.path().join("site")).unwrap();
        fs::write(home.path().join("site/small"), "small").unwrap();
        fs::write(home.path().join("key"), ACCOUNT[1]).unwrap();
        let listen = match challenge {
            "http-01" => r#""https://127.0.0.1:0", "redirect-https://127.0.0.1:0""#,
            _ => r#""https://127.0.0.1:0""#,
        };
        let (ca, account) = (authority.certificate(), ACCOUNT[0]);
        let text = format!(
            r#"listen = [{listen}]
            [acme]
            directory = "https://localhost:{port}/dir"
            accept-terms = true
            contact = ["admin@a.test"]
            storage = "acme"
            ca = {ca:?}
            external-account = "{account}"
            external-key = "key"
            [[host]]
            server-names = ["a.test", "www.a.test"]
            root = "site"
            "#
        );
        let arguments = ["--max-queue-delay", "0", "--admin", "127.0.0.1:0"];
        let server = Server::configured(driver, home.path(), &text, &arguments);
        let http = (challenge == "http-01").then(|| server.next_address());
        Self { home, authority, port, server, http }
    }

    /// Starts the authority, whose certificates are valid for `seconds`.
    fn authority(&self, program: &Path, seconds: u32) -> Process {
        let pair = self.authority.sign("pebble", &["localhost"]);
        let config = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.port),
            "certificate": pair.certificate,
            "privateKey": pair.key,
            "httpPort": self.http.map_or(1, |address| address.port()),
            "tlsPort": self.server.address.port(),
            "externalAccountBindingRequired": true,
            "externalAccountMACKeys": { ACCOUNT[0]: ACCOUNT[1] },
            "profiles": { "default": { "description": "", "validityPeriod": seconds } },
        } });
        let file = self.home.path().join("pebble.json");
        fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(program);
        command.arg("-config").arg(&file).args(["-dnsserver", &name_server().to_string()]);
        command.envs([
            ("PEBBLE_VA_NOSLEEP", "1"),
            ("PEBBLE_WFE_NONCEREJECT", "0"),
            ("PEBBLE_AUTHZREUSE", "0"),
        ]);
        let process = Process::start(command);
        eventually("the authority", || TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok());
        process
    }

    fn logged(&self, what: &str) {
        eventually(what, || self.server.stderr().contains(what).then_some(()));
    }

    /// The first certificate that the server sends for a name, in PEM, and its issuer.
    fn shown(&self, name: &str) -> String {
        let address = self.server.address.to_string();
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &address, "-servername", name])
            .stdin(Stdio::null())
            .output();
        String::from_utf8_lossy(&output.expect("openssl is installed").stdout).into_owned()
    }

    fn metric(&self, name: &str) -> String {
        let metrics = get(self.server.admin(), "/metrics");
        let text = String::from_utf8_lossy(&metrics.body).into_owned();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in {text}")).to_owned()
    }
}

/// The authority appears after a failure: the server serves meanwhile, and SIGHUP makes it try again.
fn issued(driver: &'static str, challenge: &'static str) {
    let Some(program) = pebble() else { return };
    let setting = Setting::new(driver, challenge);
    setting.logged("a.test, www.a.test: no certificate");
    setting.logged("next attempt in 5 minutes, or at SIGHUP");
    assert!(!setting.shown("a.test").contains("BEGIN CERTIFICATE"));
    assert_eq!(setting.metric("acme_certificates_missing"), "1");
    let _authority = setting.authority(&program, 7_776_000);
    setting.server.signal(Signal::HUP);
    setting.logged(&format!(
        "a.test, www.a.test: certificate issued, valid for 89 days ({challenge})"
    ));
    for name in ["a.test", "www.a.test"] {
        let shown = setting.shown(name);
        assert!(
            shown.contains("BEGIN CERTIFICATE") && shown.contains("Pebble Intermediate"),
            "{shown}"
        );
    }
    eventually("the gauges", || (setting.metric("acme_certificates_missing") == "0").then_some(()));
    assert_eq!(setting.metric("acme_orders_total{result=\"issued\"}"), "1");
    assert_eq!(setting.metric("acme_orders_total{result=\"failed\"}"), "1");
    let folder = setting.home.path().join(format!("acme/localhost-{}-dir", setting.port));
    for file in ["account.json", "a.test.pem"] {
        let mode = fs::metadata(folder.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    if let Some(http) = setting.http {
        // The response to the challenge is gone.
        let gone = get(http, "/.well-known/acme-challenge/x");
        assert_eq!(gone.status, 308);
    }
}

fn by_http(driver: &'static str) {
    issued(driver, "http-01");
}

fn by_tls(driver: &'static str) {
    issued(driver, "tls-alpn-01");
}

/// Certificates of a few seconds are renewed again and again; a restart uses the stored one without the authority.
fn renewed_and_kept(driver: &'static str) {
    let Some(program) = pebble() else { return };
    let mut setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    let mut authority = setting.authority(&program, 15);
    setting.server.signal(Signal::HUP);
    setting.logged("certificate issued");
    let first = setting.shown("a.test");
    eventually("another certificate", || {
        let shown = setting.shown("a.test");
        assert!(shown.contains("BEGIN CERTIFICATE"), "there is one all the time: {shown}");
        (certificate(&shown) != certificate(&first)).then_some(())
    });
    authority.kill();
    setting.server.ends_well();
    let stored = fs::read_to_string(
        setting.home.path().join(format!("acme/localhost-{}-dir/a.test.pem", setting.port)),
    );
    let mut command = bare();
    command.args(["web", "--driver", driver, "--config"]).arg(setting.home.path().join("web.toml"));
    setting.server = Server::launch(command);
    assert!(stored.unwrap().contains(certificate(&setting.shown("a.test"))));
}

/// An authority that refuses all accounts for two hours. Returns the number of its requests for an account.
fn refusing_authority(authority: &Authority, port: u16) -> Arc<AtomicUsize> {
    let pair = authority.sign("refusing", &["localhost"]);
    let chain = CertificateDer::pem_file_iter(&pair.certificate).unwrap().map(Result::unwrap);
    let key = PrivateKeyDer::from_pem_file(&pair.key).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let (config, refused) = (Arc::new(config), Arc::new(AtomicUsize::new(0)));
    let count = refused.clone();
    thread::spawn(move || {
        while let Ok((client, _)) = listener.accept() {
            let session = ServerConnection::new(config.clone()).unwrap();
            // The end of a client is no failure of the test.
            let _ = refuse(StreamOwned::new(session, client), port, &count);
        }
    });
    refused
}

/// Answers one request, and closes.
fn refuse(
    mut stream: StreamOwned<ServerConnection, TcpStream>,
    port: u16,
    refused: &AtomicUsize,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        request.extend(byte);
    }
    let path = request.split(|&byte| byte == b' ').nth(1).unwrap();
    let url = |name: &str| format!("https://localhost:{port}/{name}");
    let (status, body) = match path {
        b"/dir" => {
            let urls = ["nonce", "account", "order"].map(url);
            let directory =
                json!({ "newNonce": urls[0], "newAccount": urls[1], "newOrder": urls[2] });
            ("200 OK", directory.to_string())
        }
        b"/nonce" => ("200 OK", String::new()),
        _ => {
            refused.fetch_add(1, Ordering::Relaxed);
            let kind = "urn:ietf:params:acme:error:rateLimited";
            let problem = json!({ "type": kind, "detail": "too many accounts" });
            ("429 Too Many Requests\r\nRetry-After: 7200", problem.to_string())
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

/// The next attempt is at the time that the authority asked for, also after a restart, except for SIGHUP.
fn limits_are_respected(driver: &'static str) {
    let mut setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    let refused = refusing_authority(&setting.authority, setting.port);
    setting.server.signal(Signal::HUP);
    setting.logged("too many accounts (urn:ietf:params:acme:error:rateLimited)");
    setting.logged("next attempt in 2 hours, or at SIGHUP");
    setting.server.ends_well();
    let mut command = bare();
    command.args(["web", "--driver", driver, "--config"]).arg(setting.home.path().join("web.toml"));
    setting.server = Server::launch(command);
    setting.logged("a.test, www.a.test: no attempt after 2 failures for");
    assert_eq!(refused.load(Ordering::Relaxed), 1);
    setting.server.signal(Signal::HUP);
    setting.logged("too many accounts");
    assert_eq!(refused.load(Ordering::Relaxed), 2);
}

/// The certificate in the output of `openssl s_client`.
fn certificate(shown: &str) -> &str {
    let begin = shown.find("-----BEGIN CERTIFICATE").expect("a certificate");
    let end = shown.find("-----END CERTIFICATE").expect("its end");
    &shown[begin..end]
}

#[test]
fn a_check_tells_the_next_step() {
    let home = tempfile::tempdir().unwrap();
    let check = |more: &[&str]| {
        let mut command = bare();
        command.current_dir(home.path()).args(["web", "--check", "--server-names", "a.test"]);
        let output = command.args(more).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let tls = ["--listen", "https://127.0.0.1:0", "--acme-storage", "certs"];
    let (code, text) = check(&[&tls[..], &["--acme-accept-terms"]].concat());
    assert!(
        text.contains("acme: a.test: no certificate yet; orders one at https://acme-v02"),
        "{text}"
    );
    assert!(text.contains("with tls-alpn-01") && code == Some(0), "{text}");
    assert!(!home.path().join("certs").exists(), "a check makes nothing");
    // (arguments, expected error)
    let table: [(&[&str], &str); 5] = [
        (&tls, "accept-terms"),
        (&["--acme-accept-terms", "--acme-storage", "certs"], "no address uses TLS"),
        (&["--listen", "https://127.0.0.1:0", "--acme-accept-terms"], "`storage` is missing"),
        (&[&tls[..], &["--acme-accept-terms", "--server-names", "*.a.test"]].concat(), "*.a.test"),
        (
            &[&tls[..], &["--acme-accept-terms", "--acme-challenge", "http-01"]].concat(),
            "without TLS",
        ),
    ];
    for (arguments, wanted) in table {
        let (code, text) = check(arguments);
        assert!(code == Some(2) && text.contains(wanted), "{arguments:?}: {text}");
    }
}
