//! The path that says whether the server is well, for who decides whether to send it requests. It is
//! answered before any limit is looked at: a server that is busy is well.

use phalanx::shutdown::is_draining;
use phalanx_http::{Head, Method, Reply, Request, Status};

use crate::connection::clock::with_date;

/// Whether this asks for it.
pub(super) fn is_asked(path: Option<&str>, request: &Request<'_>) -> bool {
    path == Some(request.path) && matches!(request.method, Method::Get | Method::Head)
}

/// Adds the answer: 200, or 503 once the program drains.
pub(super) fn answer(out: &mut Vec<u8>, reply: Reply) {
    let (status, body) = match is_draining() {
        false => (Status::Ok, "ok\n"),
        true => (Status::ServiceUnavailable, "draining\n"),
    };
    with_date(|date| {
        Head::new(out, status, date, reply)
            .block(b"Content-Type: text/plain\r\nCache-Control: no-store\r\n")
            .length(body.len() as u64)
            .finish();
    });
    if !reply.head_only {
        out.extend_from_slice(body.as_bytes());
    }
}
