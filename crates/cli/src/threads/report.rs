//! The results of a check as text and as JSON.

use std::fmt::Write;
use std::path::Path;

use serde_json::{Value, json};

use super::check::CheckReport;
use super::imports::Treatment;

/// A line with the verdict, then a line per import with its treatment. Untouched imports are only counted.
pub(super) fn text(checked: &CheckReport) -> String {
    let mut text = checked.executable.display().to_string();
    match checked.refusals.is_empty() {
        true => text.push_str(": suitable"),
        false => write!(text, ": refused: {}", checked.refusals.join("; ")).expect("a string"),
    }
    if let Some(version) = checked.glibc {
        write!(text, " (glibc 2.{version})").expect("a string");
    }
    text.push('\n');
    if checked.refusals.is_empty() && !checked.creates_threads() {
        text.push_str("It imports no function that creates threads; modules loaded later may.\n");
    }
    for treatment in [Treatment::Converted, Treatment::Home, Treatment::Blocks] {
        for (name, import) in checked.imports.iter().filter(|(_, i)| i.treatment == treatment) {
            let users: Vec<_> = import.users.iter().map(|path| file_name(path)).collect();
            writeln!(text, "{:<10} {name} ({})", treatment.word(), users.join(", "))
                .expect("a string");
        }
    }
    let untouched = |treatment| treatment == Treatment::Untouched;
    let count = checked.imports.values().filter(|import| untouched(import.treatment)).count();
    if count > 0 {
        writeln!(text, "untouched  {count} others (--json lists them)").expect("a string");
    }
    text
}

/// A JSON object with all imports.
pub(super) fn json(checked: &CheckReport) -> String {
    let imports: serde_json::Map<String, Value> = checked
        .imports
        .iter()
        .map(|(name, import)| {
            let users: Vec<_> = import.users.iter().map(|path| path.to_string_lossy()).collect();
            (name.clone(), json!({ "treatment": import.treatment.word(), "users": users }))
        })
        .collect();
    let value = json!({
        "executable": checked.executable.to_string_lossy(),
        "suitable": checked.refusals.is_empty(),
        "refusals": checked.refusals,
        "glibc": checked.glibc.map(|version| format!("2.{version}")),
        "creates_threads": checked.creates_threads(),
        "imports": imports,
    });
    format!("{value:#}\n")
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
