//! Patterns for KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a]` and `\` before a plain character.

/// Whether `text` matches `pattern`. Takes at most the product of their lengths in steps, since only the last
/// star is backtracked.
pub(crate) fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Position to backtrack to when the text after the last star does not match: the star takes one more byte.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p + 1, t));
            p += 1;
        } else if t == text.len() && p == pattern.len() {
            return true;
        } else if let Some(length) = text.get(t).and_then(|byte| one(&pattern[p..], *byte)) {
            p += length;
            t += 1;
        } else {
            match star {
                Some((after, from)) if from < text.len() => {
                    star = Some((after, from + 1));
                    (p, t) = (after, from + 1);
                }
                _ => return false,
            }
        }
    }
}

/// The length of the pattern's first element, if `byte` matches it.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref rest @ ..] => {
            let (negated, set) = match rest {
                [b'^', set @ ..] => (true, set),
                set => (false, set),
            };
            // An unclosed set extends to the end of the pattern.
            let end = set.iter().position(|b| *b == b']').unwrap_or(set.len());
            let length = (pattern.len() - set.len() + end + 1).min(pattern.len());
            (in_set(&set[..end], byte) != negated).then_some(length)
        }
        [b'\\', plain, ..] => (plain == byte).then_some(2),
        [plain, ..] => (plain == byte).then_some(1),
    }
}

fn in_set(mut set: &[u8], byte: u8) -> bool {
    loop {
        set = match *set {
            [] => return false,
            [a, b'-', z, ..] if (a.min(z)..=a.max(z)).contains(&byte) => return true,
            [_, b'-', _, ref rest @ ..] => rest,
            [plain, ..] if plain == byte => return true,
            [_, ref rest @ ..] => rest,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn patterns_match() {
        let all = |pattern: &str, texts: &[&str], fit: bool| {
            for text in texts {
                assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), fit, "{pattern} {text}");
            }
        };
        all("*", &["", "a", "abc"], true);
        all("user:*:name", &["user::name", "user:1:name", "user:1:name:name"], true);
        all("user:*:name", &["user:name", "user:1:names", ""], false);
        all("h?llo", &["hello", "h*llo"], true);
        all("h[ae]llo", &["hello", "hallo"], true);
        all("h[ae]llo", &["hillo", "hllo"], false);
        all("h[^e]llo", &["hallo"], true);
        all("h[^e]llo", &["hello"], false);
        all("[a-c][c-a]", &["ab", "cc"], true);
        all("\\*\\?", &["*?"], true);
        all("\\*", &["a"], false);
        all("[ab", &["a"], true);
    }

    proptest! {
        /// Compares with the plain definition, on patterns of stars and letters.
        #[test]
        fn stars_match_any_text(pattern in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            fn plain(pattern: &[u8], text: &[u8]) -> bool {
                match (pattern, text) {
                    ([], []) => true,
                    ([b'*', rest @ ..], _) =>
                        plain(rest, text) || text.split_first().is_some_and(|(_, t)| plain(pattern, t)),
                    ([p, rest @ ..], [t, text @ ..]) => (*p == b'?' || p == t) && plain(rest, text),
                    _ => false,
                }
            }
            let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
            prop_assert_eq!(fits(pattern, text), plain(pattern, text));
        }

        #[test]
        fn arbitrary_patterns_are_handled(pattern in proptest::collection::vec(any::<u8>(), 0..12), text in proptest::collection::vec(any::<u8>(), 0..12)) {
            fits(&pattern, &text);
        }
    }
}
