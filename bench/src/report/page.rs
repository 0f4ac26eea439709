//! `report.html`: a single file without scripts, printable, with light and dark style.

use std::fmt::Write;

use super::baseline::Move;
use super::catalogue;
use super::document::{Document, Entry};
use super::escape::{escaped, prose};
use super::experiment::{Experiment, Ratio};
use super::picture;
use super::scale::number;
use super::series::series;
use super::svg::{Colours, plot, variables};
use super::table;

/// The page for `document`, and for the changes since an earlier one, if given.
pub(super) fn page(document: &Document, moves: Option<&[Move]>) -> String {
    let mut html = format!(
        "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Phalanx, measured</title>\
         <style>:root{{{}--back:#fff;--soft:#f6f8fa}}\
         @media(prefers-color-scheme:dark){{:root{{{}--back:#0d1117;--soft:#161b22}}}}\
         @media print{{:root{{{}--back:#fff;--soft:#fff}}details{{display:none}}section{{break-inside:avoid}}}}{}</style>\
         <h1>Phalanx, measured</h1>",
        variables(false),
        variables(true),
        variables(false),
        STYLE
    );
    where_and_how(&mut html, document);
    contents(&mut html, document);
    if let Some(moves) = moves {
        moved(&mut html, moves);
    }
    for entry in &document.experiments {
        if let Some(experiment) = catalogue::find(&entry.name) {
            section(&mut html, experiment, entry);
        }
    }
    html.push_str("</html>\n");
    html
}

const STYLE: &str = "body{max-width:44rem;margin:2rem auto;padding:0 1rem;background:var(--back);\
    color:var(--text);font:16px/1.5 system-ui,sans-serif}a{color:var(--line0)}svg{width:100%;height:auto}img{display:block;max-width:100%;max-height:56rem;margin:1rem auto}\
    table{border-collapse:collapse;width:100%}td,th{text-align:left;padding:.2rem .6rem .2rem 0;\
    border-bottom:1px solid var(--grid);vertical-align:top}td.n{text-align:right;white-space:nowrap}\
    code,pre{background:var(--soft);font-size:85%}pre{overflow:auto;max-height:24rem;padding:.5rem}\
    .paper{border-left:4px solid var(--grid);padding-left:.8rem}.note{background:var(--soft);padding:.4rem .8rem}";

fn where_and_how(html: &mut String, document: &Document) {
    let Document { processor, cores, kernel, phalanx, quick, .. } = document;
    let processor = processor.as_deref().unwrap_or("unknown processor");
    let peers: Vec<_> = document
        .peers
        .iter()
        .filter_map(|(name, version)| Some(format!("{name} {}", version.as_deref()?)))
        .collect();
    let _ = write!(
        html,
        "<p>Phalanx {} on {} ({cores} cores), {}. {}</p>",
        escaped(phalanx),
        escaped(processor),
        escaped(kernel),
        match peers.is_empty() {
            true => "No peers are installed.".to_owned(),
            false => format!("Peers: {}.", escaped(&peers.join(", "))),
        }
    );
    html.push_str(
        "<p>Figures are medians; the whiskers of a point and the brackets after a ratio show the quartiles of its rounds.</p>",
    );
    if *quick {
        html.push_str(
            "<p class=\"note\">A short report with few rounds, whose figures a full one (<code>--full</code>) may not confirm.</p>",
        );
    }
}

fn contents(html: &mut String, document: &Document) {
    html.push_str("<table><tr><th>ratio<th>here<th>goal<th>");
    for entry in &document.experiments {
        let Some(experiment) = catalogue::find(&entry.name) else {
            continue;
        };
        for ratio in experiment.ratios {
            if let Some(value) = entry.figure(ratio.at) {
                row(html, entry, ratio, value);
            }
        }
    }
    html.push_str("</table>");
}

