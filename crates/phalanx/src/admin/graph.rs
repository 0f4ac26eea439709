//! The graph for Graphviz: `curl ADDR/graph.dot | dot -Tsvg`. Each processor is a cluster and each stage a
//! node, colored by its share of the processor's time. Edges are labelled with operations per second.

use std::fmt::Write;

use crate::metrics::human::{count, percent, time};
use crate::metrics::{Interval, StageInterval};

/// If there are more processors than this, they are all drawn as one.
const MAX_SEPARATE_PROCESSORS: usize = 16;

pub(super) fn render(interval: &Interval) -> String {
    let many = interval.processors.len() > MAX_SEPARATE_PROCESSORS;
    let summed = many.then(|| interval.merged());
    let interval = summed.as_ref().unwrap_or(interval);
    let mut out = String::from("digraph phalanx {\n");
    out.push_str("  node [shape=box, style=filled, fontname=\"sans-serif\"];\n");
    out.push_str("  edge [fontname=\"sans-serif\", fontsize=10];\n");
    for (p, processor) in interval.processors.iter().enumerate() {
        let label = if many { "all processors".to_owned() } else { format!("processor {p}") };
        let _ = writeln!(out, "  subgraph cluster_{p} {{");
        let _ = writeln!(out, "    label=\"{label}, {}\";", percent(processor.utilisation));
        for (s, (name, stage)) in interval.stages.iter().zip(&processor.stages).enumerate() {
            let _ = writeln!(
                out,
                "    p{p}s{s} [label=\"{}\", fillcolor=\"{}\"{}];",
                label_of(name, stage),
                colour(stage),
                if stage.shed > 0 { ", color=red, penwidth=3" } else { "" },
            );
        }
        out.push_str("  }\n");
    }
    if interval.arcs.iter().any(|arc| arc.from.is_none()) {
        out.push_str("  external [shape=ellipse, style=dashed];\n");
    }
    for arc in &interval.arcs {
        let rate = arc.count as f64 / interval.seconds.max(1e-9);
        let from = match arc.from {
            None => "external".to_owned(),
            Some((processor, stage)) => format!("p{}s{stage}", if many { 0 } else { processor }),
        };
        let (p, s) = arc.to;
        let width = 1.0 + (1.0 + rate).log10();
        let _ = writeln!(
            out,
            "  {from} -> p{p}s{s} [label=\"{}/s\", penwidth={width:.1}];",
            count(rate)
        );
    }
    out.push_str("}\n");
    out
}

fn label_of(name: &str, stage: &StageInterval) -> String {
    format!(
        "{}\\n{}/s, cohort {}\\nwait {}, run {}",
        name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " "),
        count(stage.per_second(stage.ran)),
        count(stage.cohort_mean()),
        time(stage.wait_mean_ns()),
        time(stage.run_mean_ns()),
    )
}

/// Hue, saturation and value of a stage's color, from white to orange.
fn colour(stage: &StageInterval) -> String {
    format!("0.08 {:.2} 1.0", stage.utilisation().sqrt() * 0.8)
}
