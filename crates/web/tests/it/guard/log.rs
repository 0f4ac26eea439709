//! Contents of the access log.

use std::io::Write;
use std::net::Shutdown;
use std::path::Path;

use phalanx_testkit::eventually;
use phalanx_web::{AccessLog, Config, LogFormat, LogTarget};

use crate::guard::harness::{Server, all, connect, get, on_each_driver, read_to_end, read_until};

fn logged(format: LogFormat) -> impl Fn(&mut Config, &Path) {
    move |config, home| {
        let (format, target) = (format.clone(), LogTarget::File(home.join("log")));
        config.access_log = Some(AccessLog { format, target });
        config.timeouts.request = std::time::Duration::from_millis(500);
    }
}

/// Waits until the log has `count` lines.
fn lines(home: &Path, count: usize) -> Vec<String> {
    eventually("lines in the log", || {
        let text = std::fs::read_to_string(home.join("log")).unwrap_or_default();
        let lines: Vec<_> = text.lines().map(str::to_owned).collect();
        assert!(lines.len() <= count, "{lines:#?}");
        (lines.len() == count).then_some(lines)
    })
}

/// A line without its address and time, which are checked here.
fn without_time(line: &str) -> &str {
    let rest = line.strip_prefix("127.0.0.1 - - [").expect("who and when");
    let (time, rest) = rest.split_once("] ").expect("a time");
    assert!(time.len() == 26 && time.ends_with(" +0000"), "{time}");
    rest
}

