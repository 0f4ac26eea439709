//! Tables of rows, for figures that plots do not show.

use std::fmt::Write;

use serde_json::Value;

use super::escape::escaped;
use super::scale::number;

/// Rows and columns of a table.
pub(super) struct Table {
    pub(super) title: &'static str,
    /// JSON pointer to the rows.
    pub(super) rows: &'static str,
    /// Fields and their headings. Numbers are right-aligned, with three digits.
    pub(super) columns: &'static [(&'static str, &'static str)],
}

/// The table as HTML; `None` if the report has no such rows.
pub(super) fn html(table: &Table, report: &Value) -> Option<String> {
    let rows = report.pointer(table.rows)?.as_array().filter(|rows| !rows.is_empty())?;
    let mut html = format!("<h3>{}</h3><table><tr>", escaped(table.title));
    for (_, title) in table.columns {
        let _ = write!(html, "<th>{}", escaped(title));
    }
    for row in rows {
        html.push_str("<tr>");
        for (field, _) in table.columns {
            let _ = match &row[*field] {
                Value::Number(value) => {
                    let value = value.as_f64().map_or_else(|| value.to_string(), number);
                    write!(html, "<td class=\"n\">{value}")
                }
                Value::String(text) => write!(html, "<td>{}", escaped(text)),
                Value::Null => write!(html, "<td>–"),
                other => write!(html, "<td>{}", escaped(&other.to_string())),
            };
        }
    }
    html.push_str("</table>");
    Some(html)
}

/// The table as Markdown; `None` if the report has no such rows.
pub(super) fn markdown(table: &Table, report: &Value) -> Option<String> {
    let rows = report.pointer(table.rows)?.as_array().filter(|rows| !rows.is_empty())?;
    let titles: Vec<&str> = table.columns.iter().map(|(_, title)| *title).collect();
    let mut text = format!("\n| {} |\n|{}\n", titles.join(" | "), "---|".repeat(titles.len()));
    for row in rows {
        let cells = table.columns.iter().map(|(field, _)| match &row[*field] {
            Value::Number(value) => value.as_f64().map_or_else(|| value.to_string(), number),
            Value::String(text) => text.replace('|', "\\|"),
            Value::Null => "–".to_owned(),
            other => other.to_string(),
        });
        let _ = writeln!(text, "| {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_become_lines() {
        let columns = &[("stage", "stage"), ("wait", "wait <µs>"), ("none", "none")];
        let table = Table { title: "stages", rows: "/rows", columns };
        let report = json!({ "rows": [{ "stage": "a & b", "wait": 1.25 }] });
        let html = html(&table, &report).unwrap();
        assert!(html.contains("<th>wait &lt;µs&gt;"), "{html}");
        assert!(html.contains("<td>a &amp; b<td class=\"n\">1.25<td>–"), "{html}");
        assert_eq!(super::html(&table, &json!({ "rows": [] })), None);
    }
}
