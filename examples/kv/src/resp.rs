//! Parses requests of the Redis protocol (RESP2): arrays of bulk strings, and inline commands for interactive
//! use.
//!
//! This module performs no I/O: [`parse`] returns the first request in the received bytes, or that it is
//! incomplete or malformed. Every announced length is checked against a bound before memory is allocated for it.
//! Words are not copied, except those of an inline command.

use std::borrow::Cow;

use smallvec::SmallVec;

/// A word of a request.
pub(crate) type Word<'a> = Cow<'a, [u8]>;
/// The words of a request: the command's name and its arguments. The most frequent commands need no memory for them.
pub(crate) type Request<'a> = SmallVec<[Word<'a>; 4]>;

/// Maximum size of an argument in bytes.
pub(crate) const MAX_BULK: usize = 16 * 1024 * 1024;
/// Maximum number of words in a request.
const MAX_WORDS: usize = 64 * 1024;
/// Maximum size of a request in bytes, which bounds the memory per client.
const MAX_REQUEST: usize = 32 * 1024 * 1024;
/// Maximum size of an inline command in bytes.
const MAX_INLINE: usize = 64 * 1024;
/// Maximum length of a line that announces a length: a sign and 19 digits.
const MAX_NUMBER: usize = 20;

/// A protocol error. The connection must close, since the position of the next request is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) String);

impl Malformed {
    fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }
}

/// The first request in `input` and its size in bytes, or `None` while it is incomplete. A blank line is a
/// request without words.
///
/// # Errors
/// [`Malformed`], as soon as the error is certain.
pub(crate) fn parse(input: &[u8]) -> Result<Option<(Request<'_>, usize)>, Malformed> {
    match input.first() {
        None => Ok(None),
        Some(b'*') => array(input).map(Result::ok),
        Some(_) => inline(input),
    }
}

/// A number of bytes without which the first request in `input`, which is incomplete, stays incomplete. So a request with
/// many words and a long one is not parsed again for each of its parts.
pub(crate) fn missing(input: &[u8]) -> usize {
    match array(input) {
        Ok(Err(Missing(bytes))) if input.first() == Some(&b'*') => bytes,
        _ => 1,
    }
}

/// The number of bytes that an incomplete request lacks at least.
struct Missing(usize);

fn array(input: &[u8]) -> Result<Result<(Request<'_>, usize), Missing>, Malformed> {
    let Some((count, mut at)) = number(input, 1, "invalid multibulk length")? else {
        return Ok(Err(Missing(1)));
    };
    if count > MAX_WORDS as i64 {
        return Err(Malformed::new("invalid multibulk length"));
    }
    // Grows with the received words, not with the announced number.
    let mut words = Request::new();
    for _ in 0..count.max(0) {
        match input.get(at) {
            None => return Ok(Err(Missing(1))),
            Some(b'$') => (),
            Some(other) => {
                let found = other.escape_ascii();
                return Err(Malformed::new(format!("expected '$', got '{found}'")));
            }
        }
        let Some((length, start)) = number(input, at + 1, "invalid bulk length")? else {
            return Ok(Err(Missing(1)));
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= MAX_BULK);
        let length = length.ok_or_else(|| Malformed::new("invalid bulk length"))?;
        let end = start + length;
        if end > MAX_REQUEST {
            return Err(Malformed::new("too big request"));
        }
        match input.get(end..end + 2) {
            None => return Ok(Err(Missing(end + 2 - input.len()))),
            Some(b"\r\n") => words.push(Cow::Borrowed(&input[start..end])),
            Some(_) => return Err(Malformed::new("expected CRLF after a bulk string")),
        }
        at = end + 2;
    }
    Ok(Ok((words, at)))
}

