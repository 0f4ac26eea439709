//! Entity tags and lists of them (RFC 9110, 8.8.3 and 13.1.1).

/// An entity tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag<'a> {
    pub(crate) weak: bool,
    /// With its quotes.
    pub(crate) opaque: &'a [u8],
}

impl<'a> Tag<'a> {
    /// Parses a tag at the start, and returns the rest.
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Tag<'a>, &'a [u8])> {
        let (weak, rest) = match bytes.strip_prefix(b"W/") {
            Some(rest) => (true, rest),
            None => (false, bytes),
        };
        let inner = rest.strip_prefix(b"\"")?;
        let end = inner.iter().position(|&byte| byte == b'"' || !is_etagc(byte))?;
        if inner[end] != b'"' {
            return None;
        }
        let (opaque, rest) = rest.split_at(end + 2);
        Some((Tag { weak, opaque }, rest))
    }

    /// Parses a single tag.
    pub(crate) fn whole(bytes: &'a [u8]) -> Option<Tag<'a>> {
        Tag::split(bytes).and_then(|(tag, rest)| rest.is_empty().then_some(tag))
    }

    /// Strong comparison (8.8.3.2): identical, and neither is weak.
    pub(crate) fn matches_strongly(self, other: Tag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison (8.8.3.2): identical, weak or not.
    pub(crate) fn matches_weakly(self, other: Tag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// Visible bytes except the quote, and all bytes beyond ASCII.
fn is_etagc(byte: u8) -> bool {
    byte > b' ' && byte != 0x7f && byte != b'"'
}

/// The tags of one field line, up to the first invalid one.
pub(crate) fn tags(line: &[u8]) -> impl Iterator<Item = Tag<'_>> {
    let mut rest = line;
    std::iter::from_fn(move || {
        // Tags may contain commas, so the list cannot be split at them.
        while let [b' ' | b'\t' | b',', after @ ..] = rest {
            rest = after;
        }
        let (tag, after) = Tag::split(rest)?;
        let closed = matches!(crate::syntax::bytes::trim(after).first(), None | Some(b','));
        rest = after;
        closed.then_some(tag)
    })
    .fuse()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(line: &str) -> Vec<(bool, &[u8])> {
        tags(line.as_bytes()).map(|tag| (tag.weak, tag.opaque)).collect()
    }

    #[test]
    fn lists() {
        assert_eq!(found(r#""a""#), [(false, &br#""a""#[..])]);
        assert_eq!(found(r#"W/"a", "b,c" ,,"""#).len(), 3);
        assert_eq!(found(r#""a" "b""#), []);
        assert_eq!(found("a"), []);
        assert_eq!(found(r#"w/"a""#), [], "W has a case (8.8.3)");
        assert_eq!(found(r#""a"#), []);
        assert_eq!(found(r#""a b""#), [], "no space in a tag");
        assert_eq!(found(r#""a", b, "c""#).len(), 1);
    }

    proptest! {
        #[test]
        fn a_list_reads_back(
            expected in prop::collection::vec((any::<bool>(), "[!#-~\u{80}-\u{ff}]{0,9}"), 0..6),
            gaps in prop::collection::vec("[ \t]{0,2},[ ,]{0,2}", 6),
        ) {
            let mut line = String::new();
            for ((weak, opaque), gap) in expected.iter().zip(&gaps) {
                line += &format!("{}\"{opaque}\"{gap}", if *weak { "W/" } else { "" });
            }
            let found: Vec<_> = tags(line.as_bytes())
                .map(|tag| (tag.weak, tag.opaque.to_vec()))
                .collect();
            let expected: Vec<_> =
                expected.iter().map(|(weak, text)| (*weak, format!("\"{text}\"").into_bytes())).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
