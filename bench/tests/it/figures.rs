//! Runs the benchmarks of operations and stages, with small parameters.

use serde_json::{Value, json};

use crate::command::{bench, bench_as_text, report};

/// Runs a benchmark and returns its report.
fn measured(arguments: &str) -> Value {
    report(&bench(&arguments.split(' ').collect::<Vec<_>>()))
}

fn rows<'a>(of: &'a Value, field: &str) -> &'a [Value] {
    of[field].as_array().unwrap_or_else(|| panic!("no {field}: {of}"))
}

fn all<'a>(rows: &'a [Value], field: &str) -> Vec<&'a Value> {
    rows.iter().map(|row| &row[field]).collect()
}

fn figure(row: &Value, field: &str) -> f64 {
    row[field].as_f64().unwrap_or_else(|| panic!("no {field}: {row}"))
}

fn are_positive(rows: &[Value], fields: &[&str]) {
    for row in rows {
        for field in fields {
            assert!(figure(row, field) > 0.0, "{field}: {row}");
        }
    }
}

#[test]
fn the_pipeline_runs_in_every_arm() {
    let report = measured("pipeline --quick --kib=1,4");
    let sizes = rows(&report, "sizes");
    assert_eq!(report["stages"], 8);
    assert_eq!(all(sizes, "kib_per_stage"), [1, 4]);
    for size in sizes {
        let cohorts = rows(size, "cohorts");
        assert_eq!(all(cohorts, "cohort"), [1, 4, 16, 64, 256]);
        are_positive(cohorts, &["ns", "rtc_over_cohort"]);
        assert_eq!(size["rtc_over_cohort64"], cohorts[3]["rtc_over_cohort"]);
        // The tuner tries nothing while queueing delays are long, as they may be on a busy machine.
        assert!(figure(size, "auto_found") <= 512.0, "{size}");
        assert!(figure(size, "stage_bytes") > 512.0 * figure(size, "kib_per_stage"), "{size}");
    }
    let times = ["run_to_completion_ns", "thread_per_request_ns", "auto_ns"];
    are_positive(sizes, &times);
    are_positive(sizes, &["rtc_over_cohort64", "rtc_over_auto", "rtc_over_direct"]);
}

#[test]
fn the_tuned_size_is_compared_with_every_size() {
    let report = measured("ladder --quick");
    let pipelines = rows(&report, "pipelines");
    assert_eq!((pipelines.len(), &report["processes"]), (5, &json!(1)));
    let sizes = [1, 8, 32, 64, 128, 256, 512];
    assert_eq!(all(rows(&pipelines[0], "sweep"), "cohort"), sizes);
    for pipeline in pipelines {
        // The tuner may find no size in such a short time.
        assert!(pipeline["found"] == 0 || sizes.iter().any(|size| pipeline["found"] == *size));
        assert!(sizes.iter().any(|size| pipeline["best"] == *size), "{pipeline}");
    }
    are_positive(pipelines, &["regret"]);
    assert!(report["worst_regret"].is_number() && report["tiny_rtc_over_auto"].is_number());
}

#[test]
fn concurrent_requests_are_served_in_every_arm() {
    let report = measured("concurrency --quick --kib=1 --no-servers");
    assert_eq!(all(rows(&report, "rows"), "in_flight"), [[64; 8], [512; 8]].concat());
    are_positive(rows(&report, "rows"), &["ns"]);
    assert!(figure(&report, "list_general_over_bounded_pools") > 0.0);
    let elections = rows(&report, "elections");
    assert_eq!(all(elections, "in_flight"), [64, 512, 512]);
    assert_eq!(all(elections, "wait_ms"), [0, 0, 1]);
    assert!(rows(&report, "misses").is_empty() && report["bytes_per_request"] == 10_048);
}

#[test]
fn every_server_has_a_failure_rate() {
    let report = measured("failure --quick --kib=1");
    let rows = rows(&report, "rows");
    assert_eq!(rows.len(), 16);
    assert!(rows.iter().all(|row| (1000.0..1e8).contains(&figure(row, "rate"))), "{report}");
}

#[test]
fn lookups_are_interleaved() {
    // Each round asserts that both variants find the same values.
    let report = measured("interleave --quick");
    are_positive(std::slice::from_ref(&report), &["plain_ns", "prefetch_ns", "speedup"]);
    let [mib, rounds, cohort] = ["table_mib", "rounds", "cohort"].map(|field| &report[field]);
    assert!(mib == 1 && rounds == 3 && cohort == 64, "{report}");
}