/// The number in the line that begins at `at`, and the position of the next line.
fn number(input: &[u8], at: usize, wrong: &str) -> Result<Option<(i64, usize)>, Malformed> {
    let rest = input.get(at..).unwrap_or_default();
    let digits = match rest.iter().take(MAX_NUMBER + 1).position(|byte| *byte == b'\r') {
        Some(digits) => digits,
        None if rest.len() > MAX_NUMBER => return Err(Malformed::new(wrong)),
        None => return Ok(None),
    };
    match rest.get(digits + 1) {
        None => return Ok(None),
        Some(b'\n') => (),
        Some(_) => return Err(Malformed::new(wrong)),
    }
    let number = integer(&rest[..digits]).ok_or_else(|| Malformed::new(wrong))?;
    Ok(Some((number, at + digits + 2)))
}

/// A decimal number with an optional sign, as `str::parse` takes it.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let (digits, sign) = match text {
        [b'-', digits @ ..] => (digits, -1),
        [b'+', digits @ ..] | digits => (digits, 1),
    };
    let add = |number: i64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| i64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(sign * digit)
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// Words in a line as typed by a user: `SET greeting "hello there"`.
fn inline(input: &[u8]) -> Result<Option<(Request<'_>, usize)>, Malformed> {
    let Some(end) = input.iter().take(MAX_INLINE).position(|byte| *byte == b'\n') else {
        return match input.len() < MAX_INLINE {
            true => Ok(None),
            false => Err(Malformed::new("too big inline request")),
        };
    };
    Ok(Some((words(&input[..end])?, end + 1)))
}

