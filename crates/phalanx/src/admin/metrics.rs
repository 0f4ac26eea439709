//! The snapshot as OpenMetrics text.

use std::fmt::Write;

use phalanx_core::COHORT_BUCKETS;

use super::snapshot::{ProcessorSnapshot, Snapshot, StageSnapshot};

/// What Prometheus is told that it gets.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Nanoseconds as seconds.
fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

type PerStage = fn(&StageSnapshot) -> f64;
type PerProcessor = fn(&ProcessorSnapshot) -> f64;

/// Name, kind, unit, help and value of each figure of a stage on a processor.
const STAGE: &[(&str, &str, &str, &str, PerStage)] = &[
    ("queue_length", "gauge", "", "Operations queued when the last cohort began.", |s| {
        s.queue_length as f64
    }),
    ("operations_started", "counter", "", "Operations started.", |s| s.started.count as f64),
    ("operations_resumed", "counter", "", "Operations restarted after a suspension.", |s| {
        s.resumed.count as f64
    }),
    ("operations_completed", "counter", "", "Operations completed.", |s| s.completed.count as f64),
    ("operations_panicked", "counter", "", "Operations that panicked.", |s| s.panicked as f64),
    ("operations_ended", "counter", "", "Operations ended with their session.", |s| s.ended as f64),
    ("operations_refused", "counter", "", "Invocations refused at the bound.", |s| {
        s.refused as f64
    }),
    ("operations_long", "counter", "", "Operations that ran for longer than the limit.", |s| {
        s.long_operations as f64
    }),
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
        "Wait from being re-enabled to running, summed.",
        |s| seconds(s.resumed.total_ns),
    ),
    (
        "resume_wait_max_seconds",
        "gauge",
        "seconds",
        "Longest wait from being re-enabled to running.",
        |s| seconds(s.resumed.max_ns),
    ),
    ("run_seconds", "counter", "seconds", "Time in cohorts.", |s| seconds(s.completed.total_ns)),
];

const PROCESSOR: &[(&str, &str, &str, &str, PerProcessor)] = &[
    ("turns", "counter", "", "Turns of the loop.", |p| p.turns as f64),
    ("parks", "counter", "", "Times the processor slept.", |p| p.parks as f64),
    ("parked_seconds", "counter", "seconds", "Time asleep.", |p| seconds(p.parked_ns)),
    ("busy_seconds", "counter", "seconds", "Time in cohorts.", |p| seconds(p.busy_ns)),
    ("wakes_sent", "counter", "", "Other processors woken.", |p| p.wakes_sent as f64),
    ("system_calls", "counter", "", "System calls of the driver.", |p| p.system_calls as f64),
    ("operations", "gauge", "", "Operations alive.", |p| p.operations as f64),
    ("slab_bytes", "gauge", "bytes", "Memory of the slabs.", |p| p.memory_bytes as f64),
];

/// All figures of `snapshot`.
pub(super) fn render(snapshot: &Snapshot) -> String {
    let mut out = String::with_capacity(16 * 1024);
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
        family(&mut out, &format!("phalanx_stage_{name}"), kind, unit, help);
        let suffix = if *kind == "counter" { "_total" } else { "" };
        each_stage(snapshot, |labels, stage| {
            let _ = writeln!(out, "phalanx_stage_{name}{suffix}{{{labels}}} {}", value(stage));
        });
    }
    shed(&mut out, snapshot);
    cohort_sizes(&mut out, snapshot);
    arcs(&mut out, snapshot);
    out.push_str("# EOF\n");
    out
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
            let labels = format!("stage=\"{}\",processor=\"{}\"", escape(stage.stage), p.processor);
            each(&labels, stage);
        }
    }
}

/// What was not begun, by reason.
fn shed(out: &mut String, snapshot: &Snapshot) {
    let name = "phalanx_stage_shed";
    family(out, name, "counter", "", "Operations that were not begun, by reason.");
    each_stage(snapshot, |labels, stage| {
        let shed = stage.shed;
        let reasons =
            [("deadline", shed.deadline), ("admission", shed.admission), ("full", shed.full)];
        for (reason, count) in reasons {
            let _ = writeln!(out, "{name}_total{{{labels},reason=\"{reason}\"}} {count}");
        }
    });
}

/// A histogram: the buckets that the runtime counts in.
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
        let sum = stage.started.count + stage.resumed.count;
        let _ = writeln!(out, "{name}_count{{{labels}}} {below}\n{name}_sum{{{labels}}} {sum}");
    });
}

/// Operations between stages, over all processors: a pair of processors too would be too many.
fn arcs(out: &mut String, snapshot: &Snapshot) {
    let name = "phalanx_arc_operations";
    family(out, name, "counter", "", "Operations that a stage invoked or re-enabled at another.");
    let mut sums = std::collections::BTreeMap::new();
    for arc in snapshot.processors.iter().flat_map(|p| &p.arcs) {
        *sums.entry((arc.from.unwrap_or("outside"), arc.to)).or_insert(0) += arc.count;
    }
    for ((from, to), count) in sums {
        let (from, to) = (escape(from), escape(to));
        let _ = writeln!(out, "{name}_total{{from=\"{from}\",to=\"{to}\"}} {count}");
    }
}

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
