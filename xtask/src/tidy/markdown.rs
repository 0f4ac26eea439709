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
