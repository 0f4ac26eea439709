//! The part of the Redis protocol that `redis-benchmark` uses: arrays of bulk strings, `GET` and `SET`.

use crate::table::{Answer, Request};

/// The first request in `bytes` and its length; `None` while it is incomplete.
///
/// # Errors
/// If the bytes are not a request.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Option<Request>, usize)>, &'static str> {
    let Some((count, mut at)) = number(bytes, 0, b'*')? else { return Ok(None) };
    let mut words = Vec::with_capacity(3);
    for _ in 0..count {
        let Some((length, begin)) = number(bytes, at, b'$')? else { return Ok(None) };
        let Some(word) = bytes.get(begin..begin + length) else { return Ok(None) };
        if bytes.len() < begin + length + 2 {
            return Ok(None);
        }
        words.push(word);
        at = begin + length + 2;
    }
    let request = match words[..] {
        [b"GET", key] => Some(Request::Get(key.to_vec())),
        [b"SET", key, value] => Some(Request::Set(key.to_vec(), value.to_vec())),
        // Requests that redis-benchmark sends at its start.
        _ => None,
    };
    Ok(Some((request, at)))
}

/// The number between `sign` and the end of the line, and the start of the next line.
fn number(bytes: &[u8], at: usize, sign: u8) -> Result<Option<(usize, usize)>, &'static str> {
    let line = bytes.get(at..).unwrap_or_default();
    match line.first() {
        None => return Ok(None),
        Some(first) if *first != sign => return Err("no request"),
        Some(_) => (),
    }
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
    let digits = line[1..end].strip_suffix(b"\r").ok_or("no request")?;
    let text = std::str::from_utf8(digits).map_err(|_| "no number")?;
    let number = text.parse().map_err(|_| "no number")?;
    Ok(Some((number, at + end + 1)))
}

/// Appends an answer; `None` answers an unknown request.
pub(crate) fn answer(answer: Option<Answer>, out: &mut Vec<u8>) {
    match answer {
        Some(Answer::Set) => out.extend(b"+OK\r\n"),
        Some(Answer::Found(None)) => out.extend(b"$-1\r\n"),
        Some(Answer::Found(Some(value))) => {
            out.extend(format!("${}\r\n", value.len()).as_bytes());
            out.extend(value);
            out.extend(b"\r\n");
        }
        None => out.extend(b"*0\r\n"),
    }
}
