//! Parses `multipart/byteranges` bodies (RFC 9110, 14.6).

use phalanx_testkit::http::{Response, find};

/// `Content-Range` and bytes of each part.
pub(crate) fn parts(received: &Response) -> Result<Vec<(String, Vec<u8>)>, String> {
    let kind = received.first("Content-Type").unwrap_or_default();
    let boundary = kind
        .strip_prefix("multipart/byteranges; boundary=")
        .ok_or_else(|| format!("Content-Type is {kind:?}"))?
        .trim_matches('"');
    let delimiter = format!("\r\n--{boundary}");
    // The first delimiter may lack the preceding line end.
    let mut rest = [b"\r\n", &received.body[..]].concat();
    let mut parts = Vec::new();
    loop {
        let at = find(&rest, delimiter.as_bytes()).ok_or("a delimiter is missing")?;
        if parts.is_empty() && !rest[..at].iter().all(u8::is_ascii_whitespace) {
            return Err("something stands before the first delimiter".to_owned());
        }
        rest.drain(..at + delimiter.len());
        if rest.starts_with(b"--") {
            return Ok(parts);
        }
        let head = find(&rest, b"\r\n\r\n").ok_or("a part without a head")?;
        let text = String::from_utf8_lossy(&rest[..head]).into_owned();
        let range = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(name, _)| name.eq_ignore_ascii_case("Content-Range"))
            .ok_or("a part without Content-Range")?;
        let end = find(&rest[head + 4..], delimiter.as_bytes()).ok_or("a part without an end")?;
        parts.push((range.1.trim().to_owned(), rest[head + 4..][..end].to_vec()));
        rest.drain(..head + 4 + end);
    }
}
