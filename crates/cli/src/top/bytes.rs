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
    let stages = bytes.operations.iter().map(|item| &item.stage);
    let objects =
        bytes.objects.iter().chain(&bytes.undeclared).chain(&bytes.stacks).chain(&bytes.replicas);
    let stages = stages.chain(objects.map(|item| &item.stage));
    let width = stages.map(|stage| stage.chars().count()).max().unwrap_or(0).max("stage".len());
    let _ = writeln!(
        out,
        "{:<width$}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  operation",
        "stage", "closure", "handed", "future", "result", "slot"
    );
    for item in &bytes.operations {
        let _ = writeln!(
            out,
            "{:<width$}  {:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {}",
            item.stage,
            item.closure,
            item.invocation,
            item.future,
            item.result,
            item.slot,
            item.operation
        );
    }
    let mut add_row = |stage: &str, bytes: usize, message: &str| {
        let _ = writeln!(
            out,
            "{stage:<width$}  {bytes:>7}  {:>7}  {:>7}  {:>7}  {:>7}  {message}",
            "", "", "", ""
        );
    };
    for item in &bytes.objects {
        add_row(&item.stage, item.bytes, &format!("({}, one object per request)", item.name));
    }
    for item in &bytes.undeclared {
        let message = format!("{} (an object that the stage does not declare)", item.name);
        add_row(&item.stage, item.bytes, &message);
    }
    for item in &bytes.stacks {
        let message = format!("{} (stack of a fibre, the most measured)", item.name);
        add_row(&item.stage, item.bytes, &message);
    }
    for item in &bytes.replicas {
        add_row(&item.stage, item.bytes, "(replicas on all processors)");
    }
    out
}
