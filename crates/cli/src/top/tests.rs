//! Tests of the screen with synthetic snapshots.

use super::*;
use crate::top::{plain, view};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

/// The `nth` second of a program with two processors and three stages, parsed from JSON like a real one.
fn snapshot(nth: u64) -> Snapshot {
    let stage = |name: &str, processor: u64, weight: u64| {
        let ran = nth * weight * (processor + 1) * 1000;
        let times = |bucket: usize| {
            let mut buckets = vec![0; 28];
            buckets[bucket] = ran;
            serde_json::json!({"p50_ns": 0.0, "p99_ns": 0.0, "buckets": buckets})
        };
        let column = |count: u64, each: u64| {
            serde_json::json!({"count": count, "total_ns": count * each, "mean_ns": each as f64,
                "max_ns": each * 10})
        };
        serde_json::json!({
            "stage": name, "queue_length": 3, "queue_length_mean": 3.5, "queue_length_max": 40,
            "started": column(ran, 2_000), "resumed": column(0, 0), "completed": column(ran, 500),
            "waits": times(5), "runs": times(2), "suspended": 9, "suspended_now": 4,
            "panicked": 0, "cancelled": 0, "rejected": 0, "shed": {"full": nth * (weight / 3)},
            "cohorts": ran / 10, "cohort_mean": 10.0, "cohort_max": 64,
            "cohort_sizes": [0, 0, 0, ran / 10, 0, 0, 0, 0],
        })
    };
    let processor = |index: u64| {
        serde_json::json!({
            "processor": index, "turns": 1, "parks": 1, "parked_ns": nth * 500_000_000,
            "busy_ns": nth * 250_000_000, "wakes_sent": 0, "system_calls": nth, "operations": 7,
            "memory_bytes": 0, "arcs": [], "cohort_tuner": {"cohort": 64, "kept": 8 * (index + 1),
                "trials": 1, "trying": true, "costs_ns": []},
            "stages": [stage("front", index, 1), stage("a very long name", index, 2), stage("last", index, 3)],
        })
    };
    let program = serde_json::json!({
        "version": 1, "run": 1, "uptime_ns": nth * 1_000_000_000, "driver": "poll", "phase": "running",
        "stages": ["front", "a very long name", "last"], "time_buckets_ns": [],
        "processors": [processor(0), processor(1)],
    });
    serde_json::from_value(program).unwrap()
}

fn app() -> App {
    let mut app = App::new("127.0.0.1:81".to_owned(), 1.0, false);
    app.take(Ok(snapshot(1)));
    app.take(Ok(snapshot(2)));
    app
}

fn screen(app: &App, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(app, frame)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned()).collect()
}

fn press(app: &mut App, keys: &str) -> Next {
    let press = |key| app.key(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE));
    keys.chars().map(press).last().unwrap()
}

/// Stage and processor of each row, as `front 0`.
fn order(app: &App) -> Vec<String> {
    let name = |row: Row| format!("{} {}", row.stage, row.processor.map_or(9, |index| index));
    app.rows().into_iter().map(name).collect()
}

#[test]
fn eighty_columns_show_everything_that_counts() {
    let lines = screen(&app(), 80, 12);
    assert_eq!(lines[0], "phalanx 127.0.0.1:81  up 2.00 s  poll  running  cohorts 8–16");
    assert_eq!(
        lines[1],
        "18.0k operations/s  25 % busy, 50 % asleep of 2  24 suspended  shedding 2/s"
    );
    assert_eq!(
        lines[2],
        "STAGE         P QUEUE SIZE OPS/s  WAIT   p99   max   RUN   p99   max  SUSP  SHED"
    );
    assert_eq!(
        lines[3],
        "front         0  3.50   10 1.00k 2.00µ 4.08µ 20.0µ  500n  509n 5.00µ     4     0"
    );
    assert!(lines[5].starts_with("a very long "), "{}", lines[5]);
    assert!(lines[8].ends_with(" 1"), "one shed: {}", lines[8]);
    assert!(lines[11].starts_with("q quit  s sort (wavefront)"));
}

#[test]
fn wider_terminals_show_more() {
    let wide = screen(&app(), 140, 12);
    assert!(wide[2].contains("BUSY") && wide[2].contains("STARTED") && wide[2].ends_with("C.MAX"));
    assert!(wide[5].starts_with("a very long name "));
    assert!(!screen(&app(), 80, 12)[2].contains("BUSY"));
}

#[test]
fn keys_sort() {
    let mut app = app();
    assert_eq!(order(&app)[..3], ["front 0", "front 1", "a very long name 0"]);
    // Queue, size, then operations per second.
    press(&mut app, "sss");
    assert_eq!(order(&app)[..2], ["last 1", "a very long name 1"]);
    assert!(screen(&app, 80, 12)[11].contains("sort (OPS/s)"));
    press(&mut app, "r");
    assert_eq!(order(&app)[0], "front 0");
    press(&mut app, "SSS");
    assert_eq!(app.column, None);
    press(&mut app, "S");
    assert_eq!(app.column, Some(COLUMNS.len() - 1));
    press(&mut app, "w");
    assert_eq!(order(&app)[0], "front 0");
}

