//! The report: lines by stage and by kind of memory.

use std::fmt::{self, Write};

use serde_json::{Value, json};

use super::visits::{FRESH, Kind, LINE, Sums, Visits};

/// Maximum number of functions and of static variables that are listed for a stage.
const MAX_SYMBOLS: usize = 5;

/// Name of the row for whole requests.
const REQUEST: &str = "request";

/// The mean over visits.
fn mean(sum: u64, sums: &Sums) -> f64 {
    sum as f64 / sums.visits.max(1) as f64
}

/// The symbols with the most lines of a kind, and their means.
fn top(sums: &Sums, kind: Kind) -> Vec<(&str, f64)> {
    let of_kind = sums.by_symbol.iter().filter(|((of, _), _)| *of == kind);
    let mut found: Vec<_> =
        of_kind.map(|((_, name), &sum)| (name.as_str(), mean(sum, sums))).collect();
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
    found.truncate(MAX_SYMBOLS);
    found
}

/// All rows: the stages, then whole requests.
fn rows<'r>(
    stages: &'r [&str],
    visits: &'r Visits<'_>,
) -> impl Iterator<Item = (&'r str, &'r Sums)> {
    let stages = stages.iter().copied().zip(&visits.stages);
    stages.chain([(REQUEST, &visits.requests)])
}

/// Prints a table.
pub(crate) fn table(stages: &[&str], visits: &Visits<'_>, out: &mut dyn Write) -> fmt::Result {
    let width = stages.iter().map(|name| name.len()).max().unwrap_or(0).max(REQUEST.len());
    writeln!(out, "cache lines of {LINE} bytes, median of visits")?;
    writeln!(
        out,
        "{:<width$}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}",
        "stage", "visits", "code", "stack", "static", "heap", "fresh"
    )?;
    for (name, sums) in rows(stages, visits) {
        write!(out, "{name:<width$}  {:>7}", sums.visits)?;
        for column in 0..=FRESH {
            write!(out, "  {:>7.1}", sums.median(column))?;
        }
        writeln!(out)?;
    }
    for (name, sums) in rows(stages, visits).filter(|(_, sums)| sums.visits > 0) {
        for (kind, message) in [(Kind::Code, "code"), (Kind::Static, "static variables")] {
            let list: Vec<_> = top(sums, kind)
                .iter()
                .map(|(symbol, lines)| format!("{symbol} {lines:.1}"))
                .collect();
            if !list.is_empty() {
                writeln!(out, "\n{name}, most lines of {message}:\n  {}", list.join("\n  "))?;
            }
        }
    }
    let bytes = request_bytes(visits);
    if bytes > 0 {
        writeln!(
            out,
            "\nthe memory of a request, if other requests are in flight, has at most {bytes} bytes; where requests\n\
             stay for several turns, limit the ingress by a budget, and declare the memory at the stage where they begin,\n\
             and at the others that use it, there without `entry`:\n  \
             graph.ingress(Ingress::Budget);\n  \
             graph.stage(…).entry().object::<[u8; {bytes}]>(\"request\")"
        )?;
    }
    Ok(())
}

/// Bytes of the heap that a request touches and the request before did not.
fn request_bytes(visits: &Visits<'_>) -> u64 {
    visits.requests.median(FRESH).ceil() as u64 * LINE
}

/// The same as JSON.
pub(crate) fn json(stages: &[&str], visits: &Visits<'_>) -> Value {
    let list = |sums: &Sums, kind| -> Vec<Value> {
        let top = top(sums, kind).into_iter();
        top.map(|(name, lines)| json!({ "name": name, "lines": lines })).collect()
    };
    let rows = rows(stages, visits).map(|(name, sums)| {
        let lines = |kind: Kind| sums.median(kind as usize);
        json!({
            "stage": name,
            "visits": sums.visits,
            "code": lines(Kind::Code),
            "stack": lines(Kind::Stack),
            "static": lines(Kind::Static),
            "heap": lines(Kind::Heap),
            "fresh": sums.median(FRESH),
            "functions": list(sums, Kind::Code),
            "variables": list(sums, Kind::Static),
        })
    });
    json!({ "line_bytes": LINE, "request_bytes": request_bytes(visits), "rows": rows.collect::<Vec<_>>() })
}
