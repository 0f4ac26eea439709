//! Reports and their rows: one declaration is the struct, its JSON and its text.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

use crate::measure::machine::Machine;
use crate::measure::partial::Partial;

/// Declares the struct of a report or of a row. All fields are in the JSON. The text shows those with a title:
/// `=> TITLE, DECIMALS` is a column of a table, or a line of a report; `| TITLE, COLUMNS` is a table of rows, in groups
/// that differ in the first columns. `, flatten` has the fields of another record in this place.
///
/// The text of a report begins with the field `machine`, and ends with notes on the fields `partial`, `interrupted` and
/// `quick`, if there are any.
///
/// `struct NAME, fn new(…)` also declares that function. A field is the argument or variable of the same name, or
/// `= SOURCE`, a [`Column`](crate::measure::sample::Column): a value, or a figure of every round, of which the field is
/// the median. `where { … }` before the fields has statements that declare variables. A source may use the fields before
/// it. The field with the quartiles follows all figures of every round.
macro_rules! record {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident, $new:vis fn new($($argument:ident: $argument_type:ty),* $(,)?)
            $(where { $($given:tt)* })? {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty $(=> $title:literal, $decimals:literal)? $(| $table:literal, $group:literal)?
                    $(, $flatten:ident)? $(= $source:expr)?;
            )*
        }
    ) => {
        $crate::measure::record::record! {
            $(#[$meta])*
            $visibility struct $name {
                $(
                    $(#[$field_meta])*
                    $field: $type $(=> $title, $decimals)? $(| $table, $group)? $(, $flatten)?;
                )*
            }
        }

        impl $name {
            $new fn new($($argument: $argument_type),*) -> Self {
                let mut spread = $crate::measure::stats::Spread::new();
                $($($given)*)?
                $($(let $field = $crate::measure::sample::Column::<$type>::take(
                    $source,
                    stringify!($field),
                    &mut spread,
                );)?)*
                assert!(spread.is_empty(), "figures of every round without a field for their quartiles after them");
                Self { $($field),* }
            }
        }
    };
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $(
                $(#[$field_meta:meta])*
                $field:ident: $type:ty $(=> $title:literal, $decimals:literal)? $(| $table:literal, $group:literal)? $(, $flatten:ident)?;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Serialize)]
        $visibility struct $name {
            $($(#[$field_meta])* $(#[serde($flatten)])? pub $field: $type,)*
        }

        impl $crate::measure::record::Record for $name {
            fn fields() -> Vec<$crate::measure::record::Field> {
                <[Vec<$crate::measure::record::Field>]>::concat(&[
                    $($(vec![$crate::measure::record::Field {
                        name: stringify!($field),
                        title: $title,
                        shown: $crate::measure::record::Shown::Value { decimals: $decimals },
                    }],)?
                    $(vec![$crate::measure::record::Field {
                        name: stringify!($field),
                        title: $table,
                        shown: $crate::measure::record::Shown::Table {
                            fields: <$type as $crate::measure::record::Rows>::fields,
                            group: $group,
                        },
                    }],)?
                    $($crate::measure::record::$flatten::<$type>(),)?)*
                ])
            }
        }
    };
}
pub(crate) use record;

/// A field that the text shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    /// Its name in the JSON.
    pub(crate) name: &'static str,
    /// The heading.
    pub(crate) title: &'static str,
    /// How it is shown.
    pub(crate) shown: Shown,
}

/// How a field is shown.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shown {
    /// A value, or several.
    Value {
        /// Decimals of a number.
        decimals: usize,
    },
    /// A table, whose rows have these fields.
    Table {
        /// Its columns, and tables within its rows.
        fields: fn() -> Vec<Field>,
        /// An empty line separates rows that differ in this many first columns.
        group: usize,
    },
}

/// A report or a row.
pub(crate) trait Record: Serialize {
    /// The fields that the text shows.
    fn fields() -> Vec<Field>;
}

/// A record within another one, or none.
pub(crate) trait Part {
    fn fields() -> Vec<Field>;
}

impl<R: Record> Part for R {
    fn fields() -> Vec<Field> {
        <R as Record>::fields()
    }
}