#[test]
fn filters_are_matched_at_every_cohort_size() {
    let report = measured("match --quick --workload=W0,w3 --cohort=0,64,auto --cores=1,2");
    let of_w3: Vec<_> =
        rows(&report, "rows").iter().filter(|row| row["workload"] == "W3").collect();
    let name = |row: &&Value| format!("{} {} {}", row["cores"], row["form"], row["cohort"]);
    let arms: Vec<_> = of_w3.iter().map(|row| name(row).replace('"', "")).collect();
    let loops = ["loop 0", "loop 64", "loop auto"];
    let one = loops.iter().chain(&["twin 0"]).map(|form| format!("1 {form}"));
    let parts = ["partition 0", "partition 1024", "twin 0"];
    let two = loops.iter().chain(&parts).map(|form| format!("2 {form}"));
    assert_eq!(arms, one.chain(two).collect::<Vec<_>>());
    are_positive(rows(&report, "rows"), &["events_per_s", "bytes_per_subscription"]);
    assert!(rows(&report, "rows").iter().all(|row| row["subscriptions"] == 2000));
    // 2000 filters, each satisfied by about one event in 10^5.
    assert!(of_w3.iter().all(|row| figure(row, "matches_per_event") < 1.0), "{of_w3:?}");
    are_positive(rows(&report, "builds"), &["insert_per_s"]);
    assert!(report["rows"][0]["over_per_event"].is_number());
}

#[test]
fn publishes_are_answered_by_both_servers() {
    for (processors, divided) in [(1, None), (2, Some("divided"))] {
        let report = measured(&format!("figure8 --quick --processors={processors}"));
        assert_eq!(rows(&report, "clients").len(), 2);
        assert_eq!(rows(&report, "twin_over_staged").len(), 2);
        let arms = ["twin", "staged"].into_iter().chain(divided).chain(["staged-4"]);
        assert_eq!(all(rows(&report, "rows"), "server"), arms.collect::<Vec<_>>().repeat(2));
        let ratios = report["staged_over_divided"].as_array().map_or(0, Vec::len);
        assert_eq!(ratios, if divided.is_some() { 2 } else { 0 });
        are_positive(rows(&report, "rows"), &["mean_us", "events_per_s"]);
    }
}

#[test]
fn mechanisms_are_measured_on_two_processors() {
    let report = measured("spread --quick");
    let count = |scene: &str| {
        all(rows(&report, "rows"), "scene").into_iter().filter(|other| *other == scene).count()
    };
    assert_eq!(["balanced", "affinity", "moved"].map(count), [5, 4, 4]);
    are_positive(rows(&report, "rows"), &["plain_us", "with_us"]);
    assert_eq!(rows(&report, "moves").len(), 4);
    are_positive(rows(&report, "moves"), &["move_us"]);
}

#[test]
fn a_crossing_is_split_into_its_parts() {
    let report = measured("crossing --quick");
    let rows = rows(&report, "rows");
    assert_eq!(all(rows, "in_flight"), [1, 8, 64, 512]);
    are_positive(rows, &["local_ns", "one_thread_ns", "crossed_ns", "turns"]);
    for row in rows {
        let [local, crossed, way, messages, travel] =
            ["local_ns", "crossed_ns", "way_ns", "messages_ns", "travel_ns"]
                .map(|field| figure(row, field));
        // Medians of one round.
        assert!(((crossed - local) / 2.0 - way).abs() < 1.0, "{row}");
        assert!((messages + travel - way).abs() < 1.0, "{row}");
    }
    // A processor whose call is the only one has nothing to do until the reply.
    assert!(figure(&rows[0], "sleeps") > 0.0 && figure(&report, "empty_turn_ns") > 0.0);
}

#[test]
fn writes_are_measured_in_cohorts() {
    let report = measured("figure2 --quick");
    let cohorts = rows(&report, "cohorts");
    assert_eq!(all(cohorts, "k"), [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert_eq!(cohorts[0]["over_k1"], 1.0);
    are_positive(cohorts, &["ns_per_call"]);
    assert_eq!((&report["k8_over_k1"], &report["rounds"]), (&cohorts[3]["over_k1"], &json!(3)));
    // The first line says whether the processor counts misses.
    let counts = report["machine"]["hardware_counters"] == true;
    assert_eq!(cohorts[0]["instructions"].is_number(), counts, "{report}");
    let text = bench_as_text(&["figure2", "--quick"]);
    assert_eq!(text.contains("no hardware counters"), !counts, "{text}");
    assert!(text.contains("on core ["), "{text}");
}

#[test]
fn a_missing_directory_is_an_error() {
    let output = bench(&["figure2", "--quick", "--directory=/nonexistent"]);
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_walk_only_runs() {
    let pipeline = |more: &[&str]| bench(&[&["pipeline", "--requests=100"], more].concat());
    for cohort in ["0", "1", "64"] {
        let output = pipeline(&["--kib=1", "--walk", cohort]);
        assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    }
    assert_eq!(pipeline(&["--kib=3"]).status.code(), Some(2));
}
