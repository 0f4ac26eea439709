//! The snapshot as OpenMetrics text.

use std::fmt::Write;

use phalanx_core::{COHORT_BUCKETS, HISTOGRAM_BUCKETS, Histogram, bucket_end_ns, yield_now};

use crate::metrics::{
    CounterSnapshot, GaugeSnapshot, HistogramSnapshot, ProcessorSnapshot, Snapshot, StageSnapshot,
};

/// The media type of OpenMetrics.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Converts nanoseconds to seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

type PerStage = fn(&StageSnapshot) -> f64;
type PerProcessor = fn(&ProcessorSnapshot) -> f64;

/// Name, type, unit, help and value of each metric of a stage on a processor.
const STAGE: &[(&str, &str, &str, &str, PerStage)] = &[
    ("queue_length", "gauge", "", "Operations queued when the last cohort started.", |s| {
        s.queue_length as f64
    }),
    ("queue_length_max", "gauge", "", "Longest queue found by a cohort.", |s| {
        s.queue_length_max as f64
    }),
    ("operations_suspended", "gauge", "", "Operations suspended now.", |s| s.suspended_now as f64),
    ("suspensions", "counter", "", "Suspensions of operations.", |s| s.suspended as f64),
    ("operations_started", "counter", "", "Operations started.", |s| s.started.count as f64),
    ("operations_resumed", "counter", "", "Operations resumed after a suspension.", |s| {
        s.resumed.count as f64
    }),
    ("operations_completed", "counter", "", "Operations completed.", |s| s.completed.count as f64),
    ("operations_panicked", "counter", "", "Operations that panicked.", |s| s.panicked as f64),
    ("operations_cancelled", "counter", "", "Operations cancelled.", |s| s.cancelled as f64),
    ("operations_rejected", "counter", "", "Invocations rejected at a bound.", |s| {
        s.rejected as f64
    }),
    (
        "operations_stalled",
        "counter",
        "",
        "Operations that ran for longer than the stall threshold.",
        |s| s.stalled as f64,
    ),
    ("start_wait_seconds", "counter", "seconds", "Wait from invocation to start, summed.", |s| {
        seconds(s.started.total_ns)
    }),
    ("start_wait_max_seconds", "gauge", "seconds", "Longest wait from invocation to start.", |s| {
        seconds(s.started.max_ns)
    }),
    (
        "resume_wait_seconds",
        "counter",
        "seconds",
        "Wait from re-enabling to resumption, summed.",
        |s| seconds(s.resumed.total_ns),
    ),
    (
        "resume_wait_max_seconds",
        "gauge",
        "seconds",
        "Longest wait from being woken to running.",
        |s| seconds(s.resumed.max_ns),
    ),
    ("run_seconds", "counter", "seconds", "Time in cohorts.", |s| seconds(s.completed.total_ns)),
    ("run_max_seconds", "gauge", "seconds", "Longest mean run of a cohort's operations.", |s| {
        seconds(s.completed.max_ns)
    }),
    ("cohort_size_max", "gauge", "", "Largest cohort.", |s| s.cohort_max as f64),
];

const PROCESSOR: &[(&str, &str, &str, &str, PerProcessor)] = &[
    ("turns", "counter", "", "Turns of the loop.", |p| p.turns as f64),
    ("parks", "counter", "", "Times the processor parked.", |p| p.parks as f64),
    ("parked_seconds", "counter", "seconds", "Time parked.", |p| seconds(p.parked_ns)),
    ("busy_seconds", "counter", "seconds", "Time in cohorts.", |p| seconds(p.busy_ns)),
    ("wakes_sent", "counter", "", "Wake-ups of other processors.", |p| p.wakes_sent as f64),
    ("system_calls", "counter", "", "System calls of the driver.", |p| p.system_calls as f64),
    (
        "partitions_taken_over",
        "counter",
        "",
        "Partitions taken over from sleeping processors.",
        |p| p.take_overs as f64,
    ),
    ("operations", "gauge", "", "Live operations.", |p| p.operations as f64),
    ("pooled_bytes", "gauge", "bytes", "Memory of the pools.", |p| p.pooled_bytes as f64),
    ("overflow_bytes", "gauge", "bytes", "Memory outside the region of huge pages.", |p| {
        p.overflow_bytes as f64
    }),
    ("slab_bytes", "gauge", "bytes", "Memory of the slabs.", |p| p.memory_bytes as f64),
];

