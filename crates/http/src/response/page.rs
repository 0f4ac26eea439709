//! The built-in page of a response without a file.

use crate::response::block::FieldBlock;
use crate::response::head::Head;
use crate::status::Status;

/// Methods supported by a static file server, for `Allow` (RFC 9110, 10.2.1).
pub const ALLOW: &str = "GET, HEAD, OPTIONS";

/// Additional fields of an error response: `Allow` with 405 (RFC 9110, 15.5.6), `Vary` with 406, and
/// `Content-Range: bytes */whole` with 416 (15.5.17), where `whole` is the length of the requested
/// representation in bytes, if known.
pub fn error_fields(status: Status, whole: Option<u64>) -> FieldBlock {
    let mut fields = FieldBlock::default();
    match (status, whole) {
        (Status::MethodNotAllowed, _) => fields.push("Allow", ALLOW.as_bytes()),
        (Status::NotAcceptable, _) => fields.push("Vary", b"Accept-Encoding"),
        (Status::RangeNotSatisfiable, Some(whole)) => {
            fields.push("Content-Range", format!("bytes */{whole}").as_bytes());
        }
        _ => (),
    }
    fields
}

const BEFORE: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n<title>";
const BETWEEN: &str = "</title>\n\
    <style>body{font:1.1rem/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto;padding:0 1rem}\
    h1{font-weight:600}b{opacity:.5;font-weight:400}</style>\n<h1><b>";
const AFTER: &str = "</h1>\n";

impl Head<'_> {
    /// Ends the head and appends a small page that names the status, readable in dark and light mode. The page contains
    /// no client data. A response without content, such as to HEAD, has only the head.
    pub fn page(self) {
        let (mut digits, reason) = (itoa::Buffer::new(), self.status().reason());
        let code = digits.format(self.status().code());
        let parts = [BEFORE, code, " ", reason, BETWEEN, code, "</b> ", reason, AFTER];
        self.whole("text/html; charset=utf-8", &parts);
    }
}