#[test]
fn requests_and_responses_are_logged() {
    on_each_driver(logged(LogFormat::Combined), |server, home| {
        // One after another, so that the order of the lines is known.
        let mut count = 0;
        let mut line = |ask: &dyn Fn()| {
            ask();
            count += 1;
            let lines = lines(home, count);
            without_time(lines.last().unwrap()).to_owned()
        };
        let head = "Host: h\r\nConnection: close\r\n";
        let logged = line(&|| drop(get(server, "/small")));
        assert_eq!(logged, r#""GET /small HTTP/1.1" 200 5 "-" "-""#);
        let logged = line(&|| {
            let fields = "Referer: http://a/\r\nUser-Agent: me \"x\"\r\nRange: bytes=1-2\r\n";
            all(server, &format!("GET /small?q HTTP/1.1\r\n{head}{fields}\r\n"));
        });
        assert_eq!(logged, r#""GET /small?q HTTP/1.1" 206 2 "http://a/" "me \"x\"""#);
        let logged = line(&|| drop(all(server, &format!("HEAD /small HTTP/1.1\r\n{head}\r\n"))));
        assert_eq!(logged, r#""HEAD /small HTTP/1.1" 200 0 "-" "-""#);
        let logged = line(&|| drop(get(server, "/missing")));
        assert!(logged.starts_with(r#""GET /missing HTTP/1.1" 404 "#), "{logged}");
        let logged = line(&|| drop(get(server, "/large")));
        let length = 24 << 20;
        assert_eq!(logged, format!(r#""GET /large HTTP/1.1" 200 {length} "-" "-""#));
        // Malformed requests, and one that is not completed in time.
        let logged = line(&|| drop(all(server, "GET /a\0b HTTP/1.1\r\nHost: h\r\n\r\n")));
        assert!(logged.starts_with(r#""GET /a\x00b HTTP/1.1" 400 "#), "{logged}");
        let logged = line(&|| drop(all(server, "GET /small HT")));
        assert!(logged.starts_with(r#""GET /small HT" 408 "#), "{logged}");
        // A body that is too large, by its declared length.
        let logged = line(&|| {
            let length = "Content-Length: 1000000\r\n";
            all(server, &format!("POST /small HTTP/1.1\r\n{head}{length}\r\n"));
        });
        assert!(logged.starts_with(r#""POST /small HTTP/1.1" 413 "#), "{logged}");
        // A connection without a request has no line.
        connect(server).shutdown(Shutdown::Both).unwrap();
        drop(get(server, "/small"));
        lines(home, count + 1);
    });
}

#[test]
fn a_pipelined_request_has_its_own_line() {
    on_each_driver(logged(LogFormat::Json), |server, home| {
        let mut client = connect(server);
        let requests: String =
            (0..100).map(|n| format!("GET /small?{n} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
        client.write_all(requests.as_bytes()).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&mut client).matches("HTTP/1.1 200 OK").count(), 100);
        for (n, line) in lines(home, 100).iter().enumerate() {
            assert!(line.contains(&format!(
                r#""request":"GET /small?{n} HTTP/1.1","status":200,"bytes":5"#
            )));
            assert!(
                line.starts_with(r#"{"time":"2"#) && line.contains(r#","duration_us":"#),
                "{line}"
            );
        }
    });
}

/// After a shutdown the log has a line for each response that a client received.
#[test]
fn no_line_is_lost_at_the_end() {
    let homes = std::cell::RefCell::new(Vec::new());
    on_each_driver(
        |config, home| {
            // Next to the directory, which is deleted with the test.
            let path = home.with_extension("log");
            let target = LogTarget::File(path.clone());
            config.access_log = Some(AccessLog { format: LogFormat::Common, target });
            homes.borrow_mut().push(path);
        },
        |server, _| {
            let mut clients: Vec<_> = (0..20).map(|_| connect(server)).collect();
            for _ in 0..50 {
                for client in &mut clients {
                    client.write_all(b"GET /small HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
                }
                for client in &mut clients {
                    read_until(client, "\r\n\r\nsmall");
                }
            }
            server.control.drain();
        },
    );
    for path in homes.into_inner() {
        // The file does not exist if the driver is unavailable.
        if let Ok(text) = std::fs::read_to_string(&path) {
            assert_eq!(text.lines().count(), 1000);
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// A log that cannot be opened is a startup error that names it.
#[test]
fn a_log_that_cannot_be_opened() {
    let root = tempfile::tempdir().unwrap();
    let mut config = Config::with_root(root.path());
    let path = root.path().join("no").join("log");
    let target = LogTarget::File(path.clone());
    config.access_log = Some(AccessLog { format: LogFormat::Common, target });
    let error = phalanx_web::serve(config, |_| panic!("it serves")).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("cannot write the access log {}: ", path.display())),
        "{error}"
    );
}

/// Lines that cannot be written are counted in a metric.
#[test]
#[cfg(target_os = "linux")]
fn lost_lines_are_counted() {
    let configure = |config: &mut Config, _: &Path| {
        // Every write fails because the device is full.
        let target = LogTarget::File("/dev/full".into());
        config.access_log = Some(AccessLog { format: LogFormat::Common, target });
        config.runtime.admin = Some(([127, 0, 0, 1], 0).into());
    };
    on_each_driver(configure, |server, _| {
        for _ in 0..3 {
            assert!(get(server, "/small").ends_with("small"));
        }
        let admin = server.admin.expect("asked for");
        let (control, active) = (server.control.clone(), server.active.clone());
        let (address, addresses) = (admin, vec![admin]);
        let admin = Server { address, addresses, control, active, admin: None };
        eventually("all of them", || {
            let answer = get(&admin, "/snapshot.json");
            let json = answer.split("\r\n\r\n").nth(1).expect("a body");
            let snapshot: phalanx::metrics::Snapshot =
                serde_json::from_str(json).expect("a snapshot");
            let named = |name| snapshot.counters.iter().find(|counter| counter.name == name);
            let lost = named("phalanx_web_log_lines_lost").expect("it is shown");
            assert!(lost.count <= 3, "{lost:?}");
            (lost.count == 3).then_some(())
        });
        let metrics = get(&admin, "/metrics");
        assert!(metrics.contains("\n# TYPE phalanx_web_log_lines_lost counter\n"), "{metrics}");
        assert!(metrics.contains("\nphalanx_web_log_lines_lost_total 3\n"), "{metrics}");
    });
}
