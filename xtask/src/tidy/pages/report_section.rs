//! The section of a report in a page, which `phalanx-bench report --page` replaces.

use crate::tidy::{Fault, Tree};

/// The page with the section.
const PAGE: &str = "docs/bench/report.md";
/// The lines around the section.
const MARKERS: [&str; 2] = ["<!-- report: begin -->", "<!-- report: end -->"];

/// Finds markers that are missing, repeated or out of order, and an empty section.
pub(crate) fn check(tree: &Tree) -> Vec<Fault> {
    let Some(page) = tree.text(PAGE) else { return Vec::new() };
    let lines = |marker: &str| {
        let lines = page.lines().enumerate().filter(|(_, line)| *line == marker);
        lines.map(|(number, _)| number).collect::<Vec<_>>()
    };
    let message = match [lines(MARKERS[0]), lines(MARKERS[1])].as_slice() {
        [begin, end] if begin.len() != 1 || end.len() != 1 || begin > end => {
            format!("the page needs the lines {} and {}, once each", MARKERS[0], MARKERS[1])
        }
        [begin, end] if page.lines().take(end[0]).skip(begin[0] + 1).all(str::is_empty) => {
            format!("the report is missing; run `phalanx-bench report --page {PAGE}`")
        }
        _ => return Vec::new(),
    };
    vec![Fault::new(PAGE, 1, message)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_stand_once_around_a_report() {
        let faults = |page: &str| check(&Tree::from_files(&[(PAGE, page)])).len();
        let [begin, end] = MARKERS;
        assert_eq!(faults(&format!("a\n{begin}\n\nfigures\n\n{end}\nb\n")), 0);
        assert_eq!(faults(&format!("{begin}\n\n{end}\n")), 1, "empty");
        assert_eq!(faults(&format!("{end}\nfigures\n{begin}\n")), 1, "out of order");
        assert_eq!(faults(&format!("{begin}\na\n{begin}\n{end}\n")), 1, "repeated");
        assert_eq!(faults(""), 1, "missing");
    }
}
