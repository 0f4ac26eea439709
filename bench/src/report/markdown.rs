//! The report as one page of Markdown: the source of `report.md`, `report.html` and a section of another page.

use std::fmt::Write;

use serde_json::Value;

use super::baseline::Move;
use super::catalogue::{self, Experiment, Table};
use super::document::{Document, Entry};
use super::number::number;
use super::plots;

/// Parts of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    /// Level of the sections' headings.
    pub(super) level: usize,
    /// Whether plots are shown, from the folder `plots`.
    pub(super) plots: bool,
    /// Whether every figure is shown, folded.
    pub(super) figures: bool,
}

/// The page for `document`, and for the changes since an earlier one, if given; without a title.
pub(super) fn page(document: &Document, moves: Option<&[Move]>, parts: Parts) -> String {
    let Document { processor, cores, kernel, phalanx, quick, .. } = document;
    let counters = if document.hardware_counters { "" } else { ", no hardware counters" };
    let processor = processor.as_deref().unwrap_or("unknown processor");
    let peers = document.peers.iter();
    let peers = peers.filter_map(|(name, version)| Some(format!("{name} {}", version.as_deref()?)));
    let peers: Vec<String> = peers.map(|peer| peer.trim().to_owned()).collect();
    let peers = if peers.is_empty() { "none is installed".to_owned() } else { peers.join(", ") };
    let mut out = format!(
        "Phalanx {phalanx} on {processor} ({cores} cores{counters}), {kernel}. Peers: {peers}.\n\n\
         Figures are medians; the whiskers of a point and the brackets after a ratio show the quartiles of its rounds.\n"
    );
    if *quick {
        out.push_str(
            "\nThis is a short report with few rounds, whose figures a full one (`--full`) may not confirm.\n",
        );
    }
    let entries = || {
        let all = document.experiments.iter();
        all.filter_map(|entry| Some((catalogue::find(&entry.name)?, entry)))
    };
    ratios(&mut out, entries());
    if let Some(moves) = moves {
        changes(&mut out, moves, parts.level);
    }
    entries().for_each(|(experiment, entry)| section(&mut out, experiment, entry, parts));
    out
}

/// The table of all ratios and their goals.
fn ratios<'a>(out: &mut String, entries: impl Iterator<Item = (&'a Experiment, &'a Entry)>) {
    out.push_str("\n| ratio | here | goal | paper |\n|---|---|---|---|\n");
    for (experiment, entry) in entries {
        for ratio in &experiment.ratios {
            let Some(value) = entry.figure(&ratio.at) else { continue };
            let spread = entry.spread(&ratio.at);
            let spread = spread.map(|(low, high)| format!(" ({}–{})", number(low), number(high)));
            let missed = if ratio.goal.met(value) { "" } else { ", **missed**" };
            let _ = writeln!(
                out,
                "| [{}](#{}) | {}{} | {}{missed} | {} |",
                ratio.says,
                anchor(&experiment.title),
                number(value),
                spread.unwrap_or_default(),
                ratio.goal,
                ratio.paper.map(number).unwrap_or_default()
            );
        }
    }
}

/// The changes since the baseline.
fn changes(out: &mut String, moves: &[Move], level: usize) {
    let _ = writeln!(out, "\n{} Changes since the baseline\n", "#".repeat(level));
    if moves.is_empty() {
        out.push_str("No ratio changed by more than the noise.\n");
        return;
    }
    out.push_str("| ratio | before | now | |\n|---|---|---|---|\n");
    for Move { experiment, says, before, now, better } in moves {
        let (before, now) = (number(*before), number(*now));
        let better = if *better { "better" } else { "**worse**" };
        let experiment = catalogue::find(experiment).map(|found| anchor(&found.title));
        let experiment = experiment.unwrap_or_default();
        let _ = writeln!(out, "| [{says}](#{experiment}) | {before} | {now} | {better} |");
    }
}

fn section(out: &mut String, experiment: &Experiment, entry: &Entry, parts: Parts) {
    let Experiment { title, about, differs, .. } = experiment;
    let _ = writeln!(
        out,
        "\n<a id=\"{}\"></a>\n\n{} {title}\n",
        anchor(title),
        "#".repeat(parts.level)
    );
    if let Some(paper) = &experiment.paper {
        let _ = writeln!(out, "> {paper}\n");
    }
    let _ = writeln!(out, "{about}\n");
    if let Some(reason) = &entry.missing {
        let _ = writeln!(out, "**Not measured**: {}.\n", text(reason));
    }
    if entry.noisy {
        let percent = (entry.worst() - 1.0) * 100.0;
        let _ = writeln!(
            out,
            "**Disturbed**: other processes used the machine, which was up to {percent:.0} % slower than at its best. \
             Ratios are less affected than absolute figures.\n"
        );
    }
    if let Some(report) = &entry.report {
        if parts.plots {
            plots::names(experiment, report).for_each(|(name, title)| picture(out, &name, title));
        }
        experiment.tables.iter().for_each(|table| rows(out, table, report));
        let _ = writeln!(out, "{differs}\n");
    }
    let _ = writeln!(out, "`{}`, {:.0} s", entry.command, entry.seconds);
    if let Some(report) = entry.report.as_ref().filter(|_| parts.figures) {
        let mut report = report.clone();
        // Shown above.
        if let Some(picture) = experiment.picture.as_ref().and_then(|at| report.pointer_mut(at)) {
            picture.take();
        }
        let figures = serde_json::to_string_pretty(&report).unwrap_or_default();
        let _ = writeln!(
            out,
            "\n<details><summary>All figures</summary>\n\n```json\n{figures}\n```\n\n</details>"
        );
    }
}

