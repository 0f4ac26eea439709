//! The admin server: snapshots and metrics.

use std::net::SocketAddr;

use phalanx_testkit::bytes::random_bytes;
use phalanx_testkit::eventually;
use phalanx_testkit::http::{Client, get};
use phalanx_testkit::site::Site;
use serde_json::Value;

use crate::on_each_driver;
use crate::server::{Server, bare};
use crate::web::admin::openmetrics::{Labels, parse, peers};

on_each_driver!(
    hits_stay_on_their_processor,
    figures_grow,
    metrics_are_the_same_figures,
    placement_is_reported,
    drains_too
);

/// A current snapshot.
pub(crate) fn snapshot(admin: SocketAddr) -> Value {
    let response = get(admin, "/snapshot.json");
    assert_eq!(response.status, 200);
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    serde_json::from_slice(&response.body).expect("JSON")
}

pub(crate) fn start(driver: &str, site: &Site) -> Server {
    site.file("small", "small");
    site.file("large", random_bytes(1, 300_000));
    Server::start_with(driver, &site.root(), &["--admin", "127.0.0.1:0"])
}

/// Sum of a stage's figure over all processors.
fn sum(snapshot: &Value, stage: &str, figure: &str) -> u64 {
    let processors = snapshot["processors"].as_array().unwrap();
    let stages = processors.iter().flat_map(|processor| processor["stages"].as_array().unwrap());
    stages
        .filter(|found| found["stage"] == stage)
        .map(|found| found.pointer(figure).unwrap().as_u64().unwrap())
        .sum()
}

pub(crate) const STAGES: [&str; 14] = [
    "network",
    "refusals",
    "streams",
    "control",
    "upstream",
    "file index",
    "file cache",
    "aggregator",
    "disk",
    "slow",
    "resolver",
    "compression",
    "passwords",
    "admin",
];

/// A file belongs to one processor; the other sends it one request.
fn hits_stay_on_their_processor(driver: &'static str) {
    let site = Site::new();
    site.file("small", "small");
    let text = "listen = '127.0.0.1:0'\nrevalidate-interval = '1h'\n[host]\nroot = 'root'";
    let arguments = ["--admin", "127.0.0.1:0"];
    let server = Server::configured(driver, site.outside(), text, &arguments);
    // Enough connections for each processor to have some.
    let mut clients: Vec<_> = (0..32).map(|_| Client::connect(server.address)).collect();
    for client in &mut clients {
        for _ in 0..20 {
            assert_eq!(client.get("/small").body, b"small");
        }
    }
    let snapshot = snapshot(server.admin());
    let started = |processor: usize, name: &str| {
        let stages = snapshot["processors"][processor]["stages"].as_array().unwrap();
        let stage = stages.iter().find(|stage| stage["stage"] == name).unwrap();
        stage["started"]["count"].as_u64().unwrap()
    };
    let requests_of = |processor: usize| {
        let arcs = snapshot["processors"][processor]["arcs"].as_array().unwrap();
        let of_other = |arc: &&Value| {
            arc["from"] == "control"
                && arc["to"] == "file cache"
                && !arc["from_processor"].is_null()
        };
        arcs.iter().filter(of_other).map(|arc| arc["count"].as_u64().unwrap()).sum::<u64>()
    };
    // The owner finds the file in the cache. The other processor asks it once, and has a replica then. Either may serve
    // any number of requests, since connections move.
    let other = usize::from(started(0, "file cache") > started(1, "file cache"));
    assert!(
        requests_of(0) + requests_of(1) <= 1,
        "{} requests of the other processor",
        requests_of(0) + requests_of(1)
    );
    // One operation may load the file.
    let served = started(other, "file index") + started(1 - other, "file cache");
    assert!((640..=641).contains(&served), "{served} operations for 640 requests");
}

