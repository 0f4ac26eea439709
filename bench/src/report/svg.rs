//! Plots as SVG: for the page, with colours of its style, or as a file with fixed colours.

use std::fmt::Write;

use super::escape::escaped;
use super::experiment::Chart;
use super::scale::{Scale, number};
use super::series::{Point, Series};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 300.0;
/// Margins of the frame: left, top, right, bottom.
const LEFT: f64 = 62.0;
const TOP: f64 = 14.0;
const RIGHT: f64 = 14.0;
const BOTTOM: f64 = 44.0;
/// Height of a line of the legend, or of the footer.
const LEGEND: f64 = 18.0;
/// Height of the title.
const HEAD: f64 = 24.0;
/// Approximate width of a letter.
const LETTER: f64 = 6.6;

/// Source of the colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    /// Variables of the surrounding page, light or dark.
    Page,
    Light,
    Dark,
}

/// Line styles; dashes distinguish lines without colour.
const LINES: [(&str, &str, &str); 8] = [
    ("#0a5fd0", "#6cb0ff", ""),
    ("#c2410c", "#ff9d5c", "7 3"),
    ("#15803d", "#5fd68a", "2 3"),
    ("#7c3aed", "#b79bff", "9 3 2 3"),
    ("#a16207", "#e8c04a", "4 2"),
    ("#be185d", "#ff8fc0", "1 3"),
    ("#0e7490", "#5fd3ea", "12 4"),
    ("#525252", "#c0c0c0", "5 2 1 2"),
];

impl Colours {
    fn line(self, n: usize) -> String {
        let (light, dark, _) = LINES[n % LINES.len()];
        match self {
            Self::Page => format!("var(--line{})", n % LINES.len()),
            Self::Light => light.to_owned(),
            Self::Dark => dark.to_owned(),
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Page => "var(--text)",
            Self::Light => "#1f2328",
            Self::Dark => "#e6edf3",
        }
    }

    fn grid(self) -> &'static str {
        match self {
            Self::Page => "var(--grid)",
            Self::Light => "#d0d7de",
            Self::Dark => "#3d444d",
        }
    }
}

/// The CSS variables that plots on a page use, in light or dark.
pub(super) fn variables(dark: bool) -> String {
    let colours = if dark { Colours::Dark } else { Colours::Light };
    let mut style = format!("--text:{};--grid:{};", colours.text(), colours.grid());
    for n in 0..LINES.len() {
        let _ = write!(style, "--line{n}:{};", colours.line(n));
    }
    style
}

/// Draws `series`, which is not empty. A standalone plot has a title and a footer with the machine.
pub(super) fn plot(
    chart: &Chart,
    series: &[Series],
    colours: Colours,
    foot: Option<&str>,
) -> String {
    let points = || series.iter().flat_map(|series| &series.points);
    let x = Scale::over(points().map(|point| point.x), chart.x.logarithmic);
    let x = x.beginning_at(points().map(|point| point.x).fold(f64::INFINITY, f64::min));
    let whole = |point: &Point| {
        let (low, high) = point.spread.unwrap_or((point.y, point.y));
        [low, point.y, high]
    };
    let y = Scale::over(points().flat_map(whole), chart.y.logarithmic);
    let legend = Legend::of(series);
    let named = HEIGHT + LEGEND * legend.rows as f64;
    let height = named + if foot.is_some() { HEAD + LEGEND } else { 0.0 };
    let above = if foot.is_some() { -HEAD } else { 0.0 };
    let (text, grid) = (colours.text(), colours.grid());
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 {above} {WIDTH} {height}\" role=\"img\" \
         font-family=\"system-ui,sans-serif\" font-size=\"12\" fill=\"{text}\"><title>{}</title>",
        escaped(chart.title)
    );
    let across = |value: f64| LEFT + x.place(value) * (WIDTH - LEFT - RIGHT);
    let down = |value: f64| HEIGHT - BOTTOM - y.place(value) * (HEIGHT - BOTTOM - TOP);
    let right = WIDTH - RIGHT;
    let bottom = HEIGHT - BOTTOM;
    for tick in y.ticks(6) {
        let at = down(tick);
        let _ = write!(
            svg,
            "<path d=\"M{LEFT} {at:.1}H{right}\" stroke=\"{grid}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            number(tick)
        );
    }
    for tick in x.ticks(8) {
        let at = across(tick);
        let _ = write!(
            svg,
            "<path d=\"M{at:.1} {bottom}v5\" stroke=\"{text}\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            number(tick)
        );
    }
    let _ = write!(
        svg,
        "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"{text}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text transform=\"translate(13 {:.1}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(LEFT, right),
        HEIGHT - 6.0,
        escaped(chart.x.label),
        f64::midpoint(TOP, bottom),
        escaped(chart.y.label)
    );
    for (n, series) in series.iter().enumerate() {
        line(&mut svg, n, series, colours, across, down);
    }
    legend.draw(&mut svg, series, colours);
    if let Some(foot) = foot {
        let _ = write!(
            svg,
            "<text x=\"{LEFT}\" y=\"-8\" font-size=\"14\" font-weight=\"600\">{}</text>\
             <text x=\"{LEFT}\" y=\"{:.1}\" font-size=\"10\">{}</text>",
            escaped(chart.title),
            named + LEGEND / 2.0 + 2.0,
            escaped(foot)
        );
    }
    svg.push_str("</svg>");
    svg
}

