//! Cheap refusals for an overloaded server.
//!
//! Refusing a request costs parsing it, copying a few fields and one send, with no file lookup. The refusal is
//! sent like any other response, and before the files of admitted requests.

use std::time::Duration;

use phalanx_http::{FieldBlock, Head, Reply, ResponseBuffer, Status, error_fields};

use crate::clock;

/// Appends a response without content that refuses a request or a connection. The client may retry after a second, the
/// shortest time that `Retry-After` can express (RFC 9110 §10.2.3). `reply` determines whether the connection persists.
/// `fields` are the host's fields, if the host is known.
pub(crate) fn refuse(
    out: &mut ResponseBuffer,
    status: Status,
    reply: Reply,
    fields: Option<&FieldBlock>,
) {
    head(out, status, reply, fields).field("Retry-After", b"1").length(0).finish();
}

/// Appends a 429 response to a request that exceeds its address's rate, with the time until the next is
/// admitted.
#[cold]
pub(super) fn refuse_for(
    out: &mut ResponseBuffer,
    wait: Duration,
    reply: Reply,
    fields: Option<&FieldBlock>,
) {
    let head = head(out, Status::TooManyRequests, reply, fields);
    head.field("Retry-After", whole_seconds(wait).to_string().as_bytes()).length(0).finish();
}

/// A time for `Retry-After`, rounded up.
pub(super) fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Appends an error page for a malformed request.
pub(crate) fn error_page(out: &mut ResponseBuffer, status: Status, reply: Reply) {
    host_error_page(out, status, reply, None);
}

/// Appends an error page with these fields of the host.
#[cold]
pub(crate) fn host_error_page(
    out: &mut ResponseBuffer,
    status: Status,
    reply: Reply,
    fields: Option<&FieldBlock>,
) {
    head(out, status, reply, fields).fields(error_fields(status, None).all()).page();
}

/// Starts a response with these fields of the host.
pub(crate) fn head<'a>(
    out: &'a mut ResponseBuffer,
    status: Status,
    reply: Reply,
    fields: Option<&FieldBlock>,
) -> Head<'a> {
    let head = clock::head(out, status, reply);
    match fields {
        Some(fields) => head.fields(fields.all()),
        None => head,
    }
}

/// Appends the response to plain HTTP on a TLS port. The client is usually a browser.
#[cold]
pub(crate) fn plain_http_page(out: &mut ResponseBuffer, status: Status, reply: Reply) {
    const TEXT: &str = "This port requires TLS. Use https:// instead of http://.\n";
    clock::head(out, status, reply).whole("text/plain; charset=utf-8", &[TEXT]);
}
