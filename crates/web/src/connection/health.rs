//! Health check for load balancers. It is answered before any limit applies, because a busy server is
//! healthy.

use phalanx::shutdown::is_draining;
use phalanx_http::{Head, Method, Reply, Request, Status};

use crate::connection::clock::with_date;

/// Whether `request` is a health check.
pub(super) fn is_asked(path: Option<&str>, request: &Request<'_>) -> bool {
    path == Some(request.path) && matches!(request.method, Method::Get | Method::Head)
}

/// Appends the response: 200, or 503 during shutdown.
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