fn words(line: &[u8]) -> Result<Request<'_>, Malformed> {
    let unbalanced = || Malformed::new("unbalanced quotes in request");
    let mut words = Request::new();
    let mut rest = line.trim_ascii();
    while let Some(&first) = rest.first() {
        let mut word = Vec::new();
        if let b'"' | b'\'' = first {
            rest = &rest[1..];
            loop {
                match *rest {
                    [] => return Err(unbalanced()),
                    [quote, ref after @ ..] if quote == first => {
                        rest = after;
                        break;
                    }
                    [b'\\', escaped, ref after @ ..] if first == b'"' || escaped == b'\'' => {
                        word.push(match escaped {
                            b'n' if first == b'"' => b'\n',
                            b'r' if first == b'"' => b'\r',
                            b't' if first == b'"' => b'\t',
                            other => other,
                        });
                        rest = after;
                    }
                    [plain, ref after @ ..] => {
                        word.push(plain);
                        rest = after;
                    }
                }
            }
            // `"a"b` is an error, not two words.
            if rest.first().is_some_and(|next| !next.is_ascii_whitespace()) {
                return Err(unbalanced());
            }
        } else {
            let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
            word.extend_from_slice(&rest[..end]);
            rest = &rest[end..];
        }
        words.push(Cow::Owned(word));
        rest = rest.trim_ascii_start();
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use redis_protocol::resp2::encode::encode;
    use redis_protocol::resp2::types::{OwnedFrame, Resp2Frame};

    /// The request as encoded by another implementation.
    fn encoded(words: &[Vec<u8>]) -> Vec<u8> {
        let bulks = words.iter().cloned().map(OwnedFrame::BulkString).collect();
        let frame = OwnedFrame::Array(bulks);
        let mut bytes = vec![0; frame.encode_len(false)];
        let length = encode(&mut bytes, &frame, false).expect("room enough");
        bytes.truncate(length);
        bytes
    }

    fn request() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let word = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'$')], 0..8),
        ];
        proptest::collection::vec(word, 1..6)
    }

    proptest! {
        #[test]
        fn integers_are_those_of_the_standard_library(
            text in "[-+]?[0-9]{0,20}|[-+0-9a ]{0,4}|[-+]?922337203685477580[0-9]",
        ) {
            prop_assert_eq!(integer(text.as_bytes()), text.parse().ok());
        }

        /// Requests of another encoder are parsed, whatever bytes follow, and no prefix is taken for a complete
        /// request.
        #[test]
        fn requests_are_parsed_when_complete(words in request(), behind in proptest::collection::vec(any::<u8>(), 0..9)) {
            let bytes = encoded(&words);
            for part in 0..bytes.len() {
                prop_assert_eq!(parse(&bytes[..part]), Ok(None));
                prop_assert!((1..=bytes.len() - part).contains(&missing(&bytes[..part])));
            }
            let length = bytes.len();
            let bytes = [bytes, behind].concat();
            let words: Request<'_> = words.into_iter().map(Cow::Owned).collect();
            prop_assert_eq!(parse(&bytes), Ok(Some((words, length))));
        }

        /// Arbitrary input causes no panic. A parsed request has a size within the input, and malformed input
        /// remains malformed when more bytes arrive.
        #[test]
        fn arbitrary_input_is_handled(bytes in proptest::collection::vec(
            prop_oneof![Just(b'*'), Just(b'$'), Just(b'1'), Just(b'-'), Just(b'\r'), Just(b'\n'),
                        Just(b'"'), any::<u8>()], 0..80)) {
            let mut wrong = None;
            for part in 0..=bytes.len() {
                match parse(&bytes[..part]) {
                    Ok(Some((_, length))) => {
                        prop_assert!(wrong.is_none() && (1..=part).contains(&length));
                        break;
                    }
                    Ok(None) => prop_assert!(wrong.is_none()),
                    Err(error) => { wrong.get_or_insert(error); }
                }
            }
        }
    }

    fn read(line: &str) -> Result<Request<'_>, Malformed> {
        parse(line.as_bytes()).map(|found| found.expect("a line").0)
    }

    fn words<'a>(words: &[&'a str]) -> Result<Request<'a>, Malformed> {
        Ok(words.iter().map(|word| Cow::Borrowed(word.as_bytes())).collect())
    }

    #[test]
    fn inline_commands_are_words_with_quotes() {
        assert_eq!(read("  SET a  b\r\n"), words(&["SET", "a", "b"]));
        assert_eq!(
            read("SET a \"b\\\"\\n c\" 'd\\' e'\n"),
            words(&["SET", "a", "b\"\n c", "d' e"])
        );
        assert_eq!(read("\r\n"), words(&[]));
        for unbalanced in ["SET \"a\n", "SET 'a\n", "SET \"a\"b\n", "SET \"a\\\n"] {
            assert_eq!(read(unbalanced), Err(Malformed::new("unbalanced quotes in request")));
        }
    }

    #[test]
    fn an_announced_word_is_waited_for() {
        assert_eq!(missing(b"*2\r\n$1\r\na\r\n$1000\r\nabc"), 999);
        assert_eq!(missing(b"*2\r\n$1\r\na\r\n$10"), 1);
        assert_eq!(missing(b"GET"), 1);
    }

    #[test]
    fn announced_lengths_are_bounded() {
        let wrong = |bytes: &[u8]| parse(bytes).expect_err("too much").0;
        assert_eq!(wrong(b"*65537\r\n"), "invalid multibulk length");
        assert_eq!(wrong(b"*1\r\n$16777217\r\n"), "invalid bulk length");
        assert_eq!(wrong(b"*1\r\n$-1\r\n"), "invalid bulk length");
        assert_eq!(wrong(b"*1\r\n:3\r\n"), "expected '$', got ':'");
        assert_eq!(wrong(b"*1\r\n$1\r\nabc"), "expected CRLF after a bulk string");
        assert_eq!(wrong(b"*000000000000000000001"), "invalid multibulk length");
        assert_eq!(wrong(&vec![b'a'; MAX_INLINE]), "too big inline request");
        let mut long = format!("*3\r\n$16777216\r\n{}\r\n", "a".repeat(MAX_BULK)).into_bytes();
        long.extend_from_slice(b"$16777216\r\n");
        assert_eq!(wrong(&long), "too big request");
        assert_eq!(parse(b"*0\r\n"), Ok(Some((Request::new(), 4))));
        assert_eq!(parse(b"*-1\r\n"), Ok(Some((Request::new(), 5))));
    }
}