fn line(
    svg: &mut String,
    n: usize,
    series: &Series,
    colours: Colours,
    across: impl Fn(f64) -> f64,
    down: impl Fn(f64) -> f64,
) {
    let colour = colours.line(n);
    let places: Vec<_> =
        series.points.iter().map(|point| (across(point.x), down(point.y))).collect();
    let path: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let _ = write!(
        svg,
        "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>",
        path.join("L"),
        LINES[n % LINES.len()].2
    );
    for ((x, y), point) in places.iter().zip(&series.points) {
        if let Some((low, high)) = point.spread {
            let (low, high) = (down(low), down(high));
            let _ = write!(
                svg,
                "<path d=\"M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h6M{:.1} {high:.1}h6\" stroke=\"{colour}\"/>",
                x - 3.0,
                x - 3.0
            );
        }
        // Tooltip of a point.
        let _ = write!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"><title>{}: {} at {}</title></circle>",
            escaped(&series.name),
            number(point.y),
            number(point.x)
        );
    }
}

/// Names of lines, several per row.
struct Legend {
    /// Position of each: offset from the left, and row.
    places: Vec<(f64, usize)>,
    rows: usize,
}

impl Legend {
    fn of(series: &[Series]) -> Self {
        let (mut x, mut row) = (LEFT, 0);
        let mut places = Vec::new();
        for series in series {
            let width = 44.0 + LETTER * series.name.chars().count() as f64;
            if x + width > WIDTH && x > LEFT {
                (x, row) = (LEFT, row + 1);
            }
            places.push((x, row));
            x += width;
        }
        Self { places, rows: row + 1 }
    }

    fn draw(&self, svg: &mut String, series: &[Series], colours: Colours) {
        for (n, (series, (x, row))) in series.iter().zip(&self.places).enumerate() {
            let y = HEIGHT + LEGEND * (*row as f64 + 0.5);
            let _ = write!(
                svg,
                "<path d=\"M{x:.1} {y:.1}h24\" stroke=\"{}\" stroke-width=\"2\" stroke-dasharray=\"{}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                colours.line(n),
                LINES[n % LINES.len()].2,
                x + 30.0,
                y + 4.0,
                escaped(&series.name)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::experiment::{Axis, Lines};
    use super::*;

    #[test]
    fn a_plot_has_all_points_and_names_and_no_script() {
        let axis = |label| Axis { field: "", label, logarithmic: false };
        let chart = Chart {
            title: "a < b",
            rows: "",
            only: &[],
            lines: Lines::Fields(&[]),
            x: axis("users"),
            y: axis("ms"),
        };
        let point = |x, y| Point { x, y, spread: Some((y - 0.5, y + 0.5)) };
        let series = |name: &str, y| Series {
            name: name.into(),
            points: vec![point(1.0, y), Point { spread: None, ..point(2.0, y) }],
        };
        let many: Vec<_> = (0..9).map(|n| series(&format!("server & {n}"), n as f64)).collect();
        for colours in [Colours::Page, Colours::Light, Colours::Dark] {
            let svg = plot(&chart, &many, colours, None);
            assert_eq!(svg.matches("<circle").count(), 18);
            assert_eq!(svg.matches("h6M").count(), 9, "whiskers where the spread is known");
            assert_eq!(svg.matches("server &amp; ").count(), 9 + 18);
            assert!(svg.contains("a &lt; b") && svg.contains(">users<") && !svg.contains("NaN"));
            assert_eq!(svg.contains("var("), colours == Colours::Page);
            assert!(!svg.contains("script"));
        }
        let alone = plot(&chart, &many, Colours::Light, Some("a <machine>"));
        assert!(alone.contains(">a &lt; b</text>") && alone.contains(">a &lt;machine&gt;</text>"));
    }
}
