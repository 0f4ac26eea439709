//! TLS with curl and openssl.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::thread;

use phalanx_testkit::authority::{Authority, Pair, replace};
use phalanx_testkit::bytes::{assert_same, random_bytes};
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, End};
use phalanx_testkit::process::curl;
use phalanx_testkit::site::Site;
use rustix::process::Signal;

use crate::server::{Server, bare};
use crate::{on_each_driver, on_one_driver};

on_each_driver!(
    both_protocols,
    versions_and_protocols,
    sessions_are_resumed,
    plain_requests_get_an_error,
    incomplete_handshakes_time_out,
    drained,
    records_in_any_segments,
    by_name,
);
on_one_driver!(
    sessions_are_resumed_after_a_restart,
    renewed_while_it_runs,
    an_invalid_renewal_is_ignored,
);

const LARGE: usize = 5 << 20;

fn site() -> Site {
    let site = Site::new();
    site.file("small", "small");
    site.file("large", random_bytes(1, LARGE));
    site
}

fn start(driver: &str, site: &Site, pair: &Pair, args: &[&str]) -> Server {
    let arguments: Vec<_> = pair.arguments().into_iter().chain(args.iter().copied()).collect();
    Server::start_with(driver, &site.root(), &arguments)
}

/// Requests with curl by host `name`, trusting the authority. Returns its stdout.
fn ask(authority: &Authority, server: &Server, name: &str, path: &str, args: &[&str]) -> Output {
    let port = server.address.port();
    let ca = authority.certificate();
    let resolve = format!("{name}:{port}:127.0.0.1");
    let url = format!("https://{name}:{port}{path}");
    let own = ["--cacert", ca.to_str().unwrap(), "--resolve", &resolve, &url];
    curl(&[&own, args].concat())
}

#[track_caller]
fn ask_well(authority: &Authority, server: &Server, path: &str, args: &[&str]) -> Vec<u8> {
    let output = ask(authority, server, "a.test", path, args);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{path} {args:?}: {}: {errors}", output.status);
    output.stdout
}

/// Runs `openssl s_client` and returns its output.
fn openssl(server: &Server, arguments: &[&str]) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &server.address.to_string(), "-servername", "a.test"])
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let output = output.expect("these tests need openssl: install it");
    String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
}

/// The name in the certificate in use.
fn shown(server: &Server) -> String {
    let text = openssl(server, &[]);
    let begin = text.find("-----BEGIN CERTIFICATE").expect("a certificate");
    let end = text.find("-----END CERTIFICATE").expect("its end");
    text[begin..end].lines().skip(1).collect()
}

fn both_protocols(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    // A busy machine may stall an operation, which the server would report on stderr.
    let server = start(driver, &site, &pair, &["--stall-threshold", "0"]);
    for (flag, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        let out = ask_well(&authority, &server, "/small", &[flag, "-w", " %{http_version}"]);
        assert_eq!(String::from_utf8(out).unwrap(), format!("small {version}"));
        assert_same(&ask_well(&authority, &server, "/large", &[flag]), &random_bytes(1, LARGE));
        // Many requests on one connection, a range, and a missing file.
        let urls = format!("https://a.test:{}/small?[1-50]", server.address.port());
        let output =
            ask_well(&authority, &server, "/small", &[flag, &urls, "-w", "%{num_connects}"]);
        let output = String::from_utf8(output).unwrap();
        assert_eq!(output, format!("small1{}", "small0".repeat(50)));
        let part = ask_well(&authority, &server, "/large", &[flag, "-r", "100-299999"]);
        assert_same(&part, &random_bytes(1, LARGE)[100..300_000]);
        let none = ask_well(
            &authority,
            &server,
            "/none",
            &[flag, "-w", "%{http_code}", "-o", "/dev/null"],
        );
        assert_eq!(none, b"404");
    }
    // A certificate for another name is rejected.
    assert!(!ask(&authority, &server, "b.test", "/small", &[]).status.success());
    assert_eq!(server.stderr(), "");
}

fn versions_and_protocols(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let server = start(driver, &site, &pair, &[]);
    // (arguments, expected output)
    let table: [(&[&str], &str); 7] = [
        (&["-tls1_3"], "New, TLSv1.3"),
        (&["-tls1_2"], "New, TLSv1.2"),
        (&["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"], "New, (NONE)"),
        (&["-tls1", "-cipher", "ALL:@SECLEVEL=0"], "New, (NONE)"),
        (&["-alpn", "h2,http/1.1"], "ALPN protocol: h2"),
        (&["-alpn", "http/1.1"], "ALPN protocol: http/1.1"),
        (&["-alpn", "spdy/3"], "alert no application protocol"),
    ];
    for (arguments, expected) in table {
        let output = openssl(&server, arguments);
        assert!(output.contains(expected), "{arguments:?}: {output}");
    }
}

fn sessions_are_resumed(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let server = start(driver, &site, &pair, &[]);
    let session_file = site.outside().join("session");
    let session_file = session_file.to_str().unwrap();
    for version in ["-tls1_2", "-tls1_3"] {
        let output = openssl_request(&server, &[version, "-sess_out", session_file]);
        assert!(output.contains("New, TLSv1"), "{output}");
        let output = openssl_request(&server, &[version, "-sess_in", session_file]);
        assert!(output.contains("Reused, TLSv1"), "{version}: {output}");
    }
}

