//! Health check for load balancers. It is answered before limits on requests apply, because a busy server is healthy.

use phalanx::shutdown::is_draining;
use phalanx_http::{Method, Reply, Request, ResponseBuffer, Status};

use crate::clock;

pub(super) fn is_health_check(path: Option<&str>, request: &Request<'_>) -> bool {
    path == Some(request.path) && matches!(request.method, Method::Get | Method::Head)
}

/// Appends the response: 200, or 503 during shutdown.
pub(super) fn answer(out: &mut ResponseBuffer, reply: Reply) {
    let (status, body) = match is_draining() {
        false => (Status::Ok, "ok\n"),
        true => (Status::ServiceUnavailable, "draining\n"),
    };
    let head = clock::head(out, status, reply).field("Cache-Control", b"no-store");
    head.whole("text/plain", &[body]);
}
