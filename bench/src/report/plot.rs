//! Plots as SVG, in light and in dark colours.

use std::ops::Range;

use plotters::coord::combinators::LogCoord;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::element::ErrorBar;
use plotters::prelude::*;

use super::catalogue::Chart;
use super::number::number;
use super::series::{Point, Series};

/// Width and height in pixels.
const SIZE: (u32, u32) = (640, 400);
/// Space around the plot.
const MARGIN: u32 = 14;
const FOOT_HEIGHT: u32 = 18;

/// Colours of a plot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    /// Part of the names of files.
    pub(super) name: &'static str,
    text: RGBColor,
    grid: RGBColor,
    lines: [RGBColor; 8],
}

const fn rgb(colour: u32) -> RGBColor {
    let [_, red, green, blue] = colour.to_be_bytes();
    RGBColor(red, green, blue)
}

macro_rules! colours {
    ($($colour:literal)*) => { [$(rgb($colour)),*] };
}

/// The themes, for readers with a light and with a dark background.
pub(super) const THEMES: [Theme; 2] = [
    Theme {
        name: "light",
        text: rgb(0x1f_2328),
        grid: rgb(0xd0_d7de),
        lines: colours!(0x0a_5fd0 0xc2_410c 0x15_803d 0x7c_3aed 0xa1_6207 0xbe_185d 0x0e_7490 0x52_5252),
    },
    Theme {
        name: "dark",
        text: rgb(0xe6_edf3),
        grid: rgb(0x3d_444d),
        lines: colours!(0x6c_b0ff 0xff_9d5c 0x5f_d68a 0xb7_9bff 0xe8_c04a 0xff_8fc0 0x5f_d3ea 0xc0_c0c0),
    },
];

/// Lengths of dashes and gaps, which distinguish lines without colour; the first is drawn through.
const DASHES: [(u32, u32); 8] = [(0, 0), (7, 3), (2, 3), (9, 5), (4, 2), (1, 3), (12, 4), (5, 6)];

/// Values of an axis.
enum Scale {
    Linear(RangedCoordf64),
    Logarithmic(LogCoord<f64>),
}

impl Scale {
    /// The range of `values`, from `lowest` unless logarithmic; never empty.
    fn over(values: &[f64], logarithmic: bool, lowest: f64) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if !logarithmic {
            // Space above the topmost line.
            let high = if high > lowest { high * 1.05 } else { lowest + 1.0 };
            return Self::Linear((low.min(lowest)..high).into());
        }
        let (low, high) = if low < high { (low, high) } else { (high / 2.0, high * 2.0) };
        let base = if high / low < 4096.0 { 2.0 } else { 10.0 };
        Self::Logarithmic((low..high).log_scale().base(base).into())
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        match self {
            Self::Linear(scale) => scale.map(value, limit),
            Self::Logarithmic(scale) => scale.map(value, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Self::Linear(scale) => scale.key_points(hint),
            Self::Logarithmic(scale) => scale.key_points(hint),
        }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Self::Linear(scale) => scale.range(),
            Self::Logarithmic(scale) => scale.range(),
        }
    }
}

impl ValueFormatter<f64> for Scale {
    fn format(value: &f64) -> String {
        number(*value)
    }
}

/// Draws `series`, which is not empty, with the chart's title and a footer.
pub(super) fn plot(chart: &Chart, series: &[Series], theme: &Theme, foot: &str) -> String {
    let mut svg = String::new();
    draw(&mut svg, chart, series, theme, foot).expect("writing to a string succeeds");
    svg
}

fn draw(
    svg: &mut String,
    chart: &Chart,
    series: &[Series],
    theme: &Theme,
    foot: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || series.iter().flat_map(|series| &series.points);
    let low_and_high = |point: &Point| point.spread.unwrap_or((point.y, point.y));
    let x: Vec<f64> = points().map(|point| point.x).collect();
    let y = points().flat_map(|point| [low_and_high(point).0, point.y, low_and_high(point).1]);
    let first = x.iter().copied().fold(f64::INFINITY, f64::min);
    let x = Scale::over(&x, chart.x.logarithmic, first);
    let y = Scale::over(&y.collect::<Vec<_>>(), chart.y.logarithmic, 0.0);

    let font = |size: u32| ("sans-serif", size).into_font().color(&theme.text);
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let below = i32::try_from(SIZE.1 - FOOT_HEIGHT)?;
    root.draw(&Text::new(foot.to_owned(), (MARGIN as i32, below), font(10)))?;
    let area = root.margin(MARGIN, MARGIN + FOOT_HEIGHT, MARGIN, MARGIN);
    let mut plane = ChartBuilder::on(&area)
        .caption(&chart.title, font(15))
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(x, y)?;
    plane
        .configure_mesh()
        .x_desc(&chart.x.label)
        .y_desc(&chart.y.label)
        .x_labels(8)
        .y_labels(6)
        .disable_x_mesh()
        .axis_style(theme.text)
        .bold_line_style(theme.grid)
        .light_line_style(TRANSPARENT)
        .label_style(font(12))
        .draw()?;
    for (n, series) in series.iter().enumerate() {
        let style = theme.lines[n % theme.lines.len()].stroke_width(2);
        let (dash, gap) = DASHES[n % DASHES.len()];
        let line = series.points.iter().map(|point| (point.x, point.y));
        let drawn = match dash {
            0 => plane.draw_series(LineSeries::new(line, style))?,
            _ => plane.draw_series(DashedLineSeries::new(line, dash, gap, style))?,
        };
        drawn.label(&series.name).legend(move |(x, y)| {
            EmptyElement::at((x, y))
                + PathElement::new([(0, 0), (20, 0)], style)
                + Circle::new((10, 0), 3, style.filled())
        });
        plane.draw_series(series.points.iter().map(|point| {
            let (low, high) = low_and_high(point);
            ErrorBar::new_vertical(point.x, low, point.y, high, style.filled(), 6)
        }))?;
    }
    plane
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(font(12))
        .border_style(theme.grid)
        .draw()?;
    root.present()?;
    drop(plane);
    drop(root);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::catalogue::{Axis, Lines};
    use super::*;

    #[test]
    fn a_plot_has_all_points_and_names_and_no_script() {
        let axis = |label: &str, logarithmic| Axis {
            field: String::new(),
            label: label.to_owned(),
            logarithmic,
        };
        let point = |x, y| Point { x, y, spread: Some((y - 0.5, y + 0.5)) };
        let series = |name: &str, y| Series {
            name: name.into(),
            points: vec![point(1.0, y), Point { spread: None, ..point(2.0, y) }],
        };
        let many: Vec<_> =
            (0..9).map(|n| series(&format!("server & {n}"), f64::from(n) + 1.0)).collect();
        for (theme, logarithmic) in THEMES.iter().zip([false, true]) {
            let chart = Chart {
                title: "a < b".to_owned(),
                rows: String::new(),
                only: std::collections::BTreeMap::new(),
                lines: Lines::Fields { fields: Vec::new() },
                x: axis("users", false),
                y: axis("ms", logarithmic),
            };
            let svg = plot(&chart, &many, theme, "a <machine>");
            // Each point, and each line in the legend.
            assert_eq!(svg.matches("<circle").count(), 18 + 9, "{svg}");
            assert_eq!(svg.matches("server &amp; ").count(), 9);
            for text in ["a &lt; b", "users", "ms", "a &lt;machine&gt;"] {
                assert!(svg.contains(text), "{text}: {svg}");
            }
            assert!(!svg.contains("NaN") && !svg.contains("script"));
        }
    }
}