fn sessions_are_resumed_after_a_restart(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let key = site.outside().join("ticket-key");
    fs::write(&key, [0; 48]).unwrap();
    let start = || start(driver, &site, &pair, &["--ticket-key", key.to_str().unwrap()]);
    let session_file = site.outside().join("session");
    let session_file = session_file.to_str().unwrap();
    for (number, version) in [(1, "-tls1_2"), (2, "-tls1_3")] {
        let output = openssl_request(&start(), &[version, "-sess_out", session_file]);
        assert!(output.contains("New, TLSv1"), "{output}");
        let server = start();
        let output = openssl_request(&server, &[version, "-sess_in", session_file]);
        assert!(output.contains("Reused, TLSv1"), "{version}: {output}");
        // A reload reads the file again.
        fs::write(&key, [number; 48]).unwrap();
        server.reload();
        let output = openssl_request(&server, &[version, "-sess_in", session_file]);
        assert!(output.contains("New, TLSv1"), "{version}: {output}");
    }
}

/// Like [`openssl`], with a request: the tickets of TLS 1.3 come with the response.
fn openssl_request(server: &Server, arguments: &[&str]) -> String {
    let mut child = Command::new("openssl")
        .args(["s_client", "-connect", &server.address.to_string(), "-servername", "a.test"])
        .args(["-ign_eof"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("these tests need openssl: install it");
    let request = b"GET /small HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
    child.stdin.as_mut().unwrap().write_all(request).unwrap();
    let mut output = String::new();
    child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    child.wait().unwrap();
    output
}

fn renewed_while_it_runs(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let server = start(driver, &site, &pair, &[]);
    let before = shown(&server);
    assert_eq!(shown(&server), before);
    authority.sign("a", &["a.test"]);
    eventually("the new certificate", || (shown(&server) != before).then_some(()));
    eventually("a message", || server.stderr().contains("was reloaded").then_some(()));
    assert_eq!(ask_well(&authority, &server, "/small", &[]), b"small");
}

fn an_invalid_renewal_is_ignored(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let server = start(driver, &site, &pair, &[]);
    let before = shown(&server);
    let old = fs::read(&pair.key).unwrap();
    for broken in ["not a key", "-----BEGIN PRIVATE KEY-----\n!\n-----END PRIVATE KEY-----\n"] {
        let log_start = server.stderr().len();
        replace(&pair.key, broken);
        eventually("a message", || {
            assert_eq!(shown(&server), before);
            server.stderr()[log_start..]
                .contains("the previous certificate stays in use")
                .then_some(())
        });
    }
    // The key of another certificate.
    let other = authority.sign("other", &["a.test"]);
    replace(&pair.key, fs::read(&other.key).unwrap());
    eventually("a message about the mismatch", || {
        assert_eq!(shown(&server), before);
        server.stderr().contains("does not belong to the certificate").then_some(())
    });
    replace(&pair.key, old);
    eventually("the reload", || {
        assert_eq!(shown(&server), before);
        server.stderr().contains("was reloaded").then_some(())
    });
}

fn plain_requests_get_an_error(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let server = start(driver, &site, &pair, &[]);
    let mut client = Client::connect(server.address);
    let response = client.get("/small");
    assert_eq!(response.status, 400);
    assert!(response.has_connection_close());
    assert!(response.body.windows(8).any(|it| it == b"https://"), "the message names the remedy");
    // Neither HTTP nor TLS: an alert, and the end.
    let mut client = Client::connect(server.address);
    client.send([0x16, 3, 1, 0, 4, 1, 2, 3, 4]);
    let (bytes, _) = client.read_to_end();
    assert!(bytes.is_empty() || bytes[0] == 21, "an alert, if anything: {bytes:?}");
    assert_eq!(ask_well(&authority, &server, "/small", &[]), b"small");
}

fn incomplete_handshakes_time_out(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let server = start(driver, &site, &pair, &["--set", "handshake-timeout = '1s'"]);
    let mut silent = Client::connect(server.address);
    let mut slow = Client::connect(server.address);
    slow.send([0x16, 3, 1, 2, 0, 1]);
    for client in [&mut silent, &mut slow] {
        let (bytes, end) = client.read_to_end();
        assert_eq!((bytes.len(), end), (0, End::Closed));
    }
}

fn drained(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let mut server = start(driver, &site, &pair, &["--shutdown-timeout", "60s"]);
    let mut idle = Command::new("openssl")
        .args(["s_client", "-connect", &server.address.to_string(), "-servername", "a.test"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let request = b"GET /small HTTP/1.1\r\nHost: a.test\r\n\r\n";
    idle.stdin.as_mut().unwrap().write_all(request).unwrap();
    let mut output = Vec::new();
    let mut stdout = idle.stdout.take().unwrap();
    while !output.ends_with(b"\r\n\r\nsmall") {
        let mut piece = [0; 4096];
        let length = stdout.read(&mut piece).unwrap();
        assert!(length > 0, "{}", String::from_utf8_lossy(&output));
        output.extend_from_slice(&piece[..length]);
    }
    server.signal(Signal::TERM);
    stdout.read_to_end(&mut output).unwrap();
    idle.wait().unwrap();
    // openssl prints this if the connection ends with `close_notify`, but not on truncation.
    assert!(output.ends_with(b"closed\n"), "{}", String::from_utf8_lossy(&output));
    server.expect_success();
}

/// A proxy that forwards bytes in pieces of `size`.
fn cutter(server: SocketAddr, size: usize) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let pass = move |mut from: TcpStream, mut to: TcpStream| {
        let mut piece = vec![0; size];
        while let Ok(length @ 1..) = from.read(&mut piece) {
            if to.write_all(&piece[..length]).is_err() {
                return;
            }
        }
        let _ = to.shutdown(Shutdown::Write);
    };
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let server = TcpStream::connect(server).unwrap();
        for stream in [&client, &server] {
            stream.set_nodelay(true).unwrap();
        }
        let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || pass(back.0, back.1));
        pass(client, server);
    });
    address
}

