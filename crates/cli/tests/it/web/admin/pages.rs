//! The admin pages with browsers, scrapers and invalid clients.

use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::process::curl_output;
use phalanx_testkit::site::Site;
use serde_json::Value;

use crate::on_one_driver;
use crate::server::Server;
use crate::web::admin::openmetrics;
use crate::web::admin::snapshots::{STAGES, start};

on_one_driver!(
    requests_by_status,
    latency_of_each_request,
    pages,
    hosts,
    the_picture,
    the_graphs,
    a_trace
);

/// The figures for operators: in `/metrics`, and first on the page.
fn requests_by_status(driver: &'static str) {
    let site = Site::new();
    site.file("page", "12345");
    let server = Server::start_with(driver, &site.root(), &["--admin", "127.0.0.1:0"]);
    let mut client = Client::connect(server.address);
    for (path, status) in [("/page", 200), ("/page", 200), ("/missing", 404)] {
        assert_eq!(client.get(path).status, status);
    }
    // A client may have its response before the server knows that it was sent.
    let metrics = eventually("all requests", || {
        let metrics = String::from_utf8(get(server.admin(), "/metrics").body).unwrap();
        metrics.contains("http_request_duration_seconds_count 3\n").then_some(metrics)
    });
    let samples = openmetrics::parse(&metrics);
    let value = |name: &str, labels: &[(&str, &str)]| {
        let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        samples[&(name.to_owned(), labels.collect())]
    };
    assert_eq!(value("http_requests_total", &[("code", "200")]), 2.0);
    assert_eq!(value("http_requests_total", &[("code", "404")]), 1.0);
    assert_eq!(value("http_requests_total", &[("code", "500")]), 0.0);
    assert!(value("http_response_bytes_total", &[]) > 10.0);
    assert_eq!(value("http_cache_lookups_total", &[("result", "hit")]), 1.0);
    assert_eq!(value("http_connections_accepted_total", &[]), 1.0);
    assert_eq!(
        (value("http_connections", &[]), value("tls_handshakes_failed_total", &[])),
        (1.0, 0.0)
    );
    // The latency of requests, each counted once; the last bucket holds all.
    let name = |suffix| format!("http_request_duration_seconds{suffix}");
    assert_eq!(value(&name("_bucket"), &[("le", "+Inf")]), 3.0);
    let sum = value(&name("_sum"), &[]);
    assert!((0.0..phalanx_testkit::TIMEOUT.as_secs_f64()).contains(&sum), "{sum}");
    // No system call is that short.
    assert_eq!(value(&name("_bucket"), &[("le", "1.28e-7")]), 0.0);
    let page = String::from_utf8(get(server.admin(), "/?ms=50").body).unwrap();
    let titles = ["requests", "sent", "open connections", "cache hits", "TLS errors", "latency"];
    let places = titles.map(|title| page.find(&format!("<dt>{title}</dt>")).expect(title));
    assert!(places.is_sorted() && places[5] < page.find("<svg").unwrap());
}

/// The requests of an HTTP/2 connection, of a pipeline, and with large responses count, too.
fn latency_of_each_request(driver: &'static str) {
    let site = Site::new();
    site.file("page", "12345");
    site.file("large", vec![7; 3 << 20]);
    let server = Server::start_with(driver, &site.root(), &["--admin", "127.0.0.1:0", "--h2c"]);
    let url = format!("http://{}", server.address);
    for protocol in ["--http2-prior-knowledge", "--http1.1"] {
        for path in ["page", "missing", "large"] {
            curl_output(&[protocol, "-o", "/dev/null", &format!("{url}/{path}")]);
        }
    }
    let mut client = Client::connect(server.address);
    client.send("GET /page HTTP/1.1\r\nHost: h\r\n\r\n".repeat(5));
    (0..5).for_each(|_| assert_eq!(client.response().status, 200));
    eventually("all requests", || {
        let metrics = String::from_utf8(get(server.admin(), "/metrics").body).unwrap();
        metrics.contains("http_request_duration_seconds_count 11\n").then_some(())
    });
}

