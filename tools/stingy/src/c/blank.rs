//! Macros that hide the syntax around them from a grammar without a preprocessor. Spaces replace them, so that positions do
//! not change.

use std::collections::HashSet;

/// Prefix of macros for attributes, such as `__attribute_fallthrough__`, which may have arguments.
const ATTRIBUTE: &str = "__attribute_";

/// A function whose second argument is a type, which the grammar does not expect.
const VA_ARG: &str = "va_arg";

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The macros without parameters that are no expression and no type: their value is empty, part of a list of parameters,
/// statements, or an attribute.
pub(super) fn macros(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("define")?;
        let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
        let end = rest.bytes().position(|byte| !is_word(byte)).unwrap_or(rest.len());
        let (name, value) = rest.split_at(end);
        let value = value.split("/*").next().unwrap_or(value);
        let hides = value.trim().is_empty()
            || value.trim_start().starts_with(',')
            || value.trim_end().ends_with(';')
            || value.contains("__attribute__");
        (hides && !value.starts_with('(')).then_some(name)
    })
}

/// The text without these macros, macros for attributes and the types of `va_arg`, except in directives.
pub(super) fn blank_macros(text: &str, macros: &HashSet<String>) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut start = 0;
    let mut is_continued = false;
    for line in text.split_inclusive('\n') {
        let is_directive = is_continued || line.trim_start().starts_with('#');
        is_continued = is_directive && line.trim_end().ends_with('\\');
        if !is_directive {
            for (at, name) in words(line) {
                if name == VA_ARG {
                    let open = start + at + name.len();
                    let list = &text.as_bytes()[open..];
                    let list = &list[..parenthesized(list)];
                    let comma = list.iter().position(|&byte| byte == b',').unwrap_or(list.len());
                    let argument_bytes = bytes[open + comma..open + list.len()].iter_mut();
                    argument_bytes
                        .filter(|byte| !b")\n".contains(byte))
                        .for_each(|byte| *byte = b' ');
                    continue;
                }
                let is_attribute = name.starts_with(ATTRIBUTE) && name != "__attribute__";
                if !is_attribute && !macros.contains(name) {
                    continue;
                }
                let mut end = start + at + name.len();
                if is_attribute && text.as_bytes().get(end) == Some(&b'(') {
                    end += parenthesized(&text.as_bytes()[end..]);
                }
                let argument_bytes =
                    bytes[start + at..end].iter_mut().filter(|byte| **byte != b'\n');
                argument_bytes.for_each(|byte| *byte = b' ');
            }
        }
        start += line.len();
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// The words of a line with their positions.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = line.as_bytes();
        at += bytes[at..].iter().position(|&byte| is_word(byte))?;
        let start = at;
        at += bytes[at..].iter().position(|&byte| !is_word(byte)).unwrap_or(bytes.len() - at);
        Some((start, &line[start..at]))
    })
}

/// The length of the text to the parenthesis that closes the first.
fn parenthesized(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    for (i, byte) in text.iter().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => (),
        }
        if depth == 0 {
            return i + 1;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_macros_are_blank() {
        let text = "a __attribute_cold__ b __attribute_nonnull__((1, (2))) c __attribute__((x)) d va_arg(p, e *)";
        let found = blank_macros(text, &HashSet::new());
        let expected = ["a", "b", "c", "__attribute__((x))", "d", "va_arg(p", ")"];
        assert_eq!(found.split_whitespace().collect::<Vec<_>>(), expected);
        assert_eq!(found.len(), text.len());
    }

    #[test]
    fn macros_that_hide_syntax_are_blank() {
        let text = "#define PARAMETER ,int a\n#define STORE x = y;\n#define SIZE 4\n#define F(x) ;\n\
                    # define PURE /* none */\n#define LONG \\\n PURE\n\
                    PURE int f(int b PARAMETER) { STORE return SIZE; }\n";
        let found: HashSet<String> = macros(text).map(str::to_owned).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        let last = "     int f(int b          ) {       return SIZE; }";
        let blank_macros = blank_macros(text, &found);
        assert_eq!(blank_macros.lines().last(), Some(last));
        assert!(blank_macros.contains("LONG \\\n PURE"));
    }
}
