//! Complete small responses without a file: errors, redirects, and the response to OPTIONS.

use std::borrow::Cow;

use crate::{DateLine, Head, Reply, Status};

/// Methods supported by a static file server, for `Allow` (RFC 9110, 10.2.1).
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// Appends a complete response with a small page that names the status, readable in dark and light mode, and
/// with [`error_lines`] in its head.
///
/// A status without content gets no page. The page contains no client data. `reply` determines whether
/// `Connection: close` is sent, and whether only the head is (HEAD).
pub fn error_page(out: &mut Vec<u8>, status: Status, date: &DateLine, reply: Reply) {
    error_page_with(out, status, &error_lines(status, None), date, reply);
}

/// As [`error_page`], with other `lines` in the head, each with its line end.
pub fn error_page_with(
    out: &mut Vec<u8>,
    status: Status,
    lines: &[u8],
    date: &DateLine,
    reply: Reply,
) {
    page(out, status, date, reply, |head| head.block(lines));
}

/// Additional header lines of an error response: `Allow` with 405 (RFC 9110, 15.5.6), `Vary` with 406, and
/// `Content-Range: bytes */whole` with 416 (15.5.17), where `whole` is the length of the requested
/// representation in bytes, if known.
pub fn error_lines(status: Status, whole: Option<u64>) -> Cow<'static, [u8]> {
    match (status, whole) {
        (Status::MethodNotAllowed, _) => ALLOW_LINE.into(),
        (Status::NotAcceptable, _) => b"Vary: Accept-Encoding\r\n"[..].into(),
        (Status::RangeNotSatisfiable, Some(whole)) => {
            format!("Content-Range: bytes */{whole}\r\n").into_bytes().into()
        }
        _ => Cow::Borrowed(&[]),
    }
}

/// Appends a redirect to `location`, for example from
/// [`path::redirect_location`](crate::path::redirect_location). `status` is 301 or 308.
pub fn redirect(out: &mut Vec<u8>, status: Status, location: &[u8], date: &DateLine, reply: Reply) {
    page(out, status, date, reply, |head| head.field("Location", location));
}

/// Appends the response to OPTIONS, for a resource or for `*`: 204 with `Allow` (RFC 9110, 9.3.7).
pub fn options(out: &mut Vec<u8>, date: &DateLine, reply: Reply) {
    Head::new(out, Status::NoContent, date, reply).block(ALLOW_LINE).finish();
}

const ALLOW_LINE: &[u8] = b"Allow: GET, HEAD, OPTIONS\r\n";

const BEFORE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n<title>";
const BETWEEN: &str = "</title>\n\
    <style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto;padding:0 1rem}\
    h1{font-weight:600}b{opacity:.5;font-weight:400}</style>\n<h1><b>";
const AFTER: &str = "</h1>\n";

fn page(
    out: &mut Vec<u8>,
    status: Status,
    date: &DateLine,
    reply: Reply,
    extra: impl FnOnce(Head<'_>) -> Head<'_>,
) {
    let mut digits = itoa::Buffer::new();
    let code = digits.format(status.code());
    let title = [code, " ", status.reason()];
    let heading = [code, "</b> ", status.reason(), AFTER];
    let parts = [BEFORE, title[0], title[1], title[2], BETWEEN];
    let parts = parts.into_iter().chain(heading);
    let length: usize = parts.clone().map(str::len).sum();

    let head = extra(Head::new(out, status, date, reply));
    let head = match status.has_content() {
        true => head.block(b"Content-Type: text/html; charset=utf-8\r\n").length(length as u64),
        false => head,
    };
    head.finish();
    if status.has_content() && !reply.head_only {
        for part in parts {
            out.extend_from_slice(part.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_agree() {
        assert_eq!(ALLOW_LINE, format!("Allow: {ALLOW}\r\n").as_bytes());
    }
}
