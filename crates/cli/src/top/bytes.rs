//! The byte table for `--bytes`: what each type of operation takes, plain text.

use std::fmt::Write;

use phalanx::metrics::Snapshot;

/// A line for each type of operation that the program has run, and for each declared object.
pub(super) fn table(name: &str, snapshot: &Snapshot) -> String {
    let mut out = format!(
        "{name}: bytes of operations; the cache of a core has {} KiB\n",
        snapshot.cache_bytes >> 10
    );
    let bytes = &snapshot.bytes;
    let stages = bytes.operations.iter().map(|each| &each.stage);
    let stages = stages.chain(bytes.objects.iter().map(|each| &each.stage));
    let width = stages.map(|stage| stage.chars().count()).max().unwrap_or(0).max("stage".len());
    let _ = writeln!(
        out,
        "{:<width$}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  operation",
        "stage", "closure", "handed", "future", "result", "slot"
    );
    for each in &bytes.operations {
        let _ = writeln!(
            out,
            "{:<width$}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {}",
            each.stage,
            each.closure,
            each.invocation,
            each.future,
            each.result,
            each.slot,
            each.operation
        );
    }
    for each in &bytes.objects {
        let _ = writeln!(
            out,
            "{:<width$}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  ({}, an object of each request)",
            each.stage, each.bytes, "", "", "", "", each.name
        );
    }
    out
}
