//! Blanks the parts of Rust source that a check must ignore: comments, strings, tests.
//!
//! Lines and columns are preserved. This is a lexer only; macros are not expanded.

/// The identifiers and numbers in `line`, each with its byte offset.
pub(crate) fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let mut rest = 0;
    std::iter::from_fn(move || {
        let begin = rest + line[rest..].find(part)?;
        let len = line[begin..].find(|c| !part(c)).unwrap_or(line.len() - begin);
        rest = begin + len;
        Some((begin, &line[begin..rest]))
    })
}

/// Whether `line` contains `word`, and not as part of a longer identifier.
pub(crate) fn has_word(line: &str, word: &str) -> bool {
    words(line).any(|(_, found)| found == word)
}

/// The line, counted from 1, of the byte `at` of `text`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// `source` with comments and the contents of string and character literals blanked.
pub(crate) fn code(source: &str) -> String {
    let chars: Vec<char> = source.chars().collect();
    let mut out: Vec<char> = Vec::with_capacity(chars.len());
    while out.len() < chars.len() {
        let at = out.len();
        let end =
            comment(&chars, at).or_else(|| string(&chars, at)).or_else(|| character(&chars, at));
        let Some(end) = end.map(|end| end.min(chars.len())) else {
            out.push(chars[at]);
            continue;
        };
        for (i, &c) in chars.iter().enumerate().take(end).skip(at) {
            // Keep the quotes, so that `extern "C"` differs from `extern crate`.
            let is_kept = c == '\n' || (c == '"' && (i == at || i + 1 == end));
            out.push(if is_kept { c } else { ' ' });
        }
    }
    out.into_iter().collect()
}

/// The end of the comment that begins at `at`, if one does.
fn comment(chars: &[char], at: usize) -> Option<usize> {
    match chars[at..] {
        ['/', '/', ..] => {
            let len = chars[at..].iter().position(|&c| c == '\n');
            Some(len.map_or(chars.len(), |len| at + len))
        }
        ['/', '*', ..] => {
            let (mut depth, mut i) = (0, at);
            while i < chars.len() {
                match chars[i..] {
                    ['/', '*', ..] => (depth, i) = (depth + 1, i + 2),
                    ['*', '/', ..] => (depth, i) = (depth - 1, i + 2),
                    _ => i += 1,
                }
                if depth == 0 {
                    break;
                }
            }
            Some(i)
        }
        _ => None,
    }
}

/// The end of the string literal, raw or not, that begins at `at`, if one does.
fn string(chars: &[char], at: usize) -> Option<usize> {
    if chars[at] == 'r' && raw_prefix(chars, at) {
        let hashes = chars[at + 1..].iter().take_while(|&&c| c == '#').count();
        let open = at + 1 + hashes;
        if chars.get(open) != Some(&'"') {
            return None; // a raw identifier
        }
        let closes = |i: &usize| {
            chars[*i] == '"' && chars[i + 1..].iter().take_while(|&&c| c == '#').count() >= hashes
        };
        let close = (open + 1..chars.len()).find(closes);
        return Some(close.map_or(chars.len(), |close| close + 1 + hashes));
    }
    if chars[at] != '"' {
        return None;
    }
    let mut i = at + 1;
    while i < chars.len() && chars[i] != '"' {
        i += if chars[i] == '\\' { 2 } else { 1 };
    }
    Some(i + 1)
}

/// Whether the `r` at `at` begins a word, or follows the `b` or `c` of a byte or C string prefix.
fn raw_prefix(chars: &[char], at: usize) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let before = |i: usize| i.checked_sub(1).map(|i| chars[i]).filter(|&c| part(c));
    match before(at) {
        None => true,
        Some('b' | 'c') => before(at - 1).is_none(),
        Some(_) => false,
    }
}

/// The end of the character literal that begins at `at`; `None` for a lifetime.
fn character(chars: &[char], at: usize) -> Option<usize> {
    match chars[at..] {
        ['\'', '\\', _, ..] => {
            let close = chars[at + 3..].iter().position(|&c| c == '\'');
            Some(close.map_or(chars.len(), |len| at + 3 + len + 1))
        }
        ['\'', inner, '\'', ..] if inner != '\'' => Some(at + 3),
        _ => None,
    }
}

