//! The plots of a report, by the names of their files.

use std::collections::BTreeMap;

use serde_json::Value;

use super::catalogue::{self, Experiment};
use super::document::Document;
use super::plot::{THEMES, plot};
use super::series::series;

/// Names and titles of an experiment's plots: in light colours, or a picture of the report itself.
pub(super) fn names<'a>(
    experiment: &'a Experiment,
    report: &'a Value,
) -> impl Iterator<Item = (String, &'a str)> {
    let own =
        own(experiment, report).map(|_| (format!("{}.svg", experiment.name), &*experiment.title));
    let charts = experiment.charts.iter().enumerate();
    let charts = charts.filter(|(_, chart)| !series(chart, report).is_empty());
    own.into_iter().chain(charts.map(|(n, chart)| (file(experiment, n, "light"), &*chart.title)))
}

fn own<'a>(experiment: &Experiment, report: &'a Value) -> Option<&'a str> {
    report.pointer(experiment.picture.as_ref()?)?.as_str()
}

fn file(experiment: &Experiment, chart: usize, theme: &str) -> String {
    format!("{}-{}-{theme}.svg", experiment.name, chart + 1)
}

/// All plots of `document`, in each theme, with the machine and the command in their footers.
pub(super) fn all(document: &Document) -> BTreeMap<String, String> {
    let Document { cores, kernel, .. } = document;
    let processor = document.processor.as_deref().unwrap_or("unknown processor");
    let mut plots = BTreeMap::new();
    for entry in &document.experiments {
        let found = catalogue::find(&entry.name).zip(entry.report.as_ref());
        let Some((experiment, report)) = found else { continue };
        let command = entry.command.trim_end_matches(" --json");
        let foot = format!("{processor}, {cores} cores, {kernel}: {command}");
        if let Some(picture) = own(experiment, report) {
            plots.insert(format!("{}.svg", experiment.name), picture.to_owned());
        }
        for (n, chart) in experiment.charts.iter().enumerate() {
            let series = series(chart, report);
            for theme in THEMES.iter().filter(|_| !series.is_empty()) {
                plots.insert(file(experiment, n, theme.name), plot(chart, &series, theme, &foot));
            }
        }
    }
    plots
}