/// A plot of each theme, of which a reader sees one.
fn picture(out: &mut String, name: &str, title: &str) {
    let title = text(title).replace('"', "&quot;");
    let source = match name.strip_suffix("-light.svg") {
        Some(name) => format!(
            "<source media=\"(prefers-color-scheme: dark)\" srcset=\"plots/{name}-dark.svg\">"
        ),
        None => String::new(),
    };
    let _ =
        writeln!(out, "<picture>{source}<img alt=\"{title}\" src=\"plots/{name}\"></picture>\n");
}

/// The rows of a table, if the report has them.
fn rows(out: &mut String, table: &Table, report: &Value) {
    let rows = report.pointer(&table.rows).and_then(Value::as_array);
    let Some(rows) = rows.filter(|rows| !rows.is_empty()) else { return };
    let line = |cells: &mut dyn Iterator<Item = String>| {
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let _ = write!(out, "{}:\n\n", table.title);
    out.push_str(&line(&mut table.columns.iter().map(|(_, heading)| text(heading))));
    let is_number = |field: &str| rows.iter().any(|row| row[field].is_number());
    let alignment = |field: &str| if is_number(field) { "--:" } else { "---" };
    out.push_str(&line(&mut table.columns.iter().map(|(field, _)| alignment(field).to_owned())));
    for row in rows {
        out.push_str(&line(&mut table.columns.iter().map(|(field, _)| match &row[field] {
            Value::Number(value) => value.as_f64().map_or_else(|| value.to_string(), number),
            Value::String(value) => text(value),
            Value::Null => "–".to_owned(),
            other => text(&other.to_string()),
        })));
    }
    out.push('\n');
}

/// The anchor of a heading, as hosts of repositories make it.
fn anchor(title: &str) -> String {
    let letters = title.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    letters.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Escapes what would be markup or the end of a cell.
fn text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document() -> Document {
        let row =
            json!({ "load": "a | <b>", "server": "phalanx", "processors": 2, "cpu_us": 9.234 });
        let entry = |name: &str, report| Entry {
            name: name.to_owned(),
            command: format!("phalanx-bench {name} --json"),
            seconds: 1.0,
            slowdown: [1.0, 1.0],
            noisy: false,
            report: Some(report),
            missing: None,
        };
        Document {
            version: 1,
            phalanx: "0.1.0".to_owned(),
            made_at: 0,
            quick: true,
            processor: None,
            cores: 2,
            kernel: "Linux 6".to_owned(),
            hardware_counters: false,
            peers: Default::default(),
            experiments: vec![
                entry("op", json!({ "dispatch_over_boxed_fn": 2.0 })),
                entry("scale", json!({ "rows": [row] })),
            ],
        }
    }

    #[test]
    fn ratios_and_rows_are_on_the_page() {
        let page = page(&document(), None, Parts { level: 3, plots: false, figures: true });
        for line in [
            "Phalanx 0.1.0 on unknown processor (2 cores, no hardware counters), Linux 6.",
            "\n| [an operation over a boxed closure](#the-cost-of-an-operation) | 2 | at most 1, **missed** |  |\n",
            "\n<a id=\"the-cost-of-an-operation\"></a>\n\n### The cost of an operation\n",
            "\n| a \\| &lt;b> | – | phalanx | 2 | 9.23 |",
            "\n| --- | --- | --- | --: | --: |",
            "\n`phalanx-bench scale --json`, 1 s\n",
            "  \"dispatch_over_boxed_fn\": 2.0\n",
        ] {
            assert!(page.contains(line), "{line}\n{page}");
        }
    }

    #[test]
    fn changes_are_on_the_page() {
        let moved =
            Move { experiment: "op", says: "a ratio", before: 1.0, now: 2.0, better: false };
        let page =
            page(&document(), Some(&[moved]), Parts { level: 2, plots: true, figures: false });
        assert!(
            page.contains("\n| [a ratio](#the-cost-of-an-operation) | 1 | 2 | **worse** |\n"),
            "{page}"
        );
        assert!(!page.contains("<details>"), "{page}");
    }
}