impl<R: Record> Part for Option<R> {
    fn fields() -> Vec<Field> {
        <R as Record>::fields()
    }
}

/// The fields of a record within another one.
pub(crate) fn flatten<P: Part>() -> Vec<Field> {
    P::fields()
}

/// Rows of a table.
pub(crate) trait Rows {
    /// The fields of a row.
    fn fields() -> Vec<Field>;
}

impl<R: Record> Rows for Vec<R> {
    fn fields() -> Vec<Field> {
        <R as Record>::fields()
    }
}

/// The text of a report.
pub(crate) fn text<R: Record>(report: &R) -> String {
    text_of(&serde_json::to_value(report).expect("serializable values"), R::fields())
}

/// Without the type of the report, so that it is compiled once and not for a hundred reports.
fn text_of(report: &Value, fields: Vec<Field>) -> String {
    let mut out = String::new();
    if let Ok(machine) = serde_json::from_value::<Machine>(report["machine"].clone()) {
        let _ = writeln!(out, "{machine}\n");
    }
    let mut lines: Vec<[String; 2]> = Vec::new();
    for field in fields {
        match (field.shown, &report[field.name]) {
            (_, Value::Null) => (),
            (Shown::Value { decimals }, Value::Object(map)) => {
                lines.extend(map.iter().map(|(name, value)| {
                    [format!("{}: {name}", field.title), cell(value, decimals)]
                }));
            }
            (Shown::Value { decimals }, value) => {
                lines.push([field.title.to_owned(), cell(value, decimals)]);
            }
            (Shown::Table { fields, group }, rows) => {
                let rows = rows.as_array().map(Vec::as_slice).unwrap_or_default();
                tables(&mut out, field.title, &fields(), rows, group);
            }
        }
    }
    let width = lines.iter().map(|[title, _]| title.chars().count()).max().unwrap_or(0);
    for [title, value] in lines {
        let _ = writeln!(out, "  {title:<width$}  {value:>10}");
    }
    let partial = serde_json::from_value::<Partial>(report["partial"].clone());
    let partial = partial.ok().map(|partial| partial.to_string());
    let noted = |name: &str, note: &str| (report[name] == true).then(|| note.to_owned());
    let interrupted = noted("interrupted", "interrupted");
    let quick = noted("quick", "quick run: the figures are meaningless");
    for note in [partial, interrupted, quick].into_iter().flatten() {
        let apart = if out.is_empty() || out.ends_with("\n\n") { "" } else { "\n" };
        let _ = writeln!(out, "{apart}  {note}");
    }
    out
}

/// Whether a report lists measurements that failed.
pub(crate) fn has_failed(report: &Value) -> bool {
    report["failed"].as_array().is_some_and(|failed| !failed.is_empty())
}

/// Whether a report is partial, since a signal ended the measurement.
pub(crate) fn is_partial(report: &Value) -> bool {
    let missing = report["missing"].as_array().is_some_and(|missing| !missing.is_empty());
    missing || report["interrupted"] == true || report["partial"].is_object()
}

