//! Tables of rows: one declaration of a row is its JSON, its text, its Markdown and its HTML.

use std::fmt::Write;

use serde::Serialize;
use serde_json::Value;

/// Declares the struct of a row. A field with a heading is a column of the printed tables, with this number of
/// decimals; all fields are in the JSON.
macro_rules! row {
    (
        $(#[$meta:meta])*
        $visibility:vis struct $name:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty $(=> $title:literal, $decimals:literal)?;)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, serde::Serialize)]
        $visibility struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        impl $crate::table::Row for $name {
            const COLUMNS: &'static [$crate::table::Column] = &[
                $($($crate::table::Column { field: stringify!($field), title: $title, decimals: $decimals },)?)*
            ];
        }
    };
}
pub(crate) use row;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The field of the row's JSON.
    pub field: &'static str,
    /// The heading.
    pub title: &'static str,
    /// Decimals of a number.
    pub decimals: usize,
}

/// A row of a table.
pub trait Row: Serialize {
    /// The columns of the printed tables.
    const COLUMNS: &'static [Column];
}

/// The cells of the rows, by column. Numbers have the decimals of their column.
fn cells(columns: &[Column], rows: &[Value]) -> Vec<Vec<String>> {
    let cell = |row: &Value, column: &Column| match &row[column.field] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(number) => format!("{number:.*}", column.decimals),
            None => number.to_string(),
        },
        other => other.to_string(),
    };
    rows.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect()).collect()
}

/// The rows as aligned text: columns of text to the left, of numbers to the right. An empty line separates rows
/// that differ in the first `group` columns.
pub fn text<R: Row>(rows: &[R], group: usize) -> String {
    let rows: Vec<Value> = rows.iter().map(value).collect();
    let lines = cells(R::COLUMNS, &rows);
    let is_number = |n: usize| rows.iter().any(|row| row[R::COLUMNS[n].field].is_number());
    let width = |n: usize, title: &str| {
        let cells = lines.iter().map(|line| line[n].chars().count());
        cells.chain([title.chars().count()]).max().unwrap_or(0)
    };
    let columns = R::COLUMNS.iter().enumerate();
    let columns: Vec<_> =
        columns.map(|(n, column)| (width(n, column.title), is_number(n))).collect();
    let mut out = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut text = String::new();
        for (cell, (width, right)) in cells.zip(&columns) {
            let _ = match right {
                true => write!(text, "  {cell:>width$}"),
                false => write!(text, "  {cell:<width$}"),
            };
        }
        let _ = writeln!(out, "{}", text.trim_end());
    };
    line(&mut R::COLUMNS.iter().map(|column| column.title));
    let mut before: Option<&[String]> = None;
    for cells in &lines {
        let of = &cells[..group.min(cells.len())];
        if before.replace(of).is_some_and(|before| before != of) {
            line(&mut std::iter::empty());
        }
        line(&mut cells.iter().map(String::as_str));
    }
    out
}

fn value<R: Serialize>(row: &R) -> Value {
    serde_json::to_value(row).expect("serializable values")
}

#[cfg(test)]
mod tests {
    use super::*;

    row! {
        /// A server.
        struct Server {
            /// Its name.
            name: &'static str => "server", 0;
            /// Not shown.
            seed: u32;
            /// Its cost.
            cost: Option<f64> => "µs", 2;
        }
    }

    #[test]
    fn a_declaration_is_text_and_json() {
        let of = |name, cost| Server { name, seed: 1, cost };
        let rows = [of("a", Some(1.256)), of("a", None), of("longer", Some(10.0))];
        let lines =
            ["  server     µs", "  a        1.26", "  a           -", "", "  longer  10.00"];
        assert_eq!(text(&rows, 1).lines().collect::<Vec<_>>(), lines);
        assert_eq!(value(&rows[0])["seed"], 1);
    }
}