/// Blanks every item of `code` (see [`code`]) that is compiled for tests only.
///
/// Also returns the names of such modules whose bodies are in other files: `#[cfg(test)] mod model;`.
pub(crate) fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut bytes = code.as_bytes().to_vec();
    let mut modules = Vec::new();
    for (at, attribute) in code.match_indices("#[cfg(").chain(code.match_indices("#![cfg(")) {
        let open = at + attribute.len() - 1;
        let close = closing(code, open);
        if !for_tests(&code[open..close]) {
            continue;
        }
        let item = code[close..].find(']').map_or(code.len(), |len| close + len + 1);
        let whole_file = attribute.starts_with("#!");
        let end = if whole_file { code.len() } else { item_end(code, item) };
        let text = &code[item..end];
        if let (Some(semicolon), false) = (text.strip_suffix(';'), text.contains('{'))
            && let Some((_, name)) = words(semicolon).skip_while(|(_, word)| *word != "mod").nth(1)
        {
            modules.push(name.to_owned());
        }
        bytes[at..end].iter_mut().filter(|b| **b != b'\n').for_each(|b| *b = b' ');
    }
    (String::from_utf8(bytes).expect("only whole characters are blanked"), modules)
}

/// Whether the condition of a `cfg` attribute, with its brackets, requires `test` outside a `not`.
fn for_tests(condition: &str) -> bool {
    let mut condition = condition.to_owned();
    while let Some(at) = condition.find("not(") {
        let close = closing(&condition, at + 3).min(condition.len() - 1);
        condition.replace_range(at..=close, "");
    }
    has_word(&condition, "test")
}

/// The offset of the bracket that closes the one at `open`, or the end of `text`.
fn closing(text: &str, open: usize) -> usize {
    let mut depth = 0;
    for (i, b) in text.bytes().enumerate().skip(open) {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
        if depth <= 0 {
            return i;
        }
    }
    text.len()
}

/// The end of the item that begins at `at`: after its `;` or `}`, or the end of the enclosing item.
fn item_end(code: &str, at: usize) -> usize {
    let mut depth = 0;
    for (i, b) in code.bytes().enumerate().skip(at) {
        match b {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth -= 1,
            b';' if depth == 0 => return i + 1,
            _ => {}
        }
        if depth < 0 {
            return i;
        }
        if depth == 0 && b == b'}' {
            return i + 1;
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_blanked_in_place() {
        let source = "a /* b /* c */ d */ e // f\n\"g\\\"h\" 'i' '\\'' x::<'j> br#\"k\"l\"# m";
        let seen = code(source);
        assert_eq!(seen.len(), source.len());
        let left: String = seen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(left, "a e \" \" x::<'j> b m");
    }

    #[test]
    fn stray_quotes_do_not_blank_the_file() {
        assert!(code("fn r<'a>(r: &'a str) -> r#type { b'\"'; unsafe {} }").contains("unsafe"));
        assert!(code("let c = ['\\u{1F}', '\\\\', '\"']; unsafe {}").contains("unsafe"));
        assert_eq!(code("\"open\nunsafe").lines().nth(1), Some("      "));
    }

    #[test]
    fn words_are_whole() {
        assert!(has_word("unsafe fn", "unsafe") && !has_word("unsafe_op_in_unsafe_fn", "unsafe"));
    }

    #[test]
    fn only_tests_are_blanked() {
        let source = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() {} }\nfn c() {}\n\
                      #[cfg(all(loom, test))]\nmod model;\n#[cfg(not(test))]\nfn d() {}\n\
                      struct S { #[cfg(test)] e: u8 }\nfn f() {}";
        let (left, modules) = without_tests(source);
        let fns: Vec<_> =
            ["a", "b", "c", "d", "e", "f"].into_iter().filter(|f| has_word(&left, f)).collect();
        assert_eq!(fns, ["a", "c", "d", "f"]);
        assert_eq!(modules, ["model"]);
    }

    #[test]
    fn a_file_may_be_all_tests() {
        assert_eq!(without_tests("#![cfg(test)]\nuse std::fs;").0.trim(), "");
    }
}
