//! The box of a stage on a processor, after the columns of Figure 4 of the 2002 paper, with run times (§3.5) for completed
//! operations.
//!
//! The columns are the queue and the operations started, resumed and completed. Each shows a count, and the
//! mean and maximum of the queue length, of the wait before a start or resumption, or of the run time.

use std::fmt::Write;

use super::escape;
use super::layout::{BOX_HEIGHT, BOX_WIDTH, Place};
use crate::metrics::StageInterval;
use crate::metrics::human::{count, percent, time};

/// Right edges of the columns.
const COLUMNS: [u32; 4] = [94, 160, 226, 292];

pub(super) fn draw(out: &mut String, Place { x, y }: Place, name: &str, stage: &StageInterval) {
    let busy = stage.utilisation();
    let idle = if stage.ran == 0 { " idle" } else { "" };
    let rate = |n: u64| count(stage.per_second(n)) + "/s";
    let name = escape(name);
    let _ = write!(
        out,
        "<g class=\"stage{idle}\" transform=\"translate({x} {y})\">\
         <rect class=\"box\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"7\"/>\
         <rect class=\"heat\" width=\"{BOX_WIDTH}\" height=\"{BOX_HEIGHT}\" rx=\"7\" \
         fill-opacity=\"{:.2}\"/>",
        busy.sqrt() * 0.55,
    );
    if stage.shed > 0 {
        let _ = write!(
            out,
            "<rect class=\"ring\" x=\"-4\" y=\"-4\" width=\"{}\" height=\"{}\" rx=\"10\"/>",
            BOX_WIDTH + 8,
            BOX_HEIGHT + 8
        );
    }
    let _ = write!(
        out,
        "<title>{name}: {} of the time, {} operations/s</title><text class=\"s\" x=\"8\" y=\"17\">\
         {name}</text><text class=\"n e\" x=\"{}\" y=\"17\">{} · {} busy</text>",
        percent(busy),
        count(stage.per_second(stage.ran)),
        BOX_WIDTH - 8,
        rate(stage.ran),
        percent(busy),
    );
    row(out, 35, "h", ["", "queue", "started", "resumed", "completed"].map(str::to_owned));
    row(
        out,
        50,
        "c",
        [
            "now".to_owned(),
            count(stage.queue_length as f64),
            rate(stage.started),
            rate(stage.resumed),
            rate(stage.completed),
        ],
    );
    row(
        out,
        65,
        "c",
        [
            "mean".to_owned(),
            count(stage.queue_length_mean()),
            time(stage.started_wait_mean_ns()),
            time(stage.resumed_wait_mean_ns()),
            time(stage.run_mean_ns()),
        ],
    );
    row(
        out,
        80,
        "c",
        [
            "max".to_owned(),
            count(stage.queue_length_max as f64),
            time(stage.started_wait_max_ns as f64),
            time(stage.resumed_wait_max_ns as f64),
            time(stage.run_max_ns as f64),
        ],
    );
    let warning = warning(stage);
    let _ = write!(
        out,
        "<path class=\"line\" d=\"M8 88H{0}\"/><text class=\"n\" x=\"8\" y=\"101\">cohort {1}, max \
         {2}</text><text class=\"n e\" x=\"{0}\" y=\"115\">p99 wait {3}, run {4}</text>\
         <text class=\"n\" x=\"8\" y=\"115\">{5} suspended</text>\
         <text class=\"bad e\" x=\"{0}\" y=\"101\">{warning}</text></g>",
        BOX_WIDTH - 8,
        count(stage.cohort_mean()),
        count(stage.cohort_max as f64),
        time(stage.waits.percentile_ns(99.0)),
        time(stage.runs.percentile_ns(99.0)),
        count(stage.suspended_now as f64),
    );
}

fn row(out: &mut String, y: u32, class: &str, cells: [String; 5]) {
    let [label, cells @ ..] = cells;
    let _ =
        write!(out, "<text class=\"{class}\" y=\"{y}\"><tspan class=\"l\" x=\"8\">{label}</tspan>");
    for (x, cell) in COLUMNS.iter().zip(cells) {
        let _ = write!(out, "<tspan x=\"{x}\">{cell}</tspan>");
    }
    out.push_str("</text>");
}

/// Panicked and shed operations of the interval; usually empty.
fn warning(stage: &StageInterval) -> String {
    let mut warnings = Vec::new();
    if stage.shed > 0 {
        warnings.push(format!("shedding {}/s", count(stage.per_second(stage.shed))));
    }
    if stage.panicked > 0 {
        warnings.push(format!("{} panicked", count(stage.panicked as f64)));
    }
    warnings.join(", ")
}