fn pages(driver: &'static str) {
    let site = Site::new();
    let server = start(driver, &site);
    let admin = server.admin();
    let mut client = Client::connect(admin);
    assert_eq!(client.get("/snapshot.json?pretty").status, 200);
    let missing = client.get("/missing");
    assert!(missing.status == 404 && String::from_utf8_lossy(&missing.body).contains("/metrics"));
    client.send("POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    let refused = client.response();
    assert_eq!((refused.status, refused.field("Allow")), (405, Some("GET, HEAD")));
    let metrics = client.get("/metrics");
    assert_eq!(metrics.field("Cache-Control"), Some("no-store"));
    assert_eq!(metrics.field("Connection"), Some("keep-alive"));
    // Requests in several segments, and several in one.
    client.send("GET /metrics HT");
    client.send(
        "TP/1.1\r\nHost: localhost\r\n\r\nGET /snapshot.json HTTP/1.1\r\nHost: localhost\r\n\r\n",
    );
    assert_eq!((client.response().status, client.response().status), (200, 200));
    // HEAD: the next response follows directly.
    for path in ["/", "/snapshot.json", "/trace.json?seconds=30"] {
        assert_eq!((client.head_with(path, "").status, client.buffered()), (200, 0), "{path}");
    }
    client.send("GET /missing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert_eq!(client.response().field("Connection"), Some("close"));
    assert!(client.read_to_end().0.is_empty());
    // The admin pages are separate from the site.
    assert_eq!(get(server.address, "/metrics").status, 404);
    assert_eq!(get(admin, "/small").status, 404);
    for bad in ["/?ms=1", "/picture?ms=x", "/trace.json?seconds=31", "/trace.json?seconds=-1"] {
        assert_eq!(get(admin, bad).status, 400, "{bad}");
    }
    // Invalid requests get an error; endless invalid input ends the connection.
    let mut client = Client::connect(admin);
    client.send("NONSENSE\r\n\r\n");
    assert_eq!(client.response().status, 400);
    assert!(client.read_to_end().0.is_empty());
    let mut client = Client::connect(admin);
    let endless = ["GET / HTTP/1.1\r\nX: ", &"x".repeat(40_000)].concat();
    let _ = client.stream.write_all(endless.as_bytes());
    client.read_to_end();
    assert_eq!(get(admin, "/metrics").status, 200);
}

/// A web page cannot read the admin pages through a host name of its own (DNS rebinding).
fn hosts(driver: &'static str) {
    let site = Site::new();
    let arguments =
        ["--admin", "127.0.0.1:0", "--admin-hosts", "Metrics.test", "--admin-hosts", "m2"];
    let server = Server::start_with(driver, &site.root(), &arguments);
    let admin = server.admin();
    for (lines, status) in [
        ("Host: evil.test", 403),
        ("Host: metrics.test.evil.test", 403),
        ("Host: 127.0.0.1.evil.test:80", 403),
        ("Host: localhost\r\nOrigin: http://evil.test", 403),
        ("Host: localhost\r\nOrigin: null", 403),
        // A page at another address may be anyone's.
        ("Host: localhost\r\nOrigin: http://127.0.0.1:8081", 403),
        ("Host: 127.0.0.1:80\r\nOrigin: http://127.0.0.1:8081", 200),
        ("Host: metrics.test:9100", 200),
        ("Host: m2.", 200),
        ("Host: 192.0.2.1", 200),
        ("Host: [::1]:80", 200),
        ("Host: a\r\nHost: localhost", 400),
        ("X: no host", 400),
    ] {
        for path in
            ["/metrics", "/snapshot.json", "/?ms=50", "/trace.json?seconds=0.01", "/missing"]
        {
            let mut client = Client::connect(admin);
            client.send(format!("GET {path} HTTP/1.1\r\n{lines}\r\n\r\n"));
            let response = client.response();
            let status = if status == 200 && path == "/missing" { 404 } else { status };
            assert_eq!(response.status, status, "{path}: {lines}");
            let text = String::from_utf8_lossy(&response.body);
            let has = |what: &str| text.contains(what);
            // The response names what is refused: the host, or the origin and the name that allows it.
            let (host, origin, allows) = match lines.split_once("Origin: ") {
                _ if status != 403 => (false, false, false),
                None => (true, false, false),
                Some((_, origin)) => (false, has(&format!("{origin:?}")), origin != "null"),
            };
            assert_eq!(origin, status == 403 && !host, "{path}: {lines}: {text}");
            assert_eq!(has("--admin-hosts NAME"), host, "{path}: {lines}: {text}");
            let allowed = has("--admin-hosts evil.test,") || has("--admin-hosts 127.0.0.1,");
            assert_eq!(allowed, allows, "{path}: {lines}: {text}");
        }
    }
    // No browser uses HTTP/1.0.
    let mut client = Client::connect(admin);
    client.send("GET /metrics HTTP/1.0\r\n\r\n");
    assert_eq!(client.response().status, 200);
}

/// The page is complete without scripts and external resources.
fn the_picture(driver: &'static str) {
    let site = Site::new();
    let server = start(driver, &site);
    let admin = server.admin();
    // Repeated if the machine stalled during the interval.
    eventually("requests in the picture", || {
        let busy = thread::scope(|scope| {
            let page = scope.spawn(|| get(admin, "/?ms=400"));
            while !page.is_finished() {
                assert_eq!(get(server.address, "/small").status, 200);
            }
            page.join().unwrap()
        });
        let kind = busy.field("Content-Type");
        assert_eq!((busy.status, kind), (200, Some("text/html; charset=utf-8")));
        let policy = busy.field("Content-Security-Policy").unwrap().to_owned();
        assert!(policy.contains("default-src 'none'"), "{policy}");
        let page = String::from_utf8(busy.body).unwrap();
        for stage in STAGES {
            // For two processors, in the wide and the narrow layout.
            assert_eq!(page.matches(&format!(">{stage}</text>")).count(), 4, "{stage}");
        }
        assert!(!page.contains("src=") && !page.contains("//"), "no external resources");
        let arcs = ["network on 0 to control on 0", "network on 1 to control on 1"];
        arcs.iter().any(|arc| page.contains(arc)).then_some(())
    });
    let svg = get(admin, "/picture.svg?ms=50");
    assert_eq!(svg.field("Content-Type"), Some("image/svg+xml"));
    assert!(svg.body.starts_with(b"<svg xmlns="));
    let narrow = String::from_utf8(get(admin, "/picture?ms=50&layout=narrow").body).unwrap();
    assert!(narrow.contains("phalanx narrow") && !narrow.contains("phalanx wide"));
}

/// Graphviz can render both, if installed.
fn the_graphs(driver: &'static str) {
    let site = Site::new();
    let server = start(driver, &site);
    get(server.address, "/small");
    let calls = get(server.admin(), "/calls.dot").body;
    let text = String::from_utf8_lossy(&calls);
    assert!(text.contains("\"control\" -> \"file cache\" [style=solid, label="), "{text}");
    assert!(!text.contains("red"), "the server invokes stages that it does not declare: {text}");
    draw(&calls);
    let graph = get(server.admin(), "/graph.dot?ms=50").body;
    let text = String::from_utf8_lossy(&graph);
    assert!(text.starts_with("digraph phalanx {") && text.contains("file cache"), "{text}");
    draw(&graph);
}

fn draw(graph: &[u8]) {
    let mut dot = Command::new("dot");
    dot.args(["-Tsvg"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let Ok(mut child) = dot.spawn() else {
        println!("dot is not installed (Debian: graphviz)");
        return;
    };
    child.stdin.take().unwrap().write_all(graph).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("file cache"));
}

fn a_trace(driver: &'static str) {
    let site = Site::new();
    let server = start(driver, &site);
    let admin = server.admin();
    let (trace, second) = thread::scope(|scope| {
        let trace = scope.spawn(|| get(admin, "/trace.json?seconds=0.5"));
        // A second concurrent trace is rejected.
        let second = eventually("the rejection of a second trace", || {
            assert_eq!(get(server.address, "/small").status, 200);
            let second = get(admin, "/trace.json?seconds=0.01");
            (second.status == 409 || trace.is_finished()).then_some(second)
        });
        while !trace.is_finished() {
            assert_eq!(get(server.address, "/small").status, 200);
            thread::sleep(Duration::from_millis(5));
        }
        (trace.join().unwrap(), second)
    });
    // The first request is served, the second one rejected.
    assert!([trace.status, second.status].contains(&409) || second.status == 200);
    let trace = if trace.status == 200 { trace } else { get(admin, "/trace.json?seconds=0.05") };
    assert_eq!(trace.field("Content-Type"), Some("application/json"));
    let trace: Value = serde_json::from_slice(&trace.body).expect("JSON");
    let events = trace["traceEvents"].as_array().unwrap();
    let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert!(of("X") > 0, "at least the cohorts of the admin pages");
    assert_eq!((of("s"), of("M")), (of("f"), 3));
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(
            event["dur"].as_f64().unwrap() > 0.0 && event["args"]["operations"].as_u64() > Some(0)
        );
    }
    opens_in_a_viewer(events);
    // Tracing is off again: another trace may begin.
    assert_eq!(get(admin, "/trace.json?seconds=0.01").status, 200);
}

/// Checks for errors on which viewers fail: overlapping slices of a track that are not nested, and arrows without
/// a slice at an end or with a single end.
fn opens_in_a_viewer(events: &[Value]) {
    let ns = |event: &Value, field: &str| (event[field].as_f64().unwrap() * 1000.0).round() as i64;
    let track = |event: &Value| (event["pid"].as_u64().unwrap(), event["tid"].as_u64().unwrap());
    let mut slices: Vec<_> = events
        .iter()
        .filter(|event| event["ph"] == "X")
        .map(|event| (track(event), ns(event, "ts"), ns(event, "ts") + ns(event, "dur")))
        .collect();
    slices.sort_by_key(|(track, begin, end)| (*track, *begin, -end));
    let mut open: Vec<(_, i64)> = Vec::new();
    for (track, begin, end) in &slices {
        open.retain(|(other, until)| other == track && until > begin);
        assert!(open.iter().all(|(_, until)| end <= until), "{begin} to {end} on {track:?}");
        open.push((*track, *end));
    }
    let mut arrows = std::collections::BTreeMap::<u64, Vec<i64>>::new();
    for event in events.iter().filter(|event| event["ph"] == "s" || event["ph"] == "f") {
        let at = ns(event, "ts");
        let within =
            |(on, begin, end): &(_, i64, i64)| *on == track(event) && *begin <= at && at <= *end;
        assert!(slices.iter().any(within), "in no slice: {event}");
        arrows.entry(event["id"].as_u64().unwrap()).or_default().push(at);
    }
    assert!(arrows.values().all(|ends| ends.len() == 2), "an arrow has two ends");
}
