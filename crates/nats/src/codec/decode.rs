//! Finds and decodes the next frame.

use crate::codec::{Bounds, DecodeError, Frame};

const CRLF: &[u8] = b"\r\n";

impl<'a> Frame<'a> {
    /// Decodes the frame at the start of `input`. Returns the frame and its length; `None` if it is incomplete.
    ///
    /// ```
    /// use phalanx_nats::{Bounds, Frame};
    ///
    /// let bounds = Bounds::of_payload(1 << 20);
    /// let (frame, length) = Frame::decode(b"MSG a.b 7 2\r\nhi\r\nPI", bounds)?.unwrap();
    /// let expected =
    ///     Frame::Message { subject: "a.b", id: 7, reply: None, headers: None, payload: b"hi" };
    /// assert_eq!((frame, length), (expected, 17));
    /// assert_eq!(Frame::decode(b"PI", bounds)?, None);
    /// # Ok::<(), phalanx_nats::DecodeError>(())
    /// ```
    ///
    /// # Errors
    /// [`DecodeError`]. The connection cannot be continued.
    pub fn decode(input: &'a [u8], bounds: Bounds) -> Result<Option<(Self, usize)>, DecodeError> {
        let searched = &input[..input.len().min(bounds.line)];
        let Some(end) = searched.windows(2).position(|pair| pair == CRLF) else {
            return match input.len() < bounds.line {
                true => Ok(None),
                false => Err(DecodeError::Line(bounds.line)),
            };
        };
        let line = std::str::from_utf8(&input[..end]);
        let line = line.map_err(|_| DecodeError::Malformed("line: not UTF-8"))?;
        let (verb, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
        let rest = rest.trim_matches([' ', '\t']);
        let is = |name: &str| verb.eq_ignore_ascii_case(name);
        let after = end + CRLF.len();
        let complete = |frame| Ok(Some((frame, after)));
        let malformed = DecodeError::Malformed;
        if is("MSG") || is("HMSG") {
            let error = malformed("MSG");
            let (sizes, args) =
                parse_sizes(rest, is("HMSG"), bounds).map_err(|cause| cause.unwrap_or(error))?;
            let (subject, id, reply) = match args[..] {
                [subject, id] => (subject, id, None),
                [subject, id, reply] => (subject, id, Some(reply)),
                _ => return Err(error),
            };
            let id = number(id).ok_or(error)?;
            return sizes.split(input, after, error, |headers, payload| Self::Message {
                subject,
                id,
                reply,
                headers,
                payload,
            });
        }
        if is("PUB") || is("HPUB") {
            let error = malformed("PUB");
            let (sizes, args) =
                parse_sizes(rest, is("HPUB"), bounds).map_err(|cause| cause.unwrap_or(error))?;
            let (subject, reply) = match args[..] {
                [subject] => (subject, None),
                [subject, reply] => (subject, Some(reply)),
                _ => return Err(error),
            };
            return sizes.split(input, after, error, |headers, payload| Self::Publish {
                subject,
                reply,
                headers,
                payload,
            });
        }
        let mut args = words(rest);
        match verb.to_ascii_uppercase().as_str() {
            "PING" => complete(Self::Ping),
            "PONG" => complete(Self::Pong),
            "+OK" => complete(Self::Ok),
            "-ERR" => complete(Self::Error(rest.trim_matches('\''))),
            "INFO" => complete(Self::Info(rest)),
            "CONNECT" => complete(Self::Connect(rest)),
            "SUB" => {
                let error = malformed("SUB");
                let (queue, id) = match (args.next(), args.next(), args.next(), args.next()) {
                    (Some(_), Some(id), None, _) => (None, id),
                    (Some(_), Some(queue), Some(id), None) => (Some(queue), id),
                    _ => return Err(error),
                };
                let subject = words(rest).next().unwrap_or_default();
                complete(Self::Subscribe { subject, queue, id: number(id).ok_or(error)? })
            }
            "UNSUB" => {
                let error = malformed("UNSUB");
                let id = args.next().and_then(number).ok_or(error)?;
                let max = args.next().map(|text| number(text).ok_or(error)).transpose()?;
                match args.next() {
                    None => complete(Self::Unsubscribe { id, max }),
                    Some(_) => Err(error),
                }
            }
            _ => Err(DecodeError::Verb),
        }
    }
}

/// The lengths that a line gives: of the headers, if there are any, and of everything.
struct Sizes {
    headers: Option<usize>,
    total: usize,
}

impl Sizes {
    /// Splits what follows the line.
    fn split<'a>(
        &self,
        input: &'a [u8],
        after: usize,
        error: DecodeError,
        build: impl FnOnce(Option<&'a [u8]>, &'a [u8]) -> Frame<'a>,
    ) -> Result<Option<(Frame<'a>, usize)>, DecodeError> {
        // Not computed as a sum, which could overflow.
        let rest = input[after..].get(self.total..);
        let Some(terminator) = rest.and_then(|rest| rest.get(..CRLF.len())) else {
            return Ok(None);
        };
        let end = after + self.total;
        let (headers, payload) = match self.headers {
            None => (None, &input[after..end]),
            Some(length) => {
                let (headers, payload) = input[after..end].split_at(length);
                (Some(headers), payload)
            }
        };
        let is_valid = headers.is_none_or(|headers| headers.starts_with(b"NATS/1.0"));
        match terminator == CRLF && is_valid {
            true => Ok(Some((build(headers, payload), end + CRLF.len()))),
            false => Err(error),
        }
    }
}

