//! The analysis as a table and as a graph.

use std::fmt::{self, Write};

use super::live::during;
use crate::model::{Analysis, Stage};

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
    traced(analysis, stage_width, out)?;
    writeln!(out, "\nobject bytes, allocated at, freed at")?;
    for object in analysis.objects.iter() {
        let bytes = object.bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
        write!(out, "{} {bytes}", object.name)?;
        for (message, sites) in [("allocated", &object.allocated), ("freed", &object.freed)] {
            let places: Vec<_> = sites.iter().map(|site| site.at.to_string()).collect();
            write!(
                out,
                ", {message} {}",
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

/// Prints what a run has shown, if one was traced: the maximum of each quantity and its bound.
fn traced(analysis: &Analysis, width: usize, out: &mut dyn Write) -> fmt::Result {
    if !is_traced(analysis) {
        return Ok(());
    }
    writeln!(out, "\nin a run, the maximum of each stage / the bound above, in bytes")?;
    writeln!(
        out,
        "{:<width$}  {:>7}  {:>15}  {:>12}  {:>9}  by object",
        "stage", "visits", "bytes", "stack", "elsewhere"
    )?;
    for stage in &analysis.stages {
        let Some(traced) = &stage.traced else {
            writeln!(out, "{:<width$}  {:>7}", stage.name, 0)?;
            continue;
        };
        let bytes = format!("{} / {}", traced.bytes, stage.bytes);
        let [stack, bound] = [traced.stack, stage.stack]
            .map(|stack| stack.map_or_else(|| "-".to_owned(), |stack| stack.to_string()));
        let stack = format!("{stack} / {bound}");
        write!(
            out,
            "{:<width$}  {:>7}  {bytes:>15}  {stack:>12}  {:>9} ",
            stage.name, traced.visits, traced.elsewhere
        )?;
        for (name, bytes, bound) in by_object(analysis, stage) {
            let bound = bound.map_or_else(|| "?".to_owned(), |bound| bound.to_string());
            write!(out, " {name} {bytes}/{bound}")?;
        }
        writeln!(out)?;
    }
    if !analysis.elsewhere.is_empty() {
        writeln!(out, "\nelsewhere: bytes of no object above, allocated at")?;
    }
    for place in &analysis.elsewhere {
        let at = place.at.as_ref().map_or_else(|| "a library".to_owned(), ToString::to_string);
        writeln!(out, "{} {at}", place.bytes)?;
    }
    Ok(())
}

fn is_traced(analysis: &Analysis) -> bool {
    analysis.stages.iter().any(|stage| stage.traced.is_some())
}

/// The objects of a stage in the run: their bytes, and those of the analysis if it knows them.
fn by_object<'a>(
    analysis: &'a Analysis,
    stage: &'a Stage,
) -> impl Iterator<Item = (&'a str, u64, Option<u64>)> {
    let live = during(stage);
    stage.traced.iter().flat_map(|traced| &traced.objects).map(move |traced| {
        let object = analysis.objects.iter().find(|object| object.name == traced.name);
        let is_live = live.contains(traced.name.as_str());
        let bound = if is_live { object.and_then(|object| object.bytes) } else { Some(0) };
        (traced.name.as_str(), traced.bytes, bound)
    })
}

/// Prints the stage call graph for Graphviz.
pub(crate) fn dot(analysis: &Analysis, out: &mut dyn Write) -> fmt::Result {
    writeln!(out, "digraph stages {{\n  node [shape=box];")?;
    for stage in &analysis.stages {
        let traced = stage.traced.as_ref().map(|traced| format!("\\n{} in a run", traced.bytes));
        let traced = traced.unwrap_or_default();
        writeln!(out, "  {0:?} [label=\"{0}\\n{1} bytes{traced}\"];", stage.name, stage.bytes)?;
    }
    let mut edges: Vec<_> =
        analysis.transitions.iter().map(|edge| (&edge.from, &edge.to)).collect();
    edges.dedup();
    for (from, to) in edges {
        writeln!(out, "  {from:?} -> {to:?};")?;
    }
    writeln!(out, "}}")
}
