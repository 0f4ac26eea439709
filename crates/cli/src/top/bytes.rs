//! The table of `--bytes`: memory of each type of operation, as plain text.

use std::fmt::Write;

use phalanx::metrics::Snapshot;

/// A line per type of operation that the program has run, per declared object, per type of fibre, and
/// per stage with replicas.
pub(super) fn table(name: &str, snapshot: &Snapshot) -> String {
    let mut out = format!(
        "{name}: memory of operations in bytes; the cache of a core has {} KiB\n",
        snapshot.cache_bytes >> 10
    );
    let bytes = &snapshot.bytes;
    let stages = bytes.operations.iter().map(|each| &each.stage);
    let objects =
        bytes.objects.iter().chain(&bytes.undeclared).chain(&bytes.stacks).chain(&bytes.replicas);
    let stages = stages.chain(objects.map(|each| &each.stage));
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
    let mut sized = |stage: &str, bytes: usize, what: &str| {
        let _ = writeln!(
            out,
            "{stage:<width$}  {bytes:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {what}",
            "", "", "", ""
        );
    };
    for each in &bytes.objects {
        sized(&each.stage, each.bytes, &format!("({}, one object per request)", each.name));
    }
    for each in &bytes.undeclared {
        let what = format!("{} (an object that the stage does not declare)", each.name);
        sized(&each.stage, each.bytes, &what);
    }
    for each in &bytes.stacks {
        let what = format!("{} (stack of a fibre, the most measured)", each.name);
        sized(&each.stage, each.bytes, &what);
    }
    for each in &bytes.replicas {
        sized(&each.stage, each.bytes, "(replicas on all processors)");
    }
    out
}
