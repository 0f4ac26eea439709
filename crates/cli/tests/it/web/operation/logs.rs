//! Access logs of hosts.

use std::fs;

use phalanx_testkit::eventually;
use phalanx_testkit::http::Client;
use phalanx_testkit::process::{Signal, curl_output};
use phalanx_testkit::site::Site;

use crate::on_one_driver;
use crate::server::{Server, bare};

on_one_driver!(
    each_host_has_its_log,
    logs_change_at_a_reload,
    every_log_is_reopened,
    a_server_without_a_log_ignores_the_signal,
);

const MAIN: &str = "listen = 'http://127.0.0.1:0'\nh2c = true\n\
                    access-log = { target = './all', format = '$host $status' }\n";

fn host(name: &str, log: &str) -> String {
    format!(
        "[[host]]\nroot = 'root'\n{}{log}\n",
        match name {
            "" => String::new(),
            name => format!("server-names = '{name}'\n"),
        }
    )
}

fn start(driver: &'static str, site: &Site, text: &str) -> Server {
    site.file("index.html", "12345");
    Server::configured(driver, site.outside(), text, &[])
}

/// Waits until the log has `count` lines.
#[track_caller]
fn lines(site: &Site, log: &str, count: usize) -> Vec<String> {
    let path = site.outside().join(log);
    eventually(&format!("{count} lines in {log}"), || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert!(lines.len() <= count, "{log}: {lines:#?}");
        (lines.len() == count).then_some(lines)
    })
}

fn request(host: &str) -> String {
    format!("GET /?{host} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: x\r\n\r\n")
}

fn each_host_has_its_log(driver: &'static str) {
    let site = Site::new();
    let template = "access-log = { target = './b', format = '$address $host $user \"$request\" $bytes $agent $$' }";
    let text = [
        MAIN,
        &host("", ""),
        &host("a", "access-log = { target = './a', format = 'json' }"),
        &host("b", template),
        &host("c", "access-log.target = './b'"),
    ];
    let server = start(driver, &site, &text.concat());
    let mut client = Client::connect(server.address);
    // Requests for several hosts at once, answered together.
    client.send(["a", "none", "b", "a", "c"].map(request).concat());
    (0..5).for_each(|_| assert_eq!(client.response().status, 200));
    assert_eq!(lines(&site, "all", 1), ["none 200"]);
    client.send("nonsense\r\n\r\n");
    assert_eq!(client.response().status, 400);
    assert_eq!(lines(&site, "all", 2)[1], "- 400");
    let json = lines(&site, "a", 2);
    assert!(json.iter().all(|line| line.contains(r#""request":"GET /?a HTTP/1.1","status":200"#)));
    let shared = lines(&site, "b", 2);
    assert_eq!(shared[0], r#"127.0.0.1 b - "GET /?b HTTP/1.1" 5 x $"#);
    assert!(shared[1].ends_with(r#"] "GET /?c HTTP/1.1" 200 5"#), "{shared:?}");
    // HTTP/2: each stream.
    for host in ["b", "other"] {
        let url = format!("http://{}/", server.address);
        let field = format!("Host: {host}");
        curl_output(&["--http2-prior-knowledge", "-A", "a \"b", "-H", &field, &url]);
    }
    assert_eq!(lines(&site, "b", 3)[2], r#"127.0.0.1 b - "GET / HTTP/2.0" 5 a\x20\"b $"#);
    assert_eq!(lines(&site, "all", 3)[2], "other 200");
}

fn logs_change_at_a_reload(driver: &'static str) {
    let site = Site::new();
    let one = "access-log = { target = './one', format = 'a $status' }";
    let server = start(driver, &site, &[MAIN, &host("", ""), &host("a", one)].concat());
    let mut client = Client::connect(server.address);
    let mut ask = |name: &str| {
        client.send(request(name));
        assert_eq!(client.response().status, 200);
    };
    let mut version = 1;
    let mut reload = |text: &[&str]| {
        version += 1;
        fs::write(site.outside().join("web.toml"), text.concat()).unwrap();
        assert!(server.reloaded().contains(&format!("configuration version {version}")));
    };
    ask("a");
    assert_eq!(lines(&site, "one", 1), ["a 200"]);
    // Another format, and a new log; then no logs.
    let own = "access-log = { target = './one', format = 'b $bytes' }";
    let two = host("b", "access-log = { target = './two', format = '$host' }");
    reload(&[MAIN, &host("", ""), &host("a", own), &two]);
    ask("a");
    ask("b");
    assert_eq!(
        (lines(&site, "one", 2)[1].as_str(), lines(&site, "two", 1)),
        ("b 5", vec!["b".into()])
    );
    reload(&["listen = 'http://127.0.0.1:0'\n", &host("", ""), &host("a", "")]);
    ask("a");
    reload(&[MAIN, &host("", ""), &host("a", one)]);
    ask("a");
    assert_eq!(lines(&site, "one", 3)[2], "a 200");
    assert!(!server.stderr().contains("restart"), "{}", server.stderr());
}

fn every_log_is_reopened(driver: &'static str) {
    let site = Site::new();
    let own = "access-log = { target = './a', format = '$host' }";
    let server = start(driver, &site, &[MAIN, &host("", ""), &host("a", own)].concat());
    let mut client = Client::connect(server.address);
    let mut ask = |count| {
        client.send(["a", "x"].map(request).concat());
        (0..2).for_each(|_| assert_eq!(client.response().status, 200));
        assert_eq!(
            (lines(&site, "a", count).len(), lines(&site, "all", count).len()),
            (count, count)
        );
    };
    ask(1);
    for log in ["a", "all"] {
        fs::rename(site.outside().join(log), site.outside().join(format!("{log}.1"))).unwrap();
    }
    server.signal(Signal::USR1);
    ask(1);
    assert_eq!(lines(&site, "a.1", 1), ["a"]);
}

/// The signal of a script that rotates logs does not end a server that has none.
fn a_server_without_a_log_ignores_the_signal(driver: &'static str) {
    let site = Site::new();
    site.file("a", "a");
    let mut server = Server::start(driver, &site.root());
    server.signal(Signal::USR1);
    assert_eq!(Client::connect(server.address).get("/a").status, 200);
    server.shut_down();
}

/// Templates with errors, and logs without a directory.
#[test]
fn errors_are_reported() {
    let site = Site::new();
    let check = |text: &str| {
        fs::write(site.outside().join("web.toml"), text).unwrap();
        let file = site.outside().join("web.toml");
        let output = bare().args(["web", "--check", "--config"]).arg(file).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for (format, error) in [
        ("$hosts", "there is no field $hosts; the fields are $address, "),
        ("plain", "expected \"common\" or \"combined\" or \"json\", or a text with fields"),
        ("$host\\n", "a line cannot contain '\\n'"),
    ] {
        let (code, printed) =
            check(&format!("[host]\nroot = 'root'\naccess-log.format = \"{format}\""));
        assert!(code == Some(2) && printed.contains(error), "{format}: {printed}");
        assert!(printed.contains("web.toml:3:21: host.access-log.format: "), "{printed}");
    }
    let (code, printed) = check("[host]\nroot = 'root'\naccess-log.target = './none/log'");
    assert!(code == Some(1) && printed.contains("cannot write the access log"), "{printed}");
}