/// Renders all metrics, the pieces of the program's recorder last. Yields between families and pieces, because there
/// may be many series.
pub(super) async fn render(snapshot: &Snapshot, recorded: impl Iterator<Item = String>) -> String {
    let mut out = String::with_capacity(16 * 1024);
    build_info(&mut out, snapshot);
    for (name, kind, unit, help, value) in PROCESSOR {
        family(&mut out, &format!("phalanx_processor_{name}"), kind, unit, help);
        for p in &snapshot.processors {
            let suffix = if *kind == "counter" { "_total" } else { "" };
            let value = value(p);
            let _ = writeln!(
                out,
                "phalanx_processor_{name}{suffix}{{processor=\"{}\"}} {value}",
                p.processor
            );
        }
    }
    for (name, kind, unit, help, value) in STAGE {
        yield_now().await;
        family(&mut out, &format!("phalanx_stage_{name}"), kind, unit, help);
        let suffix = if *kind == "counter" { "_total" } else { "" };
        each_stage(snapshot, |labels, stage| {
            let _ = writeln!(out, "phalanx_stage_{name}{suffix}{{{labels}}} {}", value(stage));
        });
    }
    shed(&mut out, snapshot);
    undeclared_objects(&mut out, snapshot);
    counters(&mut out, &snapshot.counters);
    gauges(&mut out, &snapshot.gauges);
    for HistogramSnapshot { name, help, sum_ns, times } in &snapshot.times {
        family(&mut out, name, "histogram", "seconds", help);
        histogram(&mut out, name, "", &Histogram(times.buckets), *sum_ns);
    }
    cohort_sizes(&mut out, snapshot);
    yield_now().await;
    times(
        &mut out,
        snapshot,
        "wait",
        "Wait before a start or resumption, as the mean of its cohort.",
        |s| (Histogram(s.waits.buckets), s.started.total_ns + s.resumed.total_ns),
    );
    times(
        &mut out,
        snapshot,
        "run",
        "Run time between suspensions, as the mean of its cohort.",
        |s| (Histogram(s.runs.buckets), s.completed.total_ns),
    );
    yield_now().await;
    arcs(&mut out, snapshot);
    for piece in recorded {
        yield_now().await;
        out.push_str(&piece);
    }
    out.push_str("# EOF\n");
    out
}

/// Renders the program's own counters. Counters of one name are adjacent and form one family.
fn counters(out: &mut String, counters: &[CounterSnapshot]) {
    let mut before = None;
    for CounterSnapshot { name, help, label, count } in counters {
        if before.replace(name) != Some(name) {
            family(out, name, "counter", "", help);
        }
        let _ = match label {
            None => writeln!(out, "{name}_total {count}"),
            Some([label, value]) => {
                writeln!(out, "{name}_total{{{label}=\"{}\"}} {count}", escape(value))
            }
        };
    }
}

/// Renders the program's own gauges. Gauges of one name are adjacent and form one family.
fn gauges(out: &mut String, gauges: &[GaugeSnapshot]) {
    let mut before = None;
    for GaugeSnapshot { name, help, label, value } in gauges {
        if before.replace(name) != Some(name) {
            family(out, name, "gauge", "", help);
        }
        let _ = match label {
            None => writeln!(out, "{name} {value}"),
            Some([label, at]) => writeln!(out, "{name}{{{label}=\"{}\"}} {value}", escape(at)),
        };
    }
}

fn build_info(out: &mut String, snapshot: &Snapshot) {
    family(out, "phalanx_info", "gauge", "", "Driver and version; always 1.");
    let (driver, version) = (escape(&snapshot.driver), env!("CARGO_PKG_VERSION"));
    let _ = writeln!(out, "phalanx_info{{driver=\"{driver}\",version=\"{version}\"}} 1");
    family(out, "phalanx_uptime_seconds", "gauge", "seconds", "Time since the start.");
    let _ = writeln!(out, "phalanx_uptime_seconds {}", seconds(snapshot.uptime_ns));
}

