//! `cargo xtask summary`: draws the ratios of README's table in `docs/plots/summary-*.svg`, and the check that the
//! charts show them.

use std::fmt::Write;
use std::path::Path;

use super::Fault;
use super::read::tree::Tree;
use crate::task::Outcome;

/// The page with the table, and the table's columns that are drawn: labels, and ratios as `0.67` or `0.54–0.59`.
const PAGE: &str = "README.md";
const LABELS: &str = "Phalanx over the peer";
const RATIOS: &str = "one processor";

/// The variants of the chart: file, and the colours of text, of lines and of bars.
const VARIANTS: [(&str, &str, &str, &str); 2] = [
    ("docs/plots/summary-light.svg", "#1f2328", "#d0d7de", "#0969da"),
    ("docs/plots/summary-dark.svg", "#e6edf3", "#3d444d", "#6cb0ff"),
];

/// Left end of the bars, and width of a ratio of 1.
const LEFT: f64 = 320.0;
const UNIT: f64 = 225.0;
/// Top of the first bar, height of a bar, and distance between the tops of two.
const TOP: usize = 42;
const BAR: usize = 22;
const STEP: usize = 33;

/// A row of the table: the label, the ratio as it is written, and its lowest and highest value.
type Row<'a> = (&'a str, &'a str, f64, f64);

/// Draws all variants.
pub(crate) fn run(root: &Path) -> Outcome {
    let tree = Tree::load(root).map_err(|error| format!("cannot list the files: {error}"))?;
    for (path, svg) in charts(&tree)? {
        std::fs::write(root.join(path), svg).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(true)
}

/// Finds charts that differ from the table.
pub(super) fn check(tree: &Tree) -> Vec<Fault> {
    match charts(tree) {
        Ok(charts) => charts
            .into_iter()
            .filter(|(path, svg)| tree.text(path) != Some(svg))
            .map(|(path, _)| {
                let message = format!(
                    "the chart differs from the table of {PAGE}; run `cargo xtask summary`"
                );
                Fault::new(path, 1, message)
            })
            .collect(),
        Err(message) => vec![Fault::new(PAGE, 1, message)],
    }
}

/// Path and content of every variant.
fn charts(tree: &Tree) -> Result<Vec<(&'static str, String)>, String> {
    let rows = rows(tree.text(PAGE).unwrap_or_default())?;
    Ok(VARIANTS.map(|(path, text, line, bar)| (path, svg(&rows, text, line, bar))).to_vec())
}

/// The rows of the table.
fn rows(page: &str) -> Result<Vec<Row<'_>>, String> {
    let mut lines = page.lines().skip_while(|line| !line.starts_with(&format!("| {LABELS} |")));
    let header: Vec<_> = lines.next().into_iter().flat_map(cells).collect();
    let column = header.iter().position(|cell| *cell == RATIOS);
    let column =
        column.ok_or(format!("a table with the columns `{LABELS}` and `{RATIOS}` is missing"))?;
    let row = |line| {
        let cells: Vec<_> = cells(line).collect();
        let (label, ratio) = (*cells.first()?, *cells.get(column)?);
        let (low, high) = ratio.split_once('–').unwrap_or((ratio, ratio));
        Some((label, ratio, low.parse().ok()?, high.parse().ok()?))
    };
    lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(|line| row(line).ok_or(format!("`{line}` has no ratio that can be drawn")))
        .collect()
}

/// The cells of a row of a table.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    line.trim_matches('|').split('|').map(str::trim)
}

/// A chart: a bar up to the lowest ratio of each row, lighter from there to the highest.
fn svg(rows: &[Row<'_>], text: &str, line: &str, bar: &str) -> String {
    let title = "Processor time of Phalanx over that of its peer";
    let bottom = TOP + STEP * rows.len();
    let (numbers, height) = (bottom + 15, bottom + 43);
    let x = |ratio: f64| LEFT + UNIT * ratio;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 640 {height}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"13\" fill=\"{text}\"><title>{title}</title>\n\
         <text x=\"8\" y=\"20\" font-weight=\"600\">{title}, one processor each (less is better)</text>\n"
    );
    for (ratio, colour) in [(0.0, line), (0.5, line), (1.0, text)] {
        let x = x(ratio);
        let _ = writeln!(
            svg,
            "<path d=\"M{x} 34V{bottom}\" stroke=\"{colour}\"/>\
             <text x=\"{x}\" y=\"{numbers}\" text-anchor=\"middle\">{ratio}</text>"
        );
    }
    for (number, (label, ratio, low, high)) in rows.iter().enumerate() {
        let top = TOP + STEP * number;
        let baseline = top + 16;
        let (low, high) = (x(*low), x(*high));
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{label}</text>\
             <path d=\"M{LEFT} {top}H{low:.1}v{BAR}H{LEFT}z\" fill=\"{bar}\"/>\
             <path d=\"M{low:.1} {top}H{high:.1}v{BAR}H{low:.1}z\" fill=\"{bar}\" fill-opacity=\"0.4\"/>\
             <text x=\"636\" y=\"{baseline}\" text-anchor=\"end\">{ratio}</text>",
            LEFT - 8.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\" font-size=\"11\">equal</text>\n</svg>",
        x(1.0),
        bottom + 33
    );
    svg
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "a\n| Phalanx over the peer | two processors | one processor |\n|---|---|---|\n\
                         | web | 0.7 | 0.54–0.59 |\n| broker | 0.9 | 0.08 |\n\n| other | table |\n";

    #[test]
    fn charts_show_the_ratios_of_the_table() {
        let tree = Tree::from_files(&[(PAGE, TABLE)]);
        let charts = charts(&tree).unwrap();
        for part in ["M441.5 42H452.8v22", "H338.0v22", ">0.54–0.59<", ">0.08<"] {
            assert!(charts[0].1.contains(part), "{part}: {}", charts[0].1);
        }
        assert!(!charts[0].1.contains("other"));
        let drawn = [(PAGE, TABLE), (charts[0].0, &*charts[0].1), (charts[1].0, &*charts[1].1)];
        assert_eq!(check(&Tree::from_files(&drawn)), []);
        let changed = TABLE.replace("0.08", "0.09");
        let changed = [(PAGE, &*changed), drawn[1], drawn[2]];
        assert_eq!(check(&Tree::from_files(&changed)).len(), 2);
    }

    #[test]
    fn a_table_without_ratios_is_a_fault() {
        for page in ["", &TABLE.replace("one processor", "three"), &TABLE.replace("0.08", "few")] {
            assert_eq!(check(&Tree::from_files(&[(PAGE, page)])).len(), 1, "{page}");
        }
    }
}
