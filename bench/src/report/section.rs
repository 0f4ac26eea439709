//! A report inside another page, between two markers.

use std::io;

/// The lines of the markers; everything between them is replaced.
const MARKERS: [&str; 2] = ["\n<!-- report: begin -->\n", "\n<!-- report: end -->\n"];

/// `page` with `report` between its markers.
///
/// # Errors
/// When the page does not have each marker once, in order.
pub(super) fn replaced(page: &str, report: &str) -> io::Result<String> {
    let [begin, end] = MARKERS;
    let parts = page.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        let once = !MARKERS.iter().any(|marker| before.contains(marker) || after.contains(marker));
        once.then_some((before, after))
    });
    let missing = || {
        io::Error::other(format!(
            "the page needs the lines {} and {}, once each",
            begin.trim(),
            end.trim()
        ))
    };
    let (before, after) = parts.ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{report}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_between_the_markers_is_replaced() {
        let [begin, end] = MARKERS;
        let page = format!("a `{}`{begin}old{end}b\n", begin.trim());
        let new = replaced(&page, "new\n").unwrap();
        let lines = [
            "a `<!-- report: begin -->`",
            "<!-- report: begin -->",
            "",
            "new",
            "",
            "<!-- report: end -->",
            "b",
        ];
        assert_eq!(new.lines().collect::<Vec<_>>(), lines);
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        for bad in ["", begin, &format!("{end}{begin}"), &format!("{page}{page}")] {
            assert!(replaced(bad, "new").is_err(), "{bad}");
        }
    }
}
