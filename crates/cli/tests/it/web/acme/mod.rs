//! Certificates from Pebble, an ACME authority for tests.
//!
//! `.ci/run` installs it in `bin` of the folder named by the environment variable `PHALANX_PEERS`. Without it, the tests
//! that need it are left out with a message.

mod authorities;
mod failures;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use phalanx_testkit::authority::Authority;
use phalanx_testkit::eventually;
use phalanx_testkit::http::get;
use phalanx_testkit::process::Signal;
use tempfile::TempDir;

use self::authorities::{Gate, Pebble, free_port, pebble};
use crate::on_one_driver;
use crate::server::{Server, bare};

on_one_driver!(
    by_http,
    by_tls,
    renewed_and_kept,
    a_reload_keeps_the_order,
    renewed_as_advised,
    renamed_hosts,
    two_processes
);

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
        let (listen, chosen) = match challenge {
            "http-01" => (r#""https://127.0.0.1:0", "redirect-https://127.0.0.1:0""#, challenge),
            // An address that others reach.
            "auto" => (r#""https://127.0.0.1:0", "redirect-https://0.0.0.0:0""#, challenge),
            _ => (r#""https://127.0.0.1:0""#, "auto"),
        };
        let (ca, account) = (authority.certificate(), ACCOUNT[0]);
        let text = format!(
            r#"listen = [{listen}]
            [acme]
            directory = "https://localhost:{port}/dir"
            accept-terms = true
            contact = ["admin@a.test"]
            storage = "acme"
            challenge = "{chosen}"
            ca = {ca:?}
            external-account = "{account}"
            external-key = "key"
            [access-log]
            format = "$request $status"
            target = "./log"
            [[host]]
            server-names = ["a.test", "www.a.test"]
            root = "site"
            "#
        );
        let arguments = ["--max-queue-delay", "0", "--admin", "127.0.0.1:0"];
        let server = Server::configured(driver, home.path(), &text, &arguments);
        let http = listen.contains("redirect").then(|| server.next_address());
        Self { home, authority, port, server, http }
    }

    /// Starts the authority, whose certificates are valid for `seconds`.
    fn authority(&self, program: &Path, seconds: u32) -> Pebble {
        let http = self.http.map_or(1, |address| address.port());
        Pebble::start(program, self, seconds, (http, self.server.address.port()))
    }

    /// The server once more.
    fn command(&self, driver: &str) -> Command {
        let mut command = bare();
        command.args(["web", "--driver", driver, "--admin", "127.0.0.1:0", "--config"]);
        command.arg(self.home.path().join("web.toml"));
        command
    }

    /// Starts the server again.
    fn restart(&mut self, driver: &str) {
        self.server.ends_well();
        self.server = Server::launch(self.command(driver));
    }

    /// Reloads the configuration, for the `n`-th time.
    fn reload(&self, n: usize) {
        self.server.signal(Signal::HUP);
        self.logged(&format!("reloaded; configuration version {}", n + 1));
    }

    /// A file in the folder of the authority.
    fn stored(&self, name: &str) -> PathBuf {
        self.home.path().join(format!("acme/localhost-{}-dir/{name}", self.port))
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
    for file in ["account.json", "a.test.pem"] {
        let mode = fs::metadata(setting.stored(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    if let Some(http) = setting.http {
        // The server no longer serves the responses to the challenges.
        let challenges = eventually("the challenges in the log", || {
            let log = fs::read_to_string(setting.home.path().join("log")).ok()?;
            let lines = log.lines().filter(|line| line.ends_with(" 200"));
            let path = |line: &str| line.split("\\x20").nth(1).map(str::to_owned);
            let paths: Vec<_> = lines.filter_map(path).collect();
            (paths.len() >= 2).then_some(paths)
        });
        for path in challenges {
            assert!(path.starts_with("/.well-known/acme-challenge/"), "{path}");
            assert_eq!(get(http, &path).status, 308, "{path}");
        }
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
    let authority = setting.authority(&program, 15);
    setting.server.signal(Signal::HUP);
    setting.logged("certificate issued");
    let first = setting.shown("a.test");
    eventually("another certificate", || {
        let shown = setting.shown("a.test");
        assert!(shown.contains("BEGIN CERTIFICATE"), "there is one all the time: {shown}");
        (certificate(&shown) != certificate(&first)).then_some(())
    });
    authority.end();
    setting.server.ends_well();
    let stored = fs::read_to_string(setting.stored("a.test.pem"));
    setting.server = Server::launch(setting.command(driver));
    assert!(stored.unwrap().contains(certificate(&setting.shown("a.test"))));
}

/// An order in progress continues while the configuration is reloaded.
fn a_reload_keeps_the_order(driver: &'static str) {
    let Some(program) = pebble() else { return };
    let setting = Setting::new(driver, "http-01");
    setting.logged("no certificate");
    let gate = Gate::new(setting.http.unwrap());
    let ports = (gate.port, setting.server.address.port());
    let authority = Pebble::start(&program, &setting, 7_776_000, ports);
    setting.server.signal(Signal::HUP);
    gate.has_clients();
    setting.reload(2);
    gate.open();
    setting.logged("certificate issued, valid for");
    assert_eq!(authority.end(), 1, "orders");
}

/// A certificate is renewed when the authority advises it (RFC 9773).
fn renewed_as_advised(driver: &'static str) {
    let Some(program) = pebble() else { return };
    let mut setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    // The server needs a fixed port, because the authority connects to the same port after the restart.
    let file = setting.home.path().join("web.toml");
    let text = fs::read_to_string(&file).unwrap();
    let url = format!("https://127.0.0.1:{}", free_port());
    fs::write(&file, text.replace("https://127.0.0.1:0", &url)).unwrap();
    setting.restart(driver);
    let authority = setting.authority(&program, 7_776_000);
    setting.server.signal(Signal::HUP);
    setting.logged("certificate issued, valid for 89 days");
    let first = setting.shown("a.test");
    authority.advise_renewal(&fs::read_to_string(setting.stored("a.test.pem")).unwrap());
    setting.restart(driver);
    setting.logged("certificate issued, valid for 89 days");
    assert_ne!(certificate(&setting.shown("a.test")), certificate(&first));
    // No certificate is due, so this restart causes no order.
    setting.restart(driver);
    eventually("the gauges", || (setting.metric("acme_certificates_missing") == "0").then_some(()));
    assert_eq!(authority.end(), 2, "orders");
}

/// A host whose names change has its old certificate until the new one is issued.
fn renamed_hosts(driver: &'static str) {
    let Some(program) = pebble() else { return };
    let setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    let authority = setting.authority(&program, 7_776_000);
    setting.server.signal(Signal::HUP);
    setting.logged("certificate issued");
    let first = setting.shown("www.a.test");
    let file = setting.home.path().join("web.toml");
    let text = fs::read_to_string(&file).unwrap();
    let renamed = |names: &str| {
        fs::write(&file, text.replace(r#""a.test", "www.a.test""#, names)).unwrap();
    };
    renamed(r#""WWW.a.test", "a.test""#);
    setting.reload(2);
    assert_eq!(certificate(&setting.shown("www.a.test")), certificate(&first));
    assert_eq!(authority.end(), 1, "orders");
    renamed(r#""0.test", "www.a.test""#);
    setting.reload(3);
    setting.logged("0.test, www.a.test: no certificate");
    assert_eq!(certificate(&setting.shown("www.a.test")), certificate(&first));
}

/// A process that leaves the management of certificates to another process uses the issued ones.
fn two_processes(driver: &'static str) {
    let Some(program) = pebble() else { return };
    let mut setting = Setting::new(driver, "tls-alpn-01");
    setting.logged("no certificate");
    let _authority = setting.authority(&program, 7_776_000);
    setting.server.signal(Signal::HUP);
    setting.logged("certificate issued");
    let second = Server::launch(setting.command(driver));
    let _first = std::mem::replace(&mut setting.server, second);
    setting.logged("another process manages the certificates in");
    assert_eq!(setting.metric("acme_certificates"), "1");
    assert_eq!(setting.metric("acme_certificates_missing"), "0");
    assert!(setting.shown("a.test").contains("BEGIN CERTIFICATE"));
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
    let check = |args: &[&str]| {
        let mut command = bare();
        command.current_dir(home.path()).args(["web", "--check", "--server-names", "a.test"]);
        let output = command.args(args).output().unwrap();
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
    for (arguments, expected) in table {
        let (code, text) = check(arguments);
        assert!(code == Some(2) && text.contains(expected), "{arguments:?}: {text}");
    }
}
