//! The load generator over TLS: it sends and counts as without TLS, and verifies certificates by default.

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::time::Duration;

use phalanx::runtime::DriverChoice;
use phalanx_bench::load::{self, Error, Options};

use crate::load::drivers;
use crate::servers::tls::sealed;

fn options(url: &str, driver: DriverChoice) -> Options {
    Options { insecure: true, ..crate::load::options(url, driver) }
}

#[test]
fn requests_are_sent_and_counted() {
    for driver in drivers() {
        for (pipeline, no_keep_alive) in [(1, false), (5, false), (1, true)] {
            let (url, seen) = sealed();
            let asked = Options { pipeline, no_keep_alive, ..options(&url, driver) };
            let report = load::run(&asked).unwrap();
            assert!(report.completed > 0 && report.errors.total() == 0, "{report}");
            assert_eq!(report.status.success, report.completed);
            assert_eq!(report.completed, seen.requests.load(Ordering::Relaxed), "{report}");
            // Up to one pipeline per connection may have arrived after the measured interval.
            assert!(report.bytes > 25_000 * report.completed.saturating_sub(20), "{report}");
            assert!(report.tls.as_deref().is_some_and(|tls| tls.starts_with("TLS 1.3, AES_")));
            assert!(report.to_string().contains("(TLS 1.3, AES_"), "{report}");
            // With keep-alive there is one handshake per connection, plus one at the start.
            let handshakes = seen.handshakes.load(Ordering::Relaxed);
            let wanted = if no_keep_alive { report.completed } else { 4 };
            assert_eq!(handshakes, wanted, "{report}");
        }
    }
}

#[test]
fn untrusted_certificates_are_rejected() {
    let (url, seen) = sealed();
    let asked = Options { insecure: false, ..options(&url, DriverChoice::Poll) };
    let error = load::run(&asked).unwrap_err();
    assert!(matches!(error, Error::Tls { .. }), "{error}");
    assert!(error.to_string().contains("--insecure") && error.exit_code() == 1, "{error}");
    assert_eq!(seen.requests.load(Ordering::Relaxed), 0, "no request is sent");
}

#[test]
fn failed_handshakes_are_reported() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    let patience = Duration::from_millis(100);
    let asked = Options { timeout: patience, ..options(&url, DriverChoice::Poll) };
    assert!(matches!(load::run(&asked), Err(Error::Tls { .. })));
}
