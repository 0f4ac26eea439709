//! The load generator against servers in this process: its counts match the servers'.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use phalanx::runtime::DriverChoice;
use phalanx_bench::load::{self, Error, Options, Report};
use socket2::{Domain, Socket, Type};

use crate::servers::{self, Act, Told, scripted};

/// Both drivers; io_uring is skipped where it is unavailable, unless `PHALANX_REQUIRE_URING=1`.
pub(crate) fn drivers() -> Vec<DriverChoice> {
    let mut drivers = vec![DriverChoice::Poll];
    match phalanx_driver::choose(DriverChoice::Uring) {
        Ok(_) => drivers.push(DriverChoice::Uring),
        Err(error) => {
            let required = std::env::var_os("PHALANX_REQUIRE_URING").is_some_and(|set| set == "1");
            assert!(!required, "{error}");
        }
    }
    drivers
}

pub(crate) fn options(url: &str, driver: DriverChoice) -> Options {
    Options {
        connections: 4,
        duration: Duration::from_millis(200),
        // Not reached unless a test provokes it.
        timeout: Duration::from_secs(20),
        driver,
        ..Options::new(url.parse().unwrap())
    }
}

/// All offered requests are accounted for.
fn run(options: &Options) -> Report {
    let report = load::run(options).unwrap();
    let lost = report.errors.total() - report.errors.connect;
    assert_eq!(report.offered, report.completed + lost + report.backlog, "{report:?}");
    report
}

/// Like [`run`], repeated if the machine stalled for so long that few requests were sent.
fn run_until_busy(options: &Options) -> Report {
    run_until(options, |report| report.completed > 10)
}

/// Like [`run`], repeated until a report is not that of a stalled machine.
fn run_until(options: &Options, is_good: impl Fn(&Report) -> bool) -> Report {
    let begun = Instant::now();
    loop {
        let report = run(options);
        if is_good(&report) {
            return report;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "{report:?}");
    }
}

#[test]
fn the_floor_answers_everything() {
    for driver in drivers() {
        let url = servers::floor(driver);
        for (pipeline, no_keep_alive) in [(1, false), (8, false), (1, true)] {
            let asked = Options { pipeline, no_keep_alive, ..options(&url, driver) };
            let report = run_until_busy(&asked);
            assert_eq!(report.status.success, report.completed);
            assert_eq!(report.errors.total(), 0, "{report:?}");
            assert!(report.client_cpu_us_per_request > 0.0);
            // Up to one pipeline per connection may have arrived after the measured interval.
            let within = report.completed.saturating_sub(4 * pipeline as u64);
            assert!(report.bytes > 2000 * within, "{report:?}");
            assert_eq!(report.driver, driver.to_string());
        }
    }
}

#[test]
fn the_twin_serves_files() {
    let directory = tempfile::tempdir().unwrap();
    for (name, size) in [("a.html", 10), ("b.html", 3000), ("c.html", 200_000)] {
        std::fs::write(directory.path().join(name), vec![b'x'; size]).unwrap();
    }
    let url = servers::twin(directory.path());
    let paths = directory.path().join("paths");
    std::fs::write(&paths, "/a.html\n/b.html\n/c.html\n").unwrap();
    for driver in drivers() {
        for pipeline in [1, 5] {
            let paths = Some(paths.clone());
            let asked = Options { paths, zipf: 0.5, pipeline, ..options(&url, driver) };
            let report = run_until_busy(&asked);
            assert_eq!(report.status.success, report.completed, "{report:?}");
            assert_eq!(report.errors.total(), 0, "{report:?}");
        }
        let missing = format!("{url}missing");
        let report = run_until_busy(&options(&missing, driver));
        assert_eq!(report.status.client_error, report.completed, "{report:?}");
    }
}

#[test]
fn counts_agree_with_the_server() {
    for driver in drivers() {
        let (url, told) = scripted(|n| if n % 10 == 9 { Act::AnswerAndClose } else { Act::Answer });
        let report = run(&options(&url, driver));
        assert_eq!(report.completed, told.requests(), "{report:?}");
        assert_eq!(report.errors.total(), 0);
    }
}

/// A run on a server that does `act` with every second request.
fn half(driver: DriverChoice, act: Act) -> (Report, Told) {
    let (url, told) = scripted(move |n| if n % 2 == 1 { act } else { Act::Answer });
    let mut options = options(&url, driver);
    if act == Act::Stall {
        // Longer than any stall of the machine.
        options.timeout = Duration::from_secs(3);
    }
    let report = run(&options);
    assert!(report.completed > 0, "{act:?}: {report:?}");
    (report, told)
}

#[test]
fn errors_are_counted_by_kind() {
    for driver in drivers() {
        let (report, told) = half(driver, Act::Reset);
        assert_eq!(report.errors.reset, told.count(Act::Reset), "{report:?}");
        assert_eq!(report.errors.total(), report.errors.reset, "{report:?}");

        let (report, told) = half(driver, Act::Truncate);
        assert_eq!(report.errors.closed, told.count(Act::Truncate), "{report:?}");
        assert_eq!(report.errors.total(), report.errors.closed, "{report:?}");

        let (report, told) = half(driver, Act::Nonsense);
        assert_eq!(report.errors.malformed, told.count(Act::Nonsense), "{report:?}");

        let (report, told) = half(driver, Act::NotFound);
        assert_eq!(report.status.client_error, told.count(Act::NotFound), "{report:?}");
        assert_eq!(report.errors.total(), 0);

        let (report, told) = half(driver, Act::Stall);
        assert_eq!(report.errors.timeout, told.count(Act::Stall), "{report:?}");
        assert!(report.errors.timeout > 0 && report.errors.total() == report.errors.timeout);
    }
}

