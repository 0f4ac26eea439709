//! Rows and columns of the table: one row per stage and processor.

use phalanx::metrics::human::{count, percent};
use phalanx::metrics::{Interval, StageInterval};

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) stage: String,
    /// The processor; `None` for the sum over all.
    pub(super) processor: Option<usize>,
    /// Position of the stage in the wavefront.
    pub(super) order: usize,
    pub(super) figures: StageInterval,
}

/// A column of figures.
pub(super) struct Column {
    pub(super) title: &'static str,
    pub(super) width: u16,
    /// Text of a cell.
    pub(super) cell: fn(&StageInterval) -> String,
    /// Sort key; the largest comes first.
    pub(super) key: fn(&StageInterval) -> f64,
    /// Minimum width of the terminal to show the column.
    pub(super) from_width: u16,
}

/// A time in five characters: `870n`, `1.25µ`, `13.0m`, `2.00s`.
pub(super) fn short(ns: f64) -> String {
    let text = phalanx::metrics::human::time(ns);
    match text.strip_suffix(" s") {
        Some(seconds) => format!("{seconds}s"),
        None => text.trim_end_matches('s').replace(' ', ""),
    }
}

macro_rules! column {
    ($title:literal, $width:literal, $figure:expr, $show:expr) => {
        column!($title, $width, $figure, $show, 0)
    };
    ($title:literal, $width:literal, $figure:expr, $show:expr, $from:literal) => {
        Column {
            title: $title,
            width: $width,
            cell: |s| $show($figure(s)),
            key: $figure,
            from_width: $from,
        }
    };
}

/// All columns of figures. All but the last ones fit in eighty characters.
pub(super) const COLUMNS: &[Column] = &[
    column!("QUEUE", 5, |s: &StageInterval| s.queue_length_mean(), count),
    column!("SIZE", 4, |s: &StageInterval| s.cohort_mean(), count),
    column!("OPS/s", 5, |s: &StageInterval| s.per_second(s.ran), count),
    column!("WAIT", 5, |s: &StageInterval| s.wait_mean_ns(), short),
    column!("p99", 5, |s: &StageInterval| s.waits.percentile_ns(99.0), short),
    column!("max", 5, |s: &StageInterval| s.wait_max_ns() as f64, short),
    column!("RUN", 5, |s: &StageInterval| s.run_mean_ns(), short),
    column!("p99", 5, |s: &StageInterval| s.runs.percentile_ns(99.0), short),
    column!("max", 5, |s: &StageInterval| s.run_max_ns as f64, short),
    column!("SUSP", 5, |s: &StageInterval| s.suspended_now as f64, count),
    column!("SHED", 5, |s: &StageInterval| s.per_second(s.shed), count),
    column!("BUSY", 6, |s: &StageInterval| s.utilisation(), percent, 92),
    column!("STARTED", 7, |s: &StageInterval| s.per_second(s.started), count, 108),
    column!("RESTART", 7, |s: &StageInterval| s.per_second(s.resumed), count, 108),
    column!("DONE", 6, |s: &StageInterval| s.per_second(s.completed), count, 116),
    column!("Q.MAX", 5, |s: &StageInterval| s.queue_length_max as f64, count, 122),
    column!("C.MAX", 5, |s: &StageInterval| s.cohort_max as f64, count, 128),
];

/// The rows of an interval in wavefront order.
pub(super) fn rows(interval: &Interval, is_summed: bool) -> Vec<Row> {
    let total = interval.total();
    interval
        .stages
        .iter()
        .enumerate()
        .flat_map(|(order, name)| {
            let row = move |processor, figures: &StageInterval| Row {
                stage: name.to_string(),
                processor,
                order,
                figures: figures.clone(),
            };
            match is_summed {
                true => vec![row(None, &total.stages[order])],
                false => {
                    let all = interval.processors.iter().enumerate();
                    all.map(|(index, p)| row(Some(index), &p.stages[order])).collect()
                }
            }
        })
        .collect()
}

/// Sorts by a column; `None` is wavefront order.
pub(super) fn sort(rows: &mut [Row], column: Option<usize>, reversed: bool) {
    match column {
        None => rows.sort_by_key(|row| (row.order, row.processor)),
        Some(column) => {
            let key = |row: &Row| (COLUMNS[column].key)(&row.figures);
            rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
        }
    }
    if reversed {
        rows.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_in_eighty_columns() {
        let figures = COLUMNS.iter().filter(|column| column.from_width <= 80);
        let width: u16 = figures.map(|column| column.width + 1).sum();
        assert!(width + 11 + 3 <= 80, "{width}");
    }

    #[test]
    fn cells_are_not_wider_than_their_columns() {
        for ns in [0.0, 1.0, 999.4, 1e3, 999.4e3, 1e6, 999.4e6, 1e9, 999.4e9] {
            assert!(short(ns).chars().count() <= 5, "{}", short(ns));
        }
        assert_eq!([870.0, 1250.0, 13e6, 2e9].map(short), ["870n", "1.25µ", "13.0m", "2.00s"]);
    }
}
