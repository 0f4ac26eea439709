//! Subjects: tokens separated by dots. In a filter, `*` is any token and a final `>` any further tokens.

/// Whether a message can be published to `subject`.
///
/// ```
/// use phalanx_nats::is_subject;
///
/// assert!(is_subject("orders.new"));
/// assert!(!is_subject("orders.*") && !is_subject("orders..new") && !is_subject("a b"));
/// ```
pub fn is_subject(subject: &str) -> bool {
    is_filter(subject) && subject.split('.').all(|token| token != "*" && token != ">")
}

/// Whether `filter` can be subscribed to.
pub fn is_filter(filter: &str) -> bool {
    let (rest, last) = filter.rsplit_once('.').unwrap_or(("", filter));
    let is_token = |token: &str| {
        !token.is_empty() && !token.bytes().any(|byte| byte.is_ascii_whitespace() || byte == 0)
    };
    is_token(last)
        && (rest.is_empty() && !filter.starts_with('.')
            || rest.split('.').all(|token| is_token(token) && token != ">"))
}

/// Whether `filter` matches `subject`.
///
/// ```
/// use phalanx_nats::matches;
///
/// assert!(matches("a.*.c", "a.b.c") && matches("a.>", "a.b.c"));
/// assert!(!matches("a.>", "a") && !matches("a.*", "a.b.c"));
/// ```
pub fn matches(filter: &str, subject: &str) -> bool {
    let mut tokens = subject.split('.');
    for part in filter.split('.') {
        match (part, tokens.next()) {
            (_, None) => return false,
            (">", _) => return true,
            ("*", _) => (),
            (part, Some(token)) if part == token => (),
            _ => return false,
        }
    }
    tokens.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_and_filters() {
        for subject in ["a", "a.b", "$JS.API", "a-1._b", "*a.b>"] {
            assert!(is_subject(subject) && is_filter(subject), "{subject}");
        }
        for filter in ["*", ">", "a.*", "*.b", "a.>"] {
            assert!(!is_subject(filter) && is_filter(filter), "{filter}");
        }
        for invalid in ["", ".", ".a", "a.", "a..b", "a b", "a\r", ">.a", "a.>.b", "\0"] {
            assert!(!is_filter(invalid), "{invalid:?}");
        }
    }
}