/// Sizes of pooled values that are larger than their stage declares.
fn undeclared_objects(out: &mut String, snapshot: &Snapshot) {
    let help = "Largest object of a stage's operations that the stage does not declare.";
    family(out, "phalanx_stage_undeclared_object_bytes", "gauge", "bytes", help);
    for each in &snapshot.bytes.undeclared {
        let (stage, object) = (escape(&each.stage), escape(&each.name));
        let _ = writeln!(
            out,
            "phalanx_stage_undeclared_object_bytes{{stage=\"{stage}\",object=\"{object}\"}} {}",
            each.bytes
        );
    }
}

/// Renders shed operations by reason.
fn shed(out: &mut String, snapshot: &Snapshot) {
    let name = "phalanx_stage_operations_shed";
    family(out, name, "counter", "", "Operations shed, by reason.");
    each_stage(snapshot, |labels, stage| {
        for (reason, count) in &stage.shed {
            let _ = writeln!(out, "{name}_total{{{labels},reason=\"{}\"}} {count}", escape(reason));
        }
    });
}

/// Renders a histogram of each stage, summed over processors to limit the number of series.
fn times(
    out: &mut String,
    snapshot: &Snapshot,
    kind: &str,
    help: &str,
    of: impl Fn(&StageSnapshot) -> (Histogram, u64),
) {
    let name = format!("phalanx_operation_{kind}_seconds");
    family(out, &name, "histogram", "seconds", help);
    for (index, stage) in snapshot.stages.iter().enumerate() {
        let (mut times, mut sum) = (Histogram::default(), 0);
        for processor in &snapshot.processors {
            let (here, total) = of(&processor.stages[index]);
            (times, sum) = (times.plus(&here), sum + total);
        }
        histogram(out, &name, &format!("stage=\"{}\"", escape(stage)), &times, sum);
    }
}

/// Renders a histogram, whose labels may be empty.
fn histogram(out: &mut String, name: &str, labels: &str, times: &Histogram, sum: u64) {
    let comma = if labels.is_empty() { "" } else { "," };
    let all = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    let mut below = 0;
    for bucket in 0..HISTOGRAM_BUCKETS {
        below += times.0[bucket];
        let bound = match bucket_end_ns(bucket) {
            None => "+Inf".to_owned(),
            Some(end) => format!("{:?}", seconds(end)),
        };
        let _ = writeln!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {below}");
    }
    let sum = seconds(sum);
    let _ = writeln!(out, "{name}_count{all} {below}\n{name}_sum{all} {sum}");
}

fn family(out: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if !unit.is_empty() {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {help}");
}

fn each_stage(snapshot: &Snapshot, mut each: impl FnMut(&str, &StageSnapshot)) {
    for p in &snapshot.processors {
        for stage in &p.stages {
            let labels =
                format!("stage=\"{}\",processor=\"{}\"", escape(&stage.stage), p.processor);
            each(&labels, stage);
        }
    }
}

/// Renders cohort sizes as a histogram with the runtime's own buckets.
fn cohort_sizes(out: &mut String, snapshot: &Snapshot) {
    let name = "phalanx_stage_cohort_size";
    family(out, name, "histogram", "", "Operations in a cohort.");
    each_stage(snapshot, |labels, stage| {
        let mut below = 0;
        for (bucket, count) in stage.cohort_sizes.iter().enumerate() {
            below += count;
            let bound = match bucket {
                _ if bucket == COHORT_BUCKETS - 1 => "+Inf".to_owned(),
                _ => format!("{}.0", (2u32 << bucket) - 1),
            };
            let _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        // Direct operations run in no cohort.
        let sum = (stage.started.count + stage.resumed.count).saturating_sub(stage.direct);
        let _ = writeln!(out, "{name}_count{{{labels}}} {below}\n{name}_sum{{{labels}}} {sum}");
    });
}

/// Renders operations between stages, summed over processors to limit the number of series.
fn arcs(out: &mut String, snapshot: &Snapshot) {
    let name = "phalanx_arc_operations";
    family(out, name, "counter", "", "Operations that one stage started or resumed at another.");
    let mut sums = std::collections::BTreeMap::new();
    for arc in snapshot.processors.iter().flat_map(|p| &p.arcs) {
        *sums.entry((arc.from.as_deref().unwrap_or("external"), &*arc.to)).or_insert(0) +=
            arc.count;
    }
    for ((from, to), count) in sums {
        let (from, to) = (escape(from), escape(to));
        let _ = writeln!(out, "{name}_total{{from=\"{from}\",to=\"{to}\"}} {count}");
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
