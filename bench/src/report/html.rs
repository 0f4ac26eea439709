//! `report.html`: the Markdown in a single file without scripts, printable, with light and dark style.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use pulldown_cmark::{Options, Parser, html};

/// Characters that must be escaped in a data URL within an attribute.
const ESCAPED: &AsciiSet =
    &CONTROLS.add(b' ').add(b'"').add(b'#').add(b'%').add(b'\'').add(b'<').add(b'>').add(b'`');

/// The page for `markdown`, which contains its plots, by the names that it has for them.
pub(super) fn page(markdown: &str, plots: &BTreeMap<String, String>) -> String {
    let mut page = include_str!("head.html").to_owned();
    html::push_html(&mut page, Parser::new_ext(markdown, Options::ENABLE_TABLES));
    for (name, svg) in plots {
        let address = utf8_percent_encode(svg, ESCAPED);
        // An image, so that no script in it runs.
        let (before, within) =
            (format!("=\"plots/{name}\""), format!("=\"data:image/svg+xml,{address}\""));
        page = page.replace(&before, &within);
    }
    page + "</html>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_contains_its_plots() {
        let plots = [("a.svg".to_owned(), "<svg id=\"a\"><text>50 % #1</text></svg>".to_owned())];
        let page = page("# A\n\n| a |\n|---|\n| 1 |\n\n<img src=\"plots/a.svg\">\n", &plots.into());
        assert!(page.contains("<img src=\"data:image/svg+xml,%3Csvg%20id=%22a%22%3E"), "{page}");
        assert!(page.contains("50%20%25%20%231") && !page.contains("plots/"), "{page}");
        assert!(page.contains("<h1>A</h1>") && page.contains("<td>1</td>"), "{page}");
    }
}
