//! A report inside another page, between two markers.

use std::io;

/// The markers; everything between them is replaced.
const MARKERS: [&str; 2] = ["<!-- report: begin -->", "<!-- report: end -->"];

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
    let missing =
        || io::Error::other(format!("the page needs the lines {begin} and {end}, once each"));
    let (before, after) = parts.ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n\n{report}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_between_the_markers_is_replaced() {
        let [begin, end] = MARKERS;
        let page = format!("a\n{begin}\nold\n{end}\nb\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("a\n{begin}\n\nnew\n\n{end}\nb\n"));
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        for bad in ["", begin, &format!("{end}{begin}"), &format!("{page}{page}")] {
            assert!(replaced(bad, "new").is_err(), "{bad}");
        }
    }
}
