//! Extracts the points of plots from a benchmark's JSON.

use serde_json::Value;

use super::catalogue::{Axis, Chart, Lines};

/// A line of a plot.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) name: String,
    /// From left to right.
    pub(super) points: Vec<Point>,
}

/// A figure of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Quartiles of the rounds, if the row has them.
    pub(super) spread: Option<(f64, f64)>,
}

/// All lines of `chart` with points in `report`, in the order of the rows.
pub(super) fn series(chart: &Chart, report: &Value) -> Vec<Series> {
    let rows = report.pointer(&chart.rows).and_then(Value::as_array);
    let rows = rows.into_iter().flatten();
    let wanted =
        rows.filter(|row| chart.only.iter().all(|(field, value)| text(&row[field]) == *value));
    let mut all: Vec<Series> = Vec::new();
    for row in wanted {
        let Some(x) = row[&chart.x.field].as_f64() else { continue };
        let mut add = |name: String, field: &str| {
            // Skip values that are not numbers, or have no logarithm on a logarithmic axis.
            let drawn = |value: f64, axis: &Axis| value > 0.0 || !axis.logarithmic;
            let Some(y) = row[field].as_f64().filter(|y| drawn(*y, &chart.y) && drawn(x, &chart.x))
            else {
                return;
            };
            let quartile = |n: usize| row["spread"][field][n].as_f64();
            let spread = quartile(0).zip(quartile(1));
            let spread = spread.filter(|(low, _)| drawn(*low, &chart.y));
            let point = Point { x, y, spread };
            match all.iter_mut().find(|series| series.name == name) {
                Some(series) => series.points.push(point),
                None => all.push(Series { name, points: vec![point] }),
            }
        };
        match &chart.lines {
            Lines::By { by, y } => {
                let names = by.iter().map(|field| text(&row[field]));
                let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
                add(names.join(" "), y);
            }
            Lines::Fields { fields } => {
                for (name, field) in fields {
                    add(name.clone(), field);
                }
            }
        }
    }
    all.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.x.total_cmp(&b.x)));
    all
}

/// A field's value as text.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(lines: Lines, logarithmic: bool) -> Chart {
        let axis = |field: &str| Axis { field: field.into(), label: String::new(), logarithmic };
        Chart {
            title: String::new(),
            rows: "/rows".into(),
            only: [("scene".into(), "small".into())].into(),
            lines,
            x: axis("n"),
            y: axis(""),
        }
    }

    #[test]
    fn rows_become_lines() {
        let report = serde_json::json!({ "rows": [
            { "scene": "small", "server": "a", "driver": null, "n": 4, "us": 2.0, "p99": 0,
              "spread": { "us": [1.5, 2.5] } },
            { "scene": "small", "server": "b", "driver": "poll", "n": 1, "us": 5, "p99": 6 },
            { "scene": "large", "server": "a", "driver": null, "n": 1, "us": 7.0, "p99": 1 },
            { "scene": "small", "server": "a", "driver": null, "n": 1, "us": 3.0, "p99": 7 },
        ] });
        let series = |lines, logarithmic| {
            let found = series(&chart(lines, logarithmic), &report);
            found.into_iter().map(|series| (series.name, series.points)).collect::<Vec<_>>()
        };
        let point = |(x, y)| Point { x, y, spread: None };
        let by = Lines::By { by: vec!["server".into(), "driver".into()], y: "us".into() };
        let spread = Point { spread: Some((1.5, 2.5)), ..point((4.0, 2.0)) };
        let wanted = [("a", vec![point((1.0, 3.0)), spread]), ("b poll", vec![point((1.0, 5.0))])];
        assert_eq!(series(by, false), wanted.map(|(name, points)| (name.to_owned(), points)));
        let fields = [("mean", "us"), ("worst", "p99"), ("none", "none")];
        let fields = fields.map(|(name, field)| (name.into(), field.into())).into();
        // Zero has no logarithm.
        assert_eq!(
            series(Lines::Fields { fields }, true)[1],
            ("worst".to_owned(), [(1.0, 6.0), (1.0, 7.0)].map(point).to_vec())
        );
    }
}
