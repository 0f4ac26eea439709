//! `allow` and `deny`: which addresses may connect. `real-ip-from`: which may name their clients.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use phalanx_testkit::authority::Authority;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::process::curl;
use phalanx_testkit::site::Site;

use crate::on_each_driver;
use crate::server::{Server, bare};
use crate::web::admin::openmetrics::parse;

on_each_driver!(
    lists_apply_to_new_connections,
    refused_before_tls,
    mapped_addresses_are_ipv4,
    named_by_load_balancers,
);

/// Requests `/file` with curl from a loopback address. Returns the body, or curl's exit status if there is no response.
fn ask(server: SocketAddr, from: &str) -> Result<String, i32> {
    let url = format!("http://{}:{}/file", Ipv4Addr::LOCALHOST, server.port());
    let output = curl(&["--interface", from, &url]);
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout).expect("text")),
        false => Err(output.status.code().expect("an exit status")),
    }
}

/// Asserts that a connection from this address is closed without a response.
#[track_caller]
fn is_refused(server: SocketAddr, from: &str) {
    // An empty reply, or a reset connection.
    let result = ask(server, from);
    assert!(matches!(result, Err(52 | 55 | 56)), "{from}: {result:?}");
}

fn refused(server: &Server, reason: &str) -> f64 {
    let metrics = String::from_utf8(get(server.admin(), "/metrics").body).unwrap();
    let labels = [("reason".to_owned(), reason.to_owned())].into_iter().collect();
    parse(&metrics)[&("http_connections_refused_total".to_owned(), labels)]
}

fn lists_apply_to_new_connections(driver: &'static str) {
    let site = Site::new();
    site.file("file", "content");
    let base = "listen = '127.0.0.1:0'\nhost.root = 'root'\nruntime.admin = '127.0.0.1:0'\n";
    let lists = "allow = ['127.0.0.0/24', '127.0.1.1']\ndeny = ['127.0.0.2', '::/96']\n";
    let server = Server::configured(driver, site.outside(), &format!("{base}{lists}"), &[]);
    let address = server.address;
    for from in ["127.0.0.1", "127.0.0.3", "127.0.1.1"] {
        assert_eq!(ask(address, from), Ok("content".into()), "{from}");
    }
    for from in ["127.0.0.2", "127.0.1.2"] {
        is_refused(address, from);
    }
    assert_eq!((refused(&server, "address"), refused(&server, "max-connections")), (2.0, 0.0));
    // An open connection stays open if a reload denies its address.
    let mut open = Client::connect(address);
    assert_eq!(open.get("/file").body, b"content");
    let reload = |lists: &str| {
        fs::write(site.outside().join("web.toml"), format!("{base}{lists}")).unwrap();
        server.reloaded();
    };
    reload("deny = '127.0.0.1'");
    is_refused(address, "127.0.0.1");
    assert_eq!(ask(address, "127.0.0.2"), Ok("content".into()));
    assert_eq!(open.get("/file").body, b"content");
    drop(open);
    reload("max-connections-per-address = 1");
    let mut first = Client::connect(address);
    assert_eq!(first.get("/file").status, 200);
    assert_eq!(get(address, "/file").status, 429);
    assert_eq!(refused(&server, "max-connections-per-address"), 1.0);
}

/// A refused client gets no handshake.
fn refused_before_tls(driver: &'static str) {
    let site = Site::new();
    site.file("file", "content");
    let authority = Authority::new();
    let pair = authority.sign("a", &["a.test"]);
    let args = ["--deny", "127.0.0.2", "--admin", "127.0.0.1:0"];
    let arguments: Vec<_> = pair.arguments().into_iter().chain(args).collect();
    let server = Server::start_with(driver, &site.root(), &arguments);
    let url = format!("https://127.0.0.1:{}/file", server.address.port());
    let ask = |from| curl(&["--insecure", "--interface", from, &url]);
    assert_eq!(ask("127.0.0.1").stdout, b"content");
    assert!(!ask("127.0.0.2").status.success());
    let metrics = String::from_utf8(get(server.admin(), "/metrics").body).unwrap();
    assert!(metrics.contains("tls_handshakes_failed_total 0"), "{metrics}");
    assert_eq!(refused(&server, "address"), 1.0);
}

/// On an IPv6 socket, clients with IPv4 have mapped addresses.
fn mapped_addresses_are_ipv4(driver: &'static str) {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    let site = Site::new();
    site.file("file", "content");
    let mut command = bare();
    command.arg("web").arg(site.root()).args(["--listen", "[::]:0", "--driver", driver]);
    command.args(["--allow", "127.0.0.0/8,2001:db8::/32", "--deny", "127.0.0.2"]);
    let server = Server::launch(command);
    assert_eq!(ask(server.address, "127.0.0.1"), Ok("content".into()));
    is_refused(server.address, "127.0.0.2");
    let url = format!("http://[::1]:{}/file", server.address.port());
    assert!(!curl(&[&url]).status.success(), "::1 is not allowed");
}

/// A load balancer names a proxy in a PROXY header, and the proxy a client in a field, over TLS and HTTP/2.
fn named_by_load_balancers(driver: &'static str) {
    let site = Site::new();
    site.file("file", "content");
    let authority = Authority::new();
    let pair = authority.sign("a", &["a.test"]);
    let [_, certificate, _, key] = pair.arguments();
    let config = |ca| {
        format!(
            "listen = 'proxy+https://127.0.0.1:0'\nreal-ip-from = '{ca}'\ndeny = '192.0.2.0/24'\n\
             runtime.admin = '127.0.0.1:0'\n[host]\nroot = 'root'\n\
             tls = {{ certificate = '{certificate}', key = '{key}' }}\n"
        )
    };
    let server = Server::configured(driver, site.outside(), &config("127.0.0.0/8"), &[]);
    let url = format!("https://127.0.0.1:{}/file", server.address.port());
    let ask = |args: &[&str]| {
        let own = ["--insecure", "-w", " %{http_code} %{http_version}", &url];
        let output = curl(&[&own, args].concat());
        String::from_utf8(output.stdout).expect("text")
    };
    let header = "--haproxy-protocol";
    assert_eq!(ask(&[header]), "content 200 2");
    assert_eq!(ask(&[header, "-H", "X-Forwarded-For: 192.0.2.1, 198.51.100.1"]), "content 200 2");
    let denied = ask(&[header, "-H", "X-Forwarded-For: 192.0.2.1"]);
    assert!(denied.ends_with(" 403 2"), "{denied}");
    assert_eq!(refused(&server, "proxy-protocol"), 0.0);
    assert_eq!(ask(&[]), " 000 0");
    assert_eq!(refused(&server, "proxy-protocol"), 1.0);
    fs::write(site.outside().join("web.toml"), config("10.0.0.0/8")).unwrap();
    server.reloaded();
    assert_eq!(ask(&[header]), " 000 0");
    assert_eq!(refused(&server, "proxy-protocol"), 2.0);
}
