//! `report.md`: the figures as one page of Markdown, for inclusion in other pages.

use std::fmt::Write;

use super::catalogue;
use super::document::{Document, Entry};
use super::experiment::Experiment;
use super::scale::number;
use super::table;

/// The page for `document`. Headings begin at the second level.
pub(super) fn page(document: &Document) -> String {
    let Document { processor, cores, kernel, phalanx, quick, .. } = document;
    let processor = processor.as_deref().unwrap_or("unknown processor");
    let kind = if *quick { "A short" } else { "A full" };
    let mut out = format!(
        "# Report\n\n{kind} report of Phalanx {phalanx} on {processor} ({cores} cores), {kernel}. Figures are medians; \
         the figures in brackets are the quartiles of the rounds.\n"
    );
    for entry in &document.experiments {
        if let Some(experiment) = catalogue::find(&entry.name) {
            section(&mut out, experiment, entry);
        }
    }
    out
}

fn section(out: &mut String, experiment: &Experiment, entry: &Entry) {
    let _ = write!(out, "\n## {}\n\n`{}`", experiment.title, entry.command);
    let _ = match (&entry.missing, entry.noisy) {
        (Some(why), _) => writeln!(out, ": not measured: {why}."),
        (None, true) => writeln!(
            out,
            "; other processes used the machine, which was up to {:.0} % slower than at its best.",
            (entry.worst() - 1.0) * 100.0
        ),
        (None, false) => writeln!(out),
    };
    let ratios: Vec<_> = experiment
        .ratios
        .iter()
        .filter_map(|ratio| Some((ratio, entry.figure(ratio.at)?)))
        .collect();
    if !ratios.is_empty() {
        out.push_str("\n| ratio | here | goal |\n|---|---|---|\n");
    }
    for (ratio, value) in ratios {
        let spread = entry.spread(ratio.at);
        let spread = spread.map(|(low, high)| format!(" ({}–{})", number(low), number(high)));
        let missed = if ratio.goal.met(value) { "" } else { ", missed" };
        let (value, goal, spread) = (number(value), ratio.goal, spread.unwrap_or_default());
        let _ = writeln!(out, "| {} | {value}{spread} | {goal}{missed} |", ratio.says);
    }
    for table in experiment.tables {
        let rows = entry.report.as_ref().and_then(|report| table::markdown(table, report));
        out.push_str(&rows.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_and_rows_are_on_the_page() {
        let row = serde_json::json!({ "load": "popular", "server": "phalanx", "processors": 2, "cpu_us": 9.234 });
        let entry = |name: &str, report| Entry {
            name: name.to_owned(),
            command: format!("phalanx-bench {name} --json"),
            seconds: 1.0,
            slowdown: [1.0, 1.0],
            noisy: false,
            report: Some(report),
            missing: None,
        };
        let document = Document {
            version: 1,
            phalanx: "0.1.0".to_owned(),
            made_at: 0,
            quick: true,
            processor: None,
            cores: 2,
            kernel: "Linux 6".to_owned(),
            peers: Default::default(),
            experiments: vec![
                entry("op", serde_json::json!({ "dispatch_over_boxed_fn": 2.0 })),
                entry("scale", serde_json::json!({ "rows": [row] })),
            ],
        };
        let page = page(&document);
        assert!(
            page.contains("\n| an operation over a boxed closure | 2 | at most 1, missed |\n"),
            "{page}"
        );
        assert!(page.contains("\n| popular | – | phalanx | 2 | 9.23 |"), "{page}");
        assert!(page.contains("`phalanx-bench scale --json`\n"), "{page}");
    }
}
