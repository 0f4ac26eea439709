//! Runs `bench pipeline`, `bench ladder`, `bench interleave` and `bench figure2` with small parameters.

use std::process::ExitCode;

use clap::Parser;
use phalanx_bench::cli::Cli;
use phalanx_bench::experiments::{
    concurrency, crossing, failure, figure2, figure8, interleave, ladder, matching, pipeline,
    spread,
};

#[derive(Parser)]
struct Line<O: clap::Args> {
    #[command(flatten)]
    options: O,
}

fn options<O: clap::Args>(words: &[&str]) -> O {
    Line::parse_from([&["bench"], words].concat()).options
}

#[test]
fn the_pipeline_runs_in_every_arm() {
    let report = pipeline::run(&options(&["--quick", "--kib=1,4"])).unwrap();
    println!("{report}");
    let sizes: Vec<u64> = report.sizes.iter().map(|size| size.kib_per_stage).collect();
    assert_eq!((report.stages, sizes), (8, vec![1, 4]));
    for size in &report.sizes {
        let cohorts: Vec<usize> = size.cohorts.iter().map(|cohort| cohort.cohort).collect();
        assert_eq!(cohorts, [1, 4, 16, 64, 256]);
        assert!(size.cohorts.iter().all(|cohort| cohort.ns > 0.0 && cohort.rtc_over_cohort > 0.0));
        assert!(size.run_to_completion_ns > 0.0 && size.thread_per_request_ns > 0.0);
        assert_eq!(size.rtc_over_cohort64, size.cohorts[3].rtc_over_cohort);
        assert!(size.auto_ns > 0.0 && size.rtc_over_auto > 0.0 && size.rtc_over_direct > 0.0);
        // The tuner tries nothing while queueing delays are long, as they may be on a busy machine.
        assert!(size.auto_found <= 512, "{size:?}");
        assert!(size.stage_bytes > 512 * size.kib_per_stage, "{size:?}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["sizes"][0]["rtc_over_cohort64"].is_number());
    assert!(json["sizes"][0]["rtc_over_auto"].is_number());
}

#[test]
fn the_tuned_size_is_compared_with_every_size() {
    let report = ladder::run(&options(&["--quick"])).unwrap();
    let sizes: Vec<u64> =
        report.pipelines[0].sweep.iter().map(|declared| declared.cohort).collect();
    assert_eq!(sizes, [1, 8, 32, 64, 128, 256, 512]);
    for pipeline in &report.pipelines {
        // The tuner may find no size in such a short time.
        assert!(pipeline.found == 0 || sizes.contains(&pipeline.found), "{pipeline:?}");
        assert!(sizes.contains(&pipeline.best) && pipeline.regret > 0.0, "{pipeline:?}");
    }
    let json = serde_json::to_value(&report).unwrap();
    assert!(json["worst_regret"].is_number() && json["tiny_rtc_over_auto"].is_number(), "{json}");
    let back: ladder::Report = serde_json::from_value(json).unwrap();
    assert_eq!((back.pipelines.len(), back.processes), (5, 1));
}

#[test]
fn concurrent_requests_are_served_in_every_arm() {
    let report = concurrency::run(&options(&["--quick", "--kib=1", "--no-servers"])).unwrap();
    println!("{report}");
    let levels: Vec<usize> = report.rows.iter().map(|row| row.in_flight).collect();
    assert_eq!(levels, [[64; 8], [512; 8]].concat());
    assert!(report.rows.iter().all(|row| row.ns > 0.0), "{report:?}");
    assert!(report.list_general_over_bounded_pools.is_some_and(|ratio| ratio > 0.0));
    let loads: Vec<_> = report.elections.iter().map(|row| (row.in_flight, row.wait_ms)).collect();
    assert_eq!(loads, [(64, 0), (512, 0), (512, 1)]);
    assert!(report.misses.is_empty() && report.bytes_per_request == 10_048, "{report:?}");
}

#[test]
fn every_server_has_a_failure_rate() {
    let report = failure::run(&options(&["--quick", "--kib=1"])).unwrap();
    println!("{report}");
    assert_eq!(report.rows.len(), 16);
    assert!(report.rows.iter().all(|row| row.rate >= 1000.0 && row.rate < 1e8), "{report:?}");
}

#[test]
fn lookups_are_interleaved() {
    // Each round asserts that both variants find the same values.
    let report = interleave::run(&options(&["--quick"])).unwrap();
    println!("{report}");
    assert!(report.plain_ns > 0.0 && report.prefetch_ns > 0.0 && report.speedup > 0.0);
    assert_eq!((report.table_mib, report.rounds, report.cohort), (1, 3, 64));
}

#[test]
fn filters_are_matched_at_every_cohort_size() {
    let words = ["--quick", "--workload=W0,w3", "--cohort=0,64,auto", "--cores=1,2"];
    let report = matching::run(&options(&words)).unwrap().expect("a report");
    println!("{report}");
    let of_w3: Vec<_> = report.rows.iter().filter(|row| row.workload == "W3").collect();
    let arms: Vec<_> =
        of_w3.iter().map(|row| format!("{} {} {}", row.cores, row.form, row.cohort)).collect();
    let loops = ["loop 0", "loop 64", "loop auto"];
    let one = loops.iter().chain(&["twin 0"]).map(|form| format!("1 {form}"));
    let parts = ["partition 0", "partition 1024", "twin 0"];
    let two = loops.iter().chain(&parts).map(|form| format!("2 {form}"));
    assert_eq!(arms, one.chain(two).collect::<Vec<_>>());
    assert!(report.rows.iter().all(|row| row.events_per_s > 0.0 && row.subscriptions == 2000));
    // 2000 filters, each satisfied by about one event in 10^5.
    assert!(of_w3.iter().all(|row| row.matches_per_event < 1.0), "{of_w3:?}");
    assert!(report.builds.iter().all(|build| build.insert_per_s > 0.0));
    let json = serde_json::to_value(&report).unwrap();
    for field in ["events_per_s", "matches_per_event", "bytes_per_subscription", "over_per_event"] {
        assert!(json["rows"][0][field].is_number(), "{field}");
    }
}

#[test]
fn publishes_are_answered_by_both_servers() {
    for (processors, divided) in [("1", None), ("2", Some("divided"))] {
        let words = ["--quick", "--processors", processors];
        let report = figure8::run(&options(&words)).unwrap().expect("a report");
        println!("{report}");
        assert_eq!((report.clients.len(), report.twin_over_staged.len()), (2, 2));
        let servers: Vec<&str> = report.rows.iter().map(|row| row.server.as_str()).collect();
        let arms = ["twin", "staged"].into_iter().chain(divided).chain(["staged-4"]);
        assert_eq!(servers, arms.collect::<Vec<_>>().repeat(2));
        assert_eq!(report.staged_over_divided.len(), if divided.is_some() { 2 } else { 0 });
        assert!(report.rows.iter().all(|row| row.mean_us > 0.0 && row.events_per_s > 0.0));
    }
}

#[test]
fn mechanisms_are_measured_on_two_processors() {
    let report = spread::run(&options(&["--quick"])).unwrap();
    println!("{report}");
    let rows = |scene: &str| report.rows.iter().filter(|row| row.scene == scene).count();
    assert_eq!(["balanced", "affinity", "moved"].map(rows), [5, 4, 4]);
    assert!(report.rows.iter().all(|row| row.plain_us > 0.0 && row.with_us > 0.0), "{report:?}");
    assert!(report.moves.len() == 4 && report.moves.iter().all(|row| row.move_us > 0.0));
}

#[test]
fn a_crossing_is_split_into_its_parts() {
    let report = crossing::run(&options(&["--quick"])).unwrap();
    println!("{report}");
    let in_flight: Vec<usize> = report.rows.iter().map(|row| row.in_flight).collect();
    assert_eq!(in_flight, [1, 8, 64, 512]);
    for row in &report.rows {
        let positive = [row.local_ns, row.one_thread_ns, row.crossed_ns, row.turns];
        assert!(positive.into_iter().all(|figure| figure > 0.0), "{row:?}");
        // Medians of one round.
        assert!(((row.crossed_ns - row.local_ns) / 2.0 - row.way_ns).abs() < 1.0, "{row:?}");
        assert!((row.messages_ns + row.travel_ns - row.way_ns).abs() < 1.0, "{row:?}");
    }
    // A processor whose call is the only one has nothing to do until the reply.
    assert!(report.rows[0].sleeps > 0.0 && report.empty_turn_ns > 0.0, "{report:?}");
}

#[test]
fn writes_are_measured_in_cohorts() {
    let report = figure2::run(&options(&["--quick"])).unwrap();
    println!("{report}");
    let ks: Vec<usize> = report.cohorts.iter().map(|cohort| cohort.k).collect();
    assert_eq!(ks, [1, 2, 4, 8, 16, 32, 64, 128, 256]);
    assert_eq!(report.cohorts[0].over_k1, 1.0);
    assert!(report.cohorts.iter().all(|cohort| cohort.ns_per_call > 0.0));
    assert_eq!((report.k8_over_k1, report.rounds), (report.cohorts[3].over_k1, 3));
    // The first line says whether the processor counts misses.
    let machine = report.machine.clone().expect("a machine");
    let text = report.to_string();
    assert_eq!(text.contains("no hardware counters"), !machine.hardware_counters, "{text}");
    assert_eq!(report.cohorts[0].instructions.is_some(), machine.hardware_counters, "{text}");
    assert!(text.contains("on core ["), "{text}");
}

#[test]
fn a_missing_directory_is_an_error() {
    let options: figure2::Options = options(&["--quick", "--directory=/nonexistent"]);
    assert!(figure2::run(&options).is_err());
}

#[test]
fn a_walk_only_runs() {
    for cohort in ["0", "1", "64"] {
        let words = ["phalanx-bench", "pipeline", "--kib=1", "--requests=100", "--walk", cohort];
        assert_eq!(Cli::parse_from(words).run(), ExitCode::SUCCESS);
    }
    assert!(Cli::try_parse_from(["phalanx-bench", "pipeline", "--kib=3"]).is_err());
}
