//! The recorder for the crate `metrics`, and its series in `/metrics`.

use std::io::{Read, Write};
use std::net::TcpStream;

use ::metrics::{Key, KeyName, Label, Level, Metadata, Recorder as _, Unit};
use phalanx::metrics::Recorder;
use phalanx::{Graph, Runtime};

const META: Metadata<'static> = Metadata::new("test", Level::INFO, None);

#[test]
fn series_of_each_kind() {
    let recorder = Recorder::new();
    recorder.describe_histogram(
        KeyName::from("db.time"),
        Some(Unit::Seconds),
        "Time\nof it.".into(),
    );
    let key = |name: &'static str, labels: &[(&'static str, &'static str)]| {
        Key::from_parts(name, labels.iter().map(|(k, v)| Label::new(*k, *v)).collect::<Vec<_>>())
    };
    for _ in 0..2 {
        let counter = recorder.register_counter(&key("http.calls_total", &[("to", "a\"b")]), &META);
        counter.increment(3);
    }
    recorder.register_counter(&key("http.calls", &[]), &META).absolute(9);
    let gauge = recorder.register_gauge(&key("1open", &[("b", "2"), ("a", "1")]), &META);
    gauge.set(2.5);
    gauge.decrement(1.0);
    let times = recorder.register_histogram(&key("db.time", &[]), &META);
    [0.5, 3.0, f64::NAN, 1e9].into_iter().for_each(|time| times.record(time));
    // The name has another kind already.
    recorder.register_gauge(&key("db.time", &[]), &META).set(1.0);
    let text = recorder.render();
    for line in [
        "# TYPE http_calls counter",
        "http_calls_total{to=\"a\\\"b\"} 6",
        "http_calls_total 9",
        "_1open{a=\"1\",b=\"2\"} 1.5",
        "# HELP db_time Time\\nof it. (seconds)",
        "db_time_bucket{le=\"0.25\"} 0",
        "db_time_bucket{le=\"1.0\"} 1",
        "db_time_bucket{le=\"1048576.0\"} 2",
        "db_time_bucket{le=\"+Inf\"} 3",
        "db_time_count 3",
        "db_time_sum 1000000003.5",
        "phalanx_recorder_series_refused_total 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is missing in\n{text}");
    }
}

#[test]
fn series_are_bounded() {
    let recorder = Recorder::new();
    for number in 0..10_002 {
        let key = Key::from_parts("many", vec![Label::new("n", number.to_string())]);
        recorder.register_counter(&key, &META).increment(1);
    }
    let text = recorder.render();
    assert_eq!(text.lines().filter(|line| line.starts_with("many_total")).count(), 10_000);
    assert!(text.ends_with("phalanx_recorder_series_refused_total 2\n"));
}

/// A page with a label twice in a series is invalid as a whole.
#[test]
fn labels_are_distinct() {
    let recorder = Recorder::new();
    let pairs = [("a.b", "2"), ("a_b", "1"), ("le", "x"), ("le", "y")];
    let key = |name| {
        Key::from_parts(name, pairs.iter().map(|(k, v)| Label::new(*k, *v)).collect::<Vec<_>>())
    };
    recorder.register_counter(&key("calls"), &META).increment(1);
    recorder.register_histogram(&key("times"), &META).record(1.0);
    let text = recorder.render();
    assert!(text.contains("calls_total{a_b=\"1\",le=\"x\"} 1\n"), "{text}");
    assert!(text.contains("times_count{a_b=\"1\",le_=\"x\"} 1\n"), "{text}");
}

#[test]
fn the_admin_page_has_them() {
    let recorder = Recorder::new();
    recorder.register_counter(&Key::from_name("orders"), &META).increment(7);
    let page = std::sync::Mutex::new(String::new());
    let runtime = Runtime::new().processors(1).signals(false).recorder(&recorder);
    let runtime = runtime.admin(Some("127.0.0.1:0".parse().unwrap()));
    let ran = runtime.run_with_ready(
        Graph::new(),
        |_| Ok(()),
        |started| {
            let mut client = TcpStream::connect(started.admin.unwrap()).unwrap();
            client
                .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
                .unwrap();
            client.read_to_string(&mut page.lock().unwrap()).unwrap();
            started.control.drain();
        },
    );
    ran.unwrap();
    let page = page.into_inner().unwrap();
    assert!(page.contains("\norders_total 7\n") && page.ends_with("\n# EOF\n"), "{page}");
}
