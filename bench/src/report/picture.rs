//! An experiment's own SVG, embedded as an image so that no script in it runs.

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use super::escape::escaped;

/// Characters that must be escaped in a data URL within an attribute.
const ESCAPED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'\'').add(b'<').add(b'>').add(b'`');

/// An embedded SVG.
pub(super) fn html(svg: &str, title: &str) -> String {
    let address = utf8_percent_encode(svg, ESCAPED);
    format!("<img src=\"data:image/svg+xml,{address}\" alt=\"{}\">", escaped(title))
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn markup_is_escaped_in_the_attribute() {
        let html = html("<svg id=\"a\"><text>50 % #1</text></svg>", "a \"b\"");
        assert!(html.starts_with("<img src=\"data:image/svg+xml,%3Csvg%20id=%22a%22%3E"), "{html}");
        assert!(html.contains("50%20%25%20%231"), "{html}");
        assert_eq!(html.matches('<').count(), 1);
        assert_eq!(html.matches('"').count(), 4, "{html}");
    }
}
