//! Parses the parts of Markdown that the checks need: code spans, fenced blocks and links.

/// A run of text within one line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Run<'a> {
    /// Outside backticks.
    Prose(&'a str),
    /// Between backticks.
    Code(&'a str),
}

/// The runs of `text` outside fenced blocks, each with its line, counted from 1.
pub(crate) fn runs(text: &str) -> Vec<(usize, Run<'_>)> {
    let mut runs = Vec::new();
    let mut fence = None;
    for (i, line) in text.lines().enumerate() {
        let mark = ["```", "~~~"].into_iter().find(|mark| line.trim_start().starts_with(mark));
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(close)) if open == close => fence = None,
            (Some(_), _) => {}
            (None, None) => {
                let run = |(n, part)| if n % 2 == 0 { Run::Prose(part) } else { Run::Code(part) };
                runs.extend(line.split('`').enumerate().map(run).map(|run| (i + 1, run)));
            }
        }
    }
    runs
}

/// The anchors of the headings of `text`, as GitHub derives them: lower case, without punctuation, hyphens for spaces.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let mut in_fence = false;
    let mut found = Vec::new();
    for line in text.lines() {
        in_fence ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if in_fence || !line.starts_with('#') || !title.starts_with(' ') {
            continue;
        }
        let is_kept = |c: &char| c.is_alphanumeric() || matches!(c, '-' | '_' | ' ');
        let is_plain: String = title.trim().to_lowercase().chars().filter(is_kept).collect();
        found.push(is_plain.replace(' ', "-"));
    }
    found
}

/// The link targets in `prose`: `[text](here)`, `[label]: here`, `src="here"`, `href="here"`.
pub(crate) fn links(prose: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (open, close) in [("](", [')', ' ']), ("src=\"", ['"', '"']), ("href=\"", ['"', '"'])] {
        for (at, _) in prose.match_indices(open) {
            let rest = &prose[at + open.len()..];
            found.push(rest.split(close).next().unwrap_or(rest));
        }
    }
    if let Some((label, target)) = prose.split_once("]: ")
        && label.starts_with('[')
    {
        found.push(target.split_whitespace().next().unwrap_or_default());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_anchors() {
        let text = "# The `b` page\n```sh\n# no heading\n```\n## Monitoring: `$SYS`\n#tag\n### a-b";
        assert_eq!(anchors(text), ["the-b-page", "monitoring-sys", "a-b"]);
    }

    #[test]
    fn code_and_prose_are_separated() {
        let text = "a `b` c\n```rust\nd `e`\n```\nf";
        let expected = [
            (1, Run::Prose("a ")),
            (1, Run::Code("b")),
            (1, Run::Prose(" c")),
            (5, Run::Prose("f")),
        ];
        assert_eq!(runs(text), expected);
    }

    #[test]
    fn links_of_every_form_are_found() {
        let prose = "[a](b.md#c) and ![d](e.svg \"title\"), <img src=\"f.png\">";
        assert_eq!(links(prose), ["b.md#c", "e.svg", "f.png"]);
        assert_eq!(links("[g]: h.md"), ["h.md"]);
        assert_eq!(links("array[0]: none"), [""; 0]);
    }
}