fn records_in_any_segments(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    site.file("middle", random_bytes(2, 100_000));
    let pair = authority.sign("a", &["a.test"]);
    let server = start(driver, &site, &pair, &[]);
    let ca = authority.certificate();
    for size in [1, 5, 100, 1447, 20_000] {
        for version in ["--http1.1", "--http2"] {
            let port = cutter(server.address, size).port();
            let url = format!("https://a.test:{port}/{{small,middle,small}}");
            let resolve = format!("a.test:{port}:127.0.0.1");
            let ca = ca.to_str().unwrap();
            let output = curl(&["--cacert", ca, "--resolve", &resolve, version, &url]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{version} in pieces of {size}: {errors}");
            let expected = [b"small", &*random_bytes(2, 100_000), b"small"].concat();
            assert_same(&output.stdout, &expected);
        }
    }
}

fn by_name(driver: &'static str) {
    let (site, authority) = (site(), Authority::new());
    let [one, two] = [("one", "*.one.test"), ("two", "two.test")]
        .map(|(file, name)| (name, authority.sign(file, &[name])));
    let mut text = format!("listen = \"https://127.0.0.1:0\"\nruntime.driver = {driver:?}\n");
    for (name, pair) in [&one, &two] {
        let [_, certificate, _, key] = pair.arguments();
        text += &format!(
            "[[host]]\nserver-names = [{name:?}]\nroot = {:?}\n\
             tls = {{ certificate = {certificate:?}, key = {key:?} }}\n",
            site.root()
        );
    }
    let file = site.outside().join("phalanx.toml");
    fs::write(&file, text).unwrap();
    let mut command = bare();
    command.arg("web").args(["--config", file.to_str().unwrap()]);
    let server = Server::launch(command);
    for (name, works) in [("a.one.test", true), ("two.test", true), ("three.test", false)] {
        let output = ask(&authority, &server, name, "/small", &[]);
        assert_eq!(output.status.success(), works, "{name}: {output:?}");
    }
}

/// Errors of certificates are reported at the start, with the file name.
#[test]
fn errors_are_reported() {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign("a", &["a.test"]);
    let other = authority.sign("b", &["b.test"]);
    let place = |name: &str| site.outside().join(name).to_str().unwrap().to_owned();
    fs::write(place("empty"), "").unwrap();
    fs::write(place("text"), "-----BEGIN CERTIFICATE-----\n%%\n-----END CERTIFICATE-----\n")
        .unwrap();
    let [_, certificate, _, key] = pair.arguments();
    let [_, _, _, foreign] = other.arguments();
    // (certificate, key, message)
    let table = [
        (place("missing"), key, "cannot read"),
        (place("empty"), key, "has no certificate; expected PEM"),
        (place("text"), key, "is not PEM"),
        (certificate.to_owned(), &*place("empty"), "has no private key; expected PEM"),
        (certificate.to_owned(), certificate, "has no private key; expected PEM"),
        (certificate.to_owned(), foreign, "does not belong to the certificate in"),
    ];
    for (certificate, key, expected) in table {
        let mut command = bare();
        command.arg("web").arg(site.root()).args(["--listen", "https://127.0.0.1:0"]);
        command.args(["--tls-certificate", &certificate, "--tls-key", key]);
        let output = command.stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(expected) && stderr.lines().count() == 1, "{expected}: {stderr}");
    }
    let mut command = bare();
    command.arg("web").args(["--tls-certificate", certificate]);
    assert_eq!(command.output().unwrap().status.code(), Some(2), "a key is needed");
}

/// An expired certificate is used nevertheless, with a warning.
#[test]
fn an_expired_certificate_is_reported() {
    let (site, authority) = (site(), Authority::new());
    let pair = authority.sign_until("a", &["a.test"], 2001);
    let server = start("poll", &site, &pair, &[]);
    eventually("a message about the exit", || {
        server.stderr().contains("a.crt expired on Jan  1").then_some(())
    });
    assert!(!ask(&authority, &server, "a.test", "/small", &[]).status.success());
}
