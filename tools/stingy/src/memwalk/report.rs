//! The analysis as a table and as a graph.

use std::fmt::{self, Write};

use super::live::during;
use crate::model::Analysis;

/// Prints the stages with the memory of a request at each, the objects, static memory, and warnings.
pub(crate) fn table(analysis: &Analysis, out: &mut dyn Write) -> fmt::Result {
    let stage_width =
        analysis.stages.iter().map(|stage| stage.name.len()).max().unwrap_or(0).max(5);
    writeln!(
        out,
        "{:<stage_width$}  {:>8}  {:>7}  objects (+ allocated, - freed, ? perhaps freed)",
        "stage", "bytes", "stack"
    )?;
    for stage in &analysis.stages {
        let stack = stage.stack.map_or_else(|| "-".to_owned(), |stack| stack.to_string());
        write!(out, "{:<stage_width$}  {:>8}  {stack:>7} ", stage.name, stage.bytes)?;
        for object in during(stage) {
            let has = |objects: &[String]| objects.iter().any(|name| name == object);
            let allocated = if has(&stage.allocates) { "+" } else { "" };
            let freed = match () {
                () if has(&stage.frees) => "-",
                () if has(&stage.may_free) => "?",
                () => "",
            };
            write!(out, " {allocated}{freed}{object}")?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\nobject bytes, allocated at, freed at")?;
    for object in analysis.objects.iter() {
        let bytes = object.bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
        write!(out, "{} {bytes}", object.name)?;
        for (what, sites) in [("allocated", &object.allocated), ("freed", &object.freed)] {
            let places: Vec<_> = sites.iter().map(|site| site.at.to_string()).collect();
            write!(
                out,
                ", {what} {}",
                if places.is_empty() { "never".to_owned() } else { places.join(" ") }
            )?;
        }
        writeln!(out)?;
    }
    writeln!(out, "\nstatic variables {} bytes", analysis.global_bytes)?;
    for global in &analysis.globals {
        writeln!(out, "{} {}", global.name, global.bytes)?;
    }
    if !analysis.warnings.is_empty() {
        writeln!(out, "\n{} warnings", analysis.warnings.len())?;
    }
    for warning in &analysis.warnings {
        writeln!(out, "{}: {}", warning.at, warning.what)?;
    }
    Ok(())
}

/// Prints the stage call graph for Graphviz.
pub(crate) fn dot(analysis: &Analysis, out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "digraph stages {{\n  node [shape=box];")?;
    for stage in &analysis.stages {
        writeln!(out, "  {:?} [label=\"{}\\n{} bytes\"];", stage.name, stage.name, stage.bytes)?;
    }
    let mut edges: Vec<_> =
        analysis.transitions.iter().map(|edge| (&edge.from, &edge.to)).collect();
    edges.dedup();
    for (from, to) in edges {
        writeln!(out, "  {from:?} -> {to:?};")?;
    }
    writeln!(out, "}}")
}