fn row(html: &mut String, entry: &Entry, ratio: &Ratio, value: f64) {
    let _ = write!(
        html,
        "<tr><td><a href=\"#{}\">{}</a><td class=\"n\">{}<td class=\"n\">{}<td>{}",
        entry.name,
        escaped(ratio.says),
        number(value),
        ratio.goal,
        match ratio.goal.met(value) {
            true => "",
            false => "<b>missed</b>",
        }
    );
}

fn moved(html: &mut String, moves: &[Move]) {
    html.push_str("<h2>Changes since the baseline</h2>");
    if moves.is_empty() {
        html.push_str("<p>No ratio changed by more than the noise.</p>");
        return;
    }
    html.push_str("<table><tr><th>ratio<th>before<th>now<th>");
    for moved in moves {
        let _ = write!(
            html,
            "<tr><td><a href=\"#{}\">{}</a><td class=\"n\">{}<td class=\"n\">{}<td>{}",
            moved.experiment,
            escaped(moved.says),
            number(moved.before),
            number(moved.now),
            if moved.better { "better" } else { "<b>worse</b>" }
        );
    }
    html.push_str("</table>");
}

fn section(html: &mut String, experiment: &Experiment, entry: &Entry) {
    let _ =
        write!(html, "<section id=\"{}\"><h2>{}</h2>", experiment.name, escaped(experiment.title));
    if let Some(paper) = experiment.paper {
        let _ = write!(html, "<p class=\"paper\">{}</p>", prose(paper));
    }
    let _ = write!(html, "<p>{}</p>", prose(experiment.about));
    if let Some(why) = &entry.missing {
        let _ = write!(html, "<p class=\"note\">Not measured: {}.</p>", escaped(why));
    }
    if entry.noisy {
        let _ = write!(
            html,
            "<p class=\"note\">Other processes used the machine, which was up to {:.0} % slower than at its best. Ratios \
             are less affected than absolute figures.</p>",
            (entry.worst() - 1.0) * 100.0
        );
    }
    let judged =
        experiment.ratios.iter().filter_map(|ratio| Some((ratio, entry.figure(ratio.at)?)));
    for (ratio, value) in judged {
        let paper = ratio.paper.map(|paper| format!("; in the paper {}", number(paper)));
        let spread = entry.spread(ratio.at);
        let spread = spread.map(|(low, high)| format!(" ({} to {})", number(low), number(high)));
        let _ = write!(
            html,
            "<p><b>{}</b>{}: {}{}.</p>",
            number(value),
            spread.unwrap_or_default(),
            escaped(ratio.says),
            paper.unwrap_or_default()
        );
    }
    if let Some(report) = &entry.report {
        let drawn = experiment.picture.and_then(|at| report.pointer(at)?.as_str());
        if let Some(svg) = drawn {
            html.push_str(&picture::html(svg, experiment.title));
        }
        for chart in experiment.charts {
            let series = series(chart, report);
            let _ = match series.is_empty() {
                true => {
                    write!(html, "<p class=\"note\">{}: no rows to draw.</p>", escaped(chart.title))
                }
                false => write!(
                    html,
                    "<h3>{}</h3>{}",
                    escaped(chart.title),
                    plot(chart, &series, Colours::Page, None)
                ),
            };
        }
        for table in experiment.tables {
            html.push_str(&table::html(table, report).unwrap_or_default());
        }
        let _ = write!(html, "<p>{}</p>", prose(experiment.differs));
    }
    let _ = write!(html, "<p><code>{}</code>, {:.0} s</p>", escaped(&entry.command), entry.seconds);
    if let Some(report) = &entry.report {
        let mut report = report.clone();
        // Shown above.
        if let Some(picture) = experiment.picture.and_then(|at| report.pointer_mut(at)) {
            picture.take();
        }
        let raw = serde_json::to_string_pretty(&report).unwrap_or_default();
        let _ = write!(
            html,
            "<details><summary>All figures</summary><pre>{}</pre></details>",
            escaped(&raw)
        );
    }
    html.push_str("</section>");
}
