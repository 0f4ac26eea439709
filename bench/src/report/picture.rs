//! A drawing that an experiment brought along, on the page as an image: nothing in an image runs.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::escape::escaped;

/// What does not stand for itself in an address within an attribute.
const ESCAPED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'\'').add(b'<').add(b'>').add(b'`');

/// An SVG inside of the page.
pub(super) fn html(svg: &str, title: &str) -> String {
    let address = utf8_percent_encode(svg, ESCAPED);
    format!("<img src=\"data:image/svg+xml,{address}\" alt=\"{}\">", escaped(title))
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn nothing_gets_out_of_the_attribute() {
        let html = html("<svg id=\"a\"><text>50 % #1</text></svg>", "a \"b\"");
        assert!(html.starts_with("<img src=\"data:image/svg+xml,%3Csvg%20id=%22a%22%3E"), "{html}");
        assert!(html.contains("50%20%25%20%231"), "{html}");
        assert_eq!(html.matches('<').count(), 1);
        assert_eq!(html.matches('"').count(), 4, "{html}");
    }
}
