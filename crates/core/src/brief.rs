//! Names of types in messages.

use std::fmt;

/// The longest name that messages contain whole, in bytes.
const MAX_NAME: usize = 120;

/// A display name for messages, without its generic arguments if it is long. A location follows it, and the name of a
/// future that combines many others takes a thousand characters.
pub(crate) struct Brief(pub(crate) &'static str);

impl fmt::Display for Brief {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        if rest.len() <= MAX_NAME {
            return f.write_str(rest);
        }
        while let Some((before, list)) = rest.split_once('<') {
            write!(f, "{before}<…>")?;
            rest = &list[end_of(list)..];
        }
        f.write_str(rest)
    }
}

/// The index after the bracket that closes a list of generic arguments.
fn end_of(list: &str) -> usize {
    let (mut depth, mut before) = (1, ' ');
    for (at, letter) in list.char_indices() {
        match letter {
            '<' => depth += 1,
            // This is the arrow before a function's return type.
            '>' if before == '-' => (),
            '>' if depth == 1 => return at + 1,
            '>' => depth -= 1,
            _ => (),
        }
        before = letter;
    }
    list.len()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn long_names_have_no_generic_arguments() {
        assert_eq!(Brief("a::Map<b, c>").to_string(), "a::Map<b, c>");
        for (name, brief) in [
            ("a::Map<b::C<Long>, fn(u8) -> D<u8>>::run<E>", "a::Map<…>::run<…>"),
            ("<a::B<Long> as c::D>::run", "<…>::run"),
            ("a::Long<b::C", "a::Long<…>"),
        ] {
            let name = name.replace("Long", &"L".repeat(MAX_NAME)).leak();
            assert_eq!(Brief(name).to_string(), brief.replace("Long", &"L".repeat(MAX_NAME)));
        }
    }
}
