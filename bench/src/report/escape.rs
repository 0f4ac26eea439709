//! Escapes text for HTML and SVG.

/// Escapes `text`.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

/// Escapes sentences and renders text between backquotes as code.
pub(super) fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let part = |(n, part)| match n % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    };
    parts.map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn backquotes_become_code() {
        assert_eq!(prose("a `b < c` & d"), "a <code>b &lt; c</code> &amp; d");
    }
}