/// Checks the invariants of every snapshot.
fn check(snapshot: &Value, driver: &str) {
    assert_eq!(snapshot["version"], 1);
    assert_eq!(snapshot["driver"], driver);
    assert_eq!(snapshot["phase"], "running");
    // The size of the second-level cache as detected, or a MiB.
    assert!(snapshot["cache_bytes"].as_u64().unwrap() >= 16 << 10, "{}", snapshot["cache_bytes"]);
    assert_eq!(snapshot["stages"], serde_json::json!(STAGES));
    assert_eq!(snapshot["processors"].as_array().unwrap().len(), 2);
    for processor in snapshot["processors"].as_array().unwrap() {
        for stage in processor["stages"].as_array().unwrap() {
            let figure = |pointer: &str| stage.pointer(pointer).unwrap().as_u64().unwrap();
            let (started, resumed) = (figure("/started/count"), figure("/resumed/count"));
            let is_over = figure("/completed/count") + figure("/panicked") + figure("/cancelled");
            // Cancelled queued operations were never started.
            assert!(started + figure("/cancelled") >= is_over, "{stage}");
            assert_eq!(figure("/panicked"), 0, "{stage}");
            assert!(figure("/suspended") + figure("/completed/count") <= started + resumed);
            let sizes = stage["cohort_sizes"].as_array().unwrap();
            let cohorts: u64 = sizes.iter().map(|size| size.as_u64().unwrap()).sum();
            assert_eq!(cohorts, figure("/cohorts"), "{stage}");
            assert!(started + resumed >= cohorts, "no cohort is empty: {stage}");
            for column in ["started", "resumed", "completed"] {
                let column = &stage[column];
                let mean = column["mean_ns"].as_f64().unwrap();
                assert!(mean <= column["max_ns"].as_u64().unwrap() as f64 + 1.0, "{stage}");
            }
        }
    }
}

fn figures_grow(driver: &'static str) {
    let site = Site::new();
    let server = start(driver, &site);
    let admin = server.admin();
    assert!(admin.ip().is_loopback());
    let before = snapshot(admin);
    check(&before, driver);
    for _ in 0..50 {
        assert_eq!(get(server.address, "/small").status, 200);
        assert_eq!(get(server.address, "/large").status, 200);
    }
    let after = eventually("fifty pairs of connections in the figures", || {
        let after = snapshot(admin);
        check(&after, driver);
        let growth = |stage, figure| sum(&after, stage, figure) - sum(&before, stage, figure);
        // A connection is an operation; a file of the other processor is looked up once a second.
        let all = growth("control", "/completed/count") >= 100
            && growth("file cache", "/completed/count") > 0;
        all.then_some(after)
    });
    assert!(after["uptime_ns"].as_u64() > before["uptime_ns"].as_u64());
    for stage in ["network", "control", "file cache"] {
        assert!(sum(&after, stage, "/started/count") > sum(&before, stage, "/started/count"));
    }
    let calls = |snapshot: &Value| -> u64 {
        let processors = snapshot["processors"].as_array().unwrap();
        processors.iter().map(|processor| processor["system_calls"].as_u64().unwrap()).sum()
    };
    assert!(calls(&after) > calls(&before));
    let arcs = after["processors"].as_array().unwrap().iter();
    let mut arcs = arcs.flat_map(|processor| processor["arcs"].as_array().unwrap());
    assert!(arcs.any(|arc| arc["from"] == "control" && arc["to"] == "file cache"));
    // Times are in histograms; operations that wait for I/O are suspended.
    let processors = after["processors"].as_array().unwrap();
    for stage in processors.iter().flat_map(|p| p["stages"].as_array().unwrap()) {
        for (times, counts) in [("waits", ["started", "resumed"]), ("runs", ["started", "resumed"])]
        {
            let buckets = stage[times]["buckets"].as_array().unwrap();
            assert_eq!(buckets.len(), after["time_buckets_ns"].as_array().unwrap().len() + 1);
            let all: u64 = buckets.iter().map(|count| count.as_u64().unwrap()).sum();
            let ran: u64 = counts.iter().map(|c| stage[*c]["count"].as_u64().unwrap()).sum();
            assert!(all.abs_diff(ran) <= 256, "but for the cohort that is counted now: {stage}");
        }
    }
    assert!(sum(&after, "network", "/suspended_now") >= 1, "the acceptor waits");
}

