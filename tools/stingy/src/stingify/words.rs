//! The identifiers of a C text, also those in macros and in code that no compiler option enables.

/// An identifier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Word<'t> {
    pub(super) text: &'t str,
    pub(super) start: usize,
    /// The macro whose definition contains it.
    pub(super) defines: Option<&'t str>,
}

/// Words before a name that is called. Behind other words a name with a parenthesis is declared.
const BEFORE_CALL: [&str; 5] = ["return", "else", "do", "case", "sizeof"];

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The identifiers of a text without comments, literals, names of members and included files, in order.
pub(super) fn words(text: &str) -> Vec<Word<'_>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut defines = None;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &text.as_bytes()[at..];
        match byte {
            b'\n' => {
                if !text[..at].trim_end_matches('\r').ends_with('\\') {
                    defines = None;
                }
                at += 1;
            }
            b'/' if rest.starts_with(b"//") => at += length(rest, b"\n"),
            b'/' if rest.starts_with(b"/*") => {
                at += (2 + length(&rest[2..], b"*/") + 2).min(rest.len())
            }
            b'"' | b'\'' => at += literal(rest),
            b'#' if defines.is_none() => {
                let line = at + length(rest, b"\n");
                let name = at + 1 + rest[1..].iter().take_while(|b| b" \t".contains(b)).count();
                if text[name..line].starts_with("include") {
                    at = line;
                } else if let Some(after) = text[name..line].strip_prefix("define") {
                    let macro_at = line - after.trim_start().len();
                    at = macro_at + word(&bytes[macro_at..]);
                    defines = Some(&text[macro_at..at]);
                } else {
                    at = name;
                }
            }
            _ if is_word(byte) => {
                let end = at + word(rest);
                if !byte.is_ascii_digit() && !is_member(&text[..at]) {
                    found.push(Word { text: &text[at..end], start: at, defines });
                }
                at = end;
            }
            _ => at += 1,
        }
    }
    found
}

/// Whether a word is the name of a function that is declared or defined here.
pub(super) fn is_declared(text: &str, word: Word<'_>) -> bool {
    let before = without_comment(&text[..word.start]);
    let has_type = before.ends_with('*') || {
        let last = before.bytes().rev().take_while(|byte| is_word(*byte)).count();
        let last = &before[before.len() - last..];
        !last.is_empty() && !BEFORE_CALL.contains(&last)
    };
    has_type && is_called(text, word)
}

/// A text without the spaces and comments at its end.
fn without_comment(text: &str) -> &str {
    let mut rest = text;
    loop {
        let trimmed = rest.trim_end();
        let line = trimmed.rfind('\n').map_or(0, |at| at + 1);
        let start = match trimmed.strip_suffix("*/") {
            Some(comment) => comment.rfind("/*"),
            None => trimmed[line..].find("//").map(|at| line + at),
        };
        match start {
            Some(start) => rest = &trimmed[..start],
            None => return trimmed,
        }
    }
}

/// Whether a parenthesis follows.
pub(super) fn is_called(text: &str, word: Word<'_>) -> bool {
    text[word.start + word.text.len()..].trim_start().starts_with('(')
}

/// The files that a text includes by `#include "…"`.
pub(super) fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?;
        rest.trim_start().strip_prefix('"')?.split('"').next()
    })
}

/// The length of the word at the beginning.
fn word(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_word(**byte)).count()
}

/// The length of the text before a pattern.
fn length(text: &[u8], pattern: &[u8]) -> usize {
    text.windows(pattern.len()).position(|window| window == pattern).unwrap_or(text.len())
}

/// The length of a literal. An apostrophe in other text ends with its line.
fn literal(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'\\' => at += 2,
            b'\n' => return at,
            _ if byte == text[0] => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

fn is_member(before: &str) -> bool {
    let before = before.trim_end();
    before.ends_with("->") || before.ends_with('.') && !before.ends_with("...")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_macros_that_they_are_in() {
        let text = "#include <free.h>\n#define F(p) \\\n  free(p)\nx->free('\\'', \"free\"); /* free */ free(y); // free\n\
                    # define G free\nvoid free(int);\nelse free(9free);\n";
        let free: Vec<_> = words(text).into_iter().filter(|word| word.text == "free").collect();
        let defines: Vec<_> = free.iter().map(|word| word.defines).collect();
        assert_eq!(defines, [Some("F"), None, Some("G"), None, None]);
        let declared: Vec<_> = free.iter().map(|word| is_declared(text, *word)).collect();
        assert_eq!(declared, [false, false, false, true, false]);
        for (before, is_type) in [
            ("int ", true),
            ("// réglé\n", false),
            ("int /* that */ // é\n", true),
            ("x; /* the */", false),
        ] {
            let text = format!("{before}free(p);");
            let word = *words(&text).iter().rfind(|word| word.text == "free").expect("the call");
            assert_eq!(is_declared(&text, word), is_type, "{text}");
        }
        assert_eq!(includes("# include \"a.h\"\n#include <b.h>").collect::<Vec<_>>(), ["a.h"]);
    }
}