/// The sizes at the end of a line, and the words before them.
fn parse_sizes(
    rest: &str,
    has_headers: bool,
    bounds: Bounds,
) -> Result<(Sizes, Vec<&str>), Option<DecodeError>> {
    let mut args: Vec<_> = words(rest).collect();
    let mut size = || args.pop().and_then(number).and_then(|size| usize::try_from(size).ok());
    let total = size().ok_or(None)?;
    let headers = if has_headers { Some(size().ok_or(None)?) } else { None };
    if headers.is_some_and(|headers| headers > total) {
        return Err(None);
    }
    if total > bounds.payload {
        return Err(Some(DecodeError::Payload(total)));
    }
    Ok((Sizes { headers, total }, args))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t']).filter(|word| !word.is_empty())
}

fn number(text: &str) -> Option<u64> {
    // `parse` would accept a sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { line: 64, payload: 16 };

    fn error(input: &[u8]) -> DecodeError {
        Frame::decode(input, BOUNDS).expect_err("malformed")
    }

    #[test]
    fn malformed_input_is_refused() {
        let bad = DecodeError::Malformed;
        assert_eq!(error(&[b'x'; 64]), DecodeError::Line(64));
        assert_eq!(error(b"HELLO\r\n"), DecodeError::Verb);
        assert_eq!(error(b"PUB a 17\r\n"), DecodeError::Payload(17));
        for input in ["MSG a 1\r\n", "MSG a x 1\r\n", "MSG a 1 -1\r\n", "HMSG a 1 9 8\r\n"] {
            assert_eq!(error(input.as_bytes()), bad("MSG"), "{input}");
        }
        assert_eq!(error(b"MSG a 1 1\r\nxyz"), bad("MSG"), "not terminated");
        assert_eq!(error(b"HPUB a 2 2\r\nab\r\n"), bad("PUB"), "no version");
        assert_eq!(error(b"SUB a\r\n"), bad("SUB"));
        assert_eq!(error(b"UNSUB 1 2 3\r\n"), bad("UNSUB"));
        assert_eq!(error(b"\xff\r\n"), bad("line: not UTF-8"));
    }

    #[test]
    fn no_size_overflows() {
        let bounds = Bounds::of_payload(usize::MAX);
        let input = format!("MSG a 1 {}\r\n", usize::MAX);
        assert_eq!(Frame::decode(input.as_bytes(), bounds), Ok(None));
    }

    #[test]
    fn verbs_have_any_case_and_words_any_distance() {
        let (frame, length) = Frame::decode(b"sub  a\tq 3 \r\n", BOUNDS).unwrap().unwrap();
        assert_eq!(frame, Frame::Subscribe { subject: "a", queue: Some("q"), id: 3 });
        assert_eq!(length, 13);
    }
}