/// A value as text.
fn cell(value: &Value, decimals: usize) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(number) => format!("{number:.decimals$}"),
            None => number.to_string(),
        },
        Value::Array(values) => {
            let values = values.iter().map(|value| cell(value, decimals));
            values.collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

/// Adds the table of `rows`, and the tables within its rows, each beside the first column.
fn tables(out: &mut String, title: &str, fields: &[Field], rows: &[Value], group: usize) {
    if rows.is_empty() {
        return;
    }
    table(out, title, fields, rows, group);
    let values = |field: &&Field| matches!(field.shown, Shown::Value { .. });
    let first = fields.iter().find(values);
    for nested in fields {
        let (Shown::Table { fields, .. }, Some(first)) = (nested.shown, first) else { continue };
        let flat = rows.iter().flat_map(|row| {
            row[nested.name].as_array().into_iter().flatten().map(|inner| {
                let mut inner = inner.clone();
                inner[first.name] = row[first.name].clone();
                inner
            })
        });
        let fields: Vec<Field> = std::iter::once(*first).chain(fields()).collect();
        table(out, nested.title, &fields, &flat.collect::<Vec<_>>(), 1);
    }
}

/// Adds a table: columns of text to the left, of numbers to the right.
fn table(out: &mut String, title: &str, fields: &[Field], rows: &[Value], group: usize) {
    if !title.is_empty() {
        let _ = writeln!(out, "{title}\n");
    }
    let columns = fields.iter().filter_map(|field| match field.shown {
        Shown::Value { decimals } => Some((field, decimals)),
        Shown::Table { .. } => None,
    });
    // Each column: its cells from the heading on, its width, and whether it is aligned to the right.
    let columns: Vec<(Vec<String>, usize, bool)> = columns
        .map(|(field, decimals)| {
            let cells = rows.iter().map(|row| cell(&row[field.name], decimals));
            let cells: Vec<String> = std::iter::once(field.title.to_owned()).chain(cells).collect();
            let width = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
            (cells, width, rows.iter().any(|row| row[field.name].is_number()))
        })
        .collect();
    let differs = |n: usize| columns.iter().take(group).any(|(cells, ..)| cells[n] != cells[n - 1]);
    for n in 0..=rows.len() {
        if n > 1 && differs(n) {
            out.push('\n');
        }
        let mut line = String::new();
        for (cells, width, is_number) in &columns {
            let _ = match is_number {
                true => write!(line, "  {:>width$}", cells[n]),
                false => write!(line, "  {:<width$}", cells[n]),
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out.push('\n');
}

#[cfg(test)]
mod tests {
    record! {
        /// A row.
        struct Row {
            /// A name.
            server: &'static str => "server", 0;
            /// A number.
            cpu_us: f64 => "µs each", 2;
            /// A ratio.
            over: Option<f64> => "over", 1;
            /// In the JSON only.
            slices: usize;
            /// More of it.
            more: More, flatten;
            /// Rows within.
            parts: Vec<Part> | "parts", 0;
        }
    }

    record! {
        /// A part of the row.
        struct More {
            /// In the same table.
            noisy: usize => "noisy", 0;
        }
    }

    record! {
        /// A row within.
        struct Part {
            /// A size.
            size: usize => "size", 0;
        }
    }

    record! {
        /// A report.
        struct Report {
            /// The rows.
            rows: Vec<Row> | "servers", 1;
            /// A ratio.
            worst: Option<f64> => "the worst", 2;
            /// Not measured.
            missed: Option<f64> => "not shown", 2;
            /// Whether it was quick.
            quick: bool;
        }
    }

    #[test]
    fn a_report_is_a_table_and_lines() {
        let row = |server, cpu_us, over, sizes: &[usize]| Row {
            server,
            cpu_us,
            over,
            slices: 3,
            more: More { noisy: 1 },
            parts: sizes.iter().map(|size| Part { size: *size }).collect(),
        };
        let rows = vec![row("phalanx", 6.234, Some(0.5), &[1, 20]), row("nginx", 12.0, None, &[])];
        let report = Report { rows, worst: Some(0.5), missed: None, quick: true };
        let text = "servers\n\n  server   µs each  over  noisy\n  phalanx     6.23   0.5      1\n\n  nginx      12.00     -      1\n\n\
                    parts\n\n  server   size\n  phalanx     1\n  phalanx    20\n\n  the worst        0.50\n\n  \
                    quick run: the figures are meaningless\n";
        assert_eq!(super::text(&report), text);
        assert_eq!(serde_json::to_value(&report).unwrap()["rows"][0]["slices"], 3);
    }

    #[test]
    fn partial_reports_are_known_by_their_fields() {
        let is = |json| super::is_partial(&json);
        assert!(is(serde_json::json!({ "interrupted": true })));
        assert!(
            is(serde_json::json!({ "missing": [1] })) && is(serde_json::json!({ "partial": {} }))
        );
        let whole = serde_json::json!({ "interrupted": false, "missing": [], "partial": null });
        assert!(!is(whole) && !is(serde_json::json!({})));
        let has_failed = |json| super::has_failed(&json);
        assert!(has_failed(serde_json::json!({ "failed": [{ "why": "" }] })));
        assert!(!has_failed(serde_json::json!({ "failed": [] })));
    }
}