#[test]
fn open_loop_counts_from_the_intended_start() {
    for driver in drivers() {
        // One answer takes 100 ms; all requests that should start meanwhile wait for the single connection. A
        // closed loop would see one slow answer among hundreds.
        let (url, _) = scripted(|n| if n == 20 { Act::Late } else { Act::Answer });
        let open = Options {
            connections: 1,
            rate: Some(500.0),
            duration: Duration::from_millis(600),
            ..options(&url, driver)
        };
        let report = run(&open);
        let meant = 500.0 * report.seconds;
        assert!((report.offered as f64 - meant).abs() < 6.0 * meant.sqrt(), "{report:?}");
        assert!(report.latency.p99_us > 50_000.0, "{report:?}");
        assert!(report.latency.p90_us > 10_000.0, "{report:?}");
        assert_eq!(report.errors.total(), 0);
    }
}

#[test]
fn a_backlog_is_reported() {
    for driver in drivers() {
        let (url, _) = scripted(|_| Act::Late);
        let open =
            Options { connections: 2, rate: Some(1000.0), constant: true, ..options(&url, driver) };
        let report = run(&open);
        // Each of two connections has one answer per 100 ms.
        let most = 2.0 * (10.0 * report.seconds + 1.0);
        assert!(report.backlog > 100 && report.completed as f64 <= most, "{report:?}");
        let meant = (1000.0 * report.seconds) as u64;
        assert!(report.offered.abs_diff(meant) <= 1, "{meant} of {report:?}");
    }
}

#[test]
fn waiting_requests_are_sent_at_the_end() {
    for driver in drivers() {
        let (url, _) = scripted(|_| Act::Late);
        let open = Options {
            connections: 2,
            rate: Some(100.0),
            constant: true,
            finish: Duration::from_secs(60),
            ..options(&url, driver)
        };
        let report = run(&open);
        assert_eq!((report.backlog, report.completed), (0, report.offered), "{report:?}");
        // Its latency includes the wait for earlier requests.
        let waited = Duration::from_millis(200).as_micros() as f64;
        assert!(report.offered < 10 || report.latency.max_us > waited, "{report:?}");
        assert!(report.client_busy < 0.9, "it mostly waits: {report:?}");
    }
}

#[test]
fn a_request_that_outlasts_the_measurement_is_reported() {
    for driver in drivers() {
        // The stalled request began in the warm-up, so no latency includes it.
        let (url, _) = scripted(|n| if n == 0 { Act::Stall } else { Act::Answer });
        // Another request outlasts the measured interval only if the machine stalls: then the measurement is repeated.
        let (warmup, duration) = (Duration::from_millis(100), Duration::from_millis(1500));
        let timeout = Duration::from_secs(4);
        let asked = Options { warmup, duration, timeout, ..options(&url, driver) };
        let report = run_until(&asked, |report| report.starved <= 1);
        assert_eq!((report.starved, report.errors.total()), (1, 0), "{report:?}");
    }
}

#[test]
fn invalid_targets_are_errors() {
    // Bound but not listening: the port is reserved, and connections are refused.
    let taken = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    taken.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let free = taken.local_addr().unwrap().as_socket().unwrap();
    let refused = load::run(&options(&format!("http://{free}/"), DriverChoice::Poll)).unwrap_err();
    assert!(matches!(&refused, Error::Connect { address, .. } if *address == free));
    assert_eq!(refused.exit_code(), 1);
    let missing = Options {
        paths: Some("/nonexistent/paths".into()),
        ..options(&format!("http://{free}/"), DriverChoice::Poll)
    };
    assert_eq!(load::run(&missing).unwrap_err().exit_code(), 2);
}

#[test]
fn reports_round_trip() {
    let report = run(&options(&servers::floor(DriverChoice::Poll), DriverChoice::Poll));
    let read: Report = serde_json::from_str(&report.to_json()).unwrap();
    assert_eq!((read.completed, read.errors), (report.completed, report.errors));
    assert_eq!(read.latency.max_us, report.latency.max_us);
    let text = report.to_string();
    assert!(text.contains("p99.9") && text.contains('█'), "{text}");
}

/// Latency includes the wait for a connection, service time does not.
#[test]
fn waits_for_a_connection_are_excluded_from_service_time() {
    for driver in drivers() {
        let (url, _) = scripted(|_| Act::Late);
        // Ten times the capacity of two connections.
        let (rate, duration) = (Some(200.0), Duration::from_secs(2));
        let report = run(&Options { rate, duration, connections: 2, ..options(&url, driver) });
        assert!(report.success_latency.max_us > 2.0 * report.served_latency.p50_us, "{report:?}");
        assert!(report.served_latency.p50_us > 99_000.0, "{report:?}");
    }
}

/// Fast rejections count neither as low latency nor as goodput.
#[test]
fn goodput_is_success_within_the_objective() {
    for driver in drivers() {
        let run_with = |objective| {
            let (url, _) = scripted(|n| if n % 2 == 0 { Act::Late } else { Act::NotFound });
            let duration = Duration::from_millis(600);
            run(&Options { objective, duration, ..options(&url, driver) })
        };
        let report = run_with(Duration::from_millis(90));
        assert!(report.status.success > 0 && report.status.client_error > 0, "{report:?}");
        assert_eq!(report.good, 0, "{report:?}");
        assert!(report.success_latency.p50_us > 99_000.0, "{report:?}");
        let report = run_with(Duration::from_secs(100));
        assert_eq!(report.good, report.status.success, "{report:?}");
    }
}