fn metrics_are_the_same_figures(driver: &'static str) {
    let site = Site::new();
    let server = start(driver, &site);
    let admin = server.admin();
    for _ in 0..20 {
        assert_eq!(get(server.address, "/small").status, 200);
    }
    let before = snapshot(admin);
    let response = get(admin, "/metrics");
    let after = snapshot(admin);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(response.field("Content-Type"), Some(kind));
    let text = String::from_utf8(response.body).unwrap();
    let samples = parse(&text);
    // Counters only grow, so a value read between two snapshots lies between them.
    for stage in STAGES {
        for (name, figure) in [
            ("phalanx_stage_operations_started_total", "/started/count"),
            ("phalanx_stage_operations_completed_total", "/completed/count"),
            ("phalanx_stage_operations_resumed_total", "/resumed/count"),
        ] {
            let total: f64 = ["0", "1"]
                .map(|processor| {
                    let labels = [("processor", processor), ("stage", stage)];
                    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
                    samples[&(name.to_owned(), Labels::from(labels))]
                })
                .iter()
                .sum();
            let low = sum(&before, stage, figure) as f64;
            let high = sum(&after, stage, figure) as f64;
            assert!(low <= total && total <= high, "{stage} {name}: {low} <= {total} <= {high}");
        }
    }
    peers(&text);
}

fn drains_too(driver: &'static str) {
    let site = Site::new();
    let arguments = ["--admin", "127.0.0.1:0", "--shutdown-timeout", "600s"];
    let mut server = Server::start_with(driver, &site.root(), &arguments);
    let mut idle = Client::connect(server.admin());
    assert_eq!(idle.get("/").status, 200);
    server.signal(rustix::process::Signal::INT);
    server.expect_success();
    assert!(idle.read_to_end().0.is_empty());
}

/// A non-loopback address requires a second flag; `arguments.rs` tests the rejection.
#[test]
fn public_with_a_second_flag() {
    let site = Site::new();
    let arguments = ["--admin", "0.0.0.0:0", "--admin-public"];
    let server = Server::start_with("poll", &site.root(), &arguments);
    let address = server.admin();
    assert!(address.ip().is_unspecified());
    assert_eq!(get((server.address.ip(), address.port()).into(), "/").status, 200);
}

fn placement_is_reported(driver: &str) {
    let report = |flags: &[&str]| {
        let site = Site::new();
        let mut command = bare();
        command.arg("web").arg(site.root()).args(["--listen", "127.0.0.1:0", "--driver", driver]);
        command.args(["--admin", "127.0.0.1:0"]).args(flags);
        let server = Server::launch(command);
        let response = get(server.admin(), "/placement.json");
        assert_eq!(
            (response.status, response.field("Content-Type")),
            (200, Some("application/json"))
        );
        let metrics = String::from_utf8(get(server.admin(), "/metrics").body).unwrap();
        (serde_json::from_slice::<Value>(&response.body).expect("JSON"), metrics)
    };
    let (off, metrics) = report(&["--workers", "3"]);
    assert_eq!(
        (&off["mode"], &off["active"], &off["needed"]),
        (&"off".into(), &3.into(), &Value::Null)
    );
    assert!(!metrics.contains("phalanx_active_processors"));
    for (flags, mode) in
        [(&["--workers", "2..3"][..], "on"), (&["--placement", "advise"], "advise")]
    {
        let (report, metrics) = report(flags);
        assert_eq!(report["mode"], mode);
        // All are active at first, and the next steps take seconds.
        assert_eq!((&report["active"], &report["needed"]), (&report["max"], &report["max"]));
        assert!(report["decisions"].is_array() && report["reason"].is_string(), "{report}");
        assert_eq!(report["absent"][1], "idle hints");
        assert!(metrics.contains("phalanx_active_processors"), "{metrics}");
        assert!(metrics.contains("phalanx_placement_steps_total{direction=\"up\"}"), "{metrics}");
    }
}