#[test]
fn keys_sum_pause_and_change_the_rate() {
    let mut app = app();
    press(&mut app, "a");
    assert_eq!(order(&app), ["front 9", "a very long name 9", "last 9"]);
    let line = &screen(&app, 80, 12)[3];
    assert!(line.starts_with("front         *  3.50   10 3.00k"), "{line}");
    press(&mut app, "p");
    app.take(Ok(snapshot(9)));
    assert_eq!(app.latest.as_ref().unwrap().uptime_ns, 2_000_000_000);
    assert!(screen(&app, 80, 12)[0].ends_with("paused"));
    press(&mut app, "p+");
    assert_eq!(app.interval_seconds(), 0.5);
    press(&mut app, "---");
    assert_eq!(app.interval_seconds(), 5.0);
    assert_eq!(press(&mut app, "?"), Next::Stay);
    assert!(screen(&app, 80, 24).iter().any(|line| line.contains("wavefront order")));
    assert_eq!(press(&mut app, "q"), Next::Stay, "closes the help");
    assert_eq!(press(&mut app, "q"), Next::Leave);
}

#[test]
fn a_program_that_restarts() {
    let mut app = app();
    app.take(Err(Failure::Unreachable("a:1".to_owned(), std::io::ErrorKind::TimedOut.into())));
    assert!(screen(&app, 80, 12)[11].starts_with("cannot reach a:1"));
    assert_eq!(app.rows().len(), 6, "the last figures stay");
    // After a restart its counters begin at zero, and no rate is negative.
    app.take(Ok(snapshot(1)));
    assert_eq!(app.failure, None);
    assert_eq!(app.rows()[0].figures.ran, 1000);
}

#[test]
fn small_and_empty_screens() {
    let mut app = app();
    press(&mut app, "jjjjjjjjjjjj?");
    for (width, height) in [(1, 1), (20, 3), (80, 4), (300, 90)] {
        screen(&app, width, height);
    }
    screen(&App::new(String::new(), 1.0, true), 80, 24);
}

#[test]
fn a_restart_between_two_snapshots_is_noticed() {
    let mut after = snapshot(3);
    assert!(Interval::between(&snapshot(1), &after).is_some());
    // Although the new run is longer than the old one was.
    after.run = 2;
    assert!(Interval::between(&snapshot(1), &after).is_none());
}

#[test]
fn the_plain_table() {
    let interval = Interval::between(&snapshot(1), &snapshot(3)).unwrap();
    let table = plain::table("a:1", &snapshot(3), &interval, false);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 2 + 6);
    assert!(
        lines[0].starts_with(
            "a:1: up 3.00 s, driver poll, running, cohorts 8–16; over 2.00 s 25 % of 2"
        )
    );
    let cells: Vec<&str> = lines[2].split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(cells[..6], ["front", "0", "3.50", "10", "1.00k", "0.1 %"]);
    assert_eq!(plain::table("a:1", &snapshot(3), &interval, true).lines().count(), 2 + 3);
}

#[test]
fn active_processors_are_shown_if_placement_is_automatic() {
    let mut app = app();
    assert!(!screen(&app, 160, 10).join("\n").contains("active"));
    let mut snapshot = snapshot(3);
    let gauges = serde_json::json!([
        {"name": "phalanx_active_processors", "help": "", "value": 2},
        {"name": "phalanx_needed_processors", "help": "", "value": 1},
        {"name": "phalanx_placement_demand_thousandths", "help": "", "value": 420},
    ]);
    let counter = |result, count| {
        let (name, label) = ("phalanx_placement_comparisons", ["result", result]);
        serde_json::json!({"name": name, "help": "", "label": label, "count": count})
    };
    let counters = serde_json::json!([counter("kept", 1), counter("undone", 3)]);
    snapshot.gauges = serde_json::from_value(gauges).unwrap();
    snapshot.counters = serde_json::from_value(counters).unwrap();
    app.take(Ok(snapshot.clone()));
    let line =
        "2 of 2 processors active, 1 advised, load 0.42  settings compared: 1 kept, 3 undone";
    let (first, second) = line.split_once("  ").unwrap();
    assert_eq!(screen(&app, 80, 10)[2..4], [first, second]);
    assert!(screen(&app, 80, 10)[4].starts_with("STAGE"), "{:?}", screen(&app, 80, 10));
    let interval = app.interval.as_ref().unwrap();
    assert!(plain::table("a", &snapshot, interval, true).contains(line));
}

#[test]
fn the_mix_and_the_last_decision_are_shown() {
    let mut app = app();
    let mut snapshot = snapshot(3);
    let placement = serde_json::json!({
        "mode": "on", "reason": "steady", "mix": "small", "indicators": {"sockets": 64.0},
        "decision": {"uptime_ns": 1_000_000_000, "to": "3 active, spin 0, batch-delay 0",
            "reason": "trial", "predicted": null, "measured": null,
            "measured_before": {"cpu_us_per_operation": 9.5, "p99_us": 20.0}},
    });
    snapshot.placement = serde_json::from_value(placement).unwrap();
    app.take(Ok(snapshot));
    let lines = screen(&app, 80, 10);
    assert!(lines[2].starts_with("mix small: ") && lines[2].ends_with("64 sockets"), "{lines:?}");
    let last =
        ["to 3 active, spin 0, batch-delay 0: trial, 2.00 s ago", "before 9.50 µs p99 20.0 µs"];
    assert_eq!(lines[3..5], last);
}

#[test]
fn moved_connections_are_shown() {
    let mut app = app();
    let mut snapshot = snapshot(3);
    let counters = serde_json::json!([
        {"name": "phalanx_connections_moved", "help": "", "label": ["reason", "placed"], "count": 2},
        {"name": "phalanx_connections_moved", "help": "", "label": ["reason", "spread"], "count": 3},
        {"name": "others", "help": "", "count": 9},
    ]);
    snapshot.counters = serde_json::from_value(counters).unwrap();
    snapshot.processors[0].take_overs = 4;
    app.take(Ok(snapshot));
    let line = "moved: 5 connections, 4 partitions";
    assert_eq!(screen(&app, 80, 10)[2], line);
}
