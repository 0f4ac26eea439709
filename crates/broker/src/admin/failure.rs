//! Failures of the admin API.

use serde_json::{Value, json};

/// A request that failed: the status, and the reason.
pub(super) struct Failure {
    status: &'static str,
    why: String,
}

/// The result of a handler: JSON.
pub(super) type Outcome = Result<Value, Failure>;

impl Failure {
    pub(super) fn bad(why: impl Into<String>) -> Self {
        Self { status: "400 Bad Request", why: why.into() }
    }

    pub(super) fn missing(why: impl Into<String>) -> Self {
        Self { status: "404 Not Found", why: why.into() }
    }

    pub(super) fn unauthorized(why: impl Into<String>) -> Self {
        Self { status: "401 Unauthorized", why: why.into() }
    }

    pub(super) fn forbidden(why: impl Into<String>) -> Self {
        Self { status: "403 Forbidden", why: why.into() }
    }

    /// A limit is reached, or the broker has no capacity for the operation.
    pub(super) fn busy(why: impl Into<String>) -> Self {
        Self { status: "503 Service Unavailable", why: why.into() }
    }

    /// The status and the body.
    pub(super) fn parts(self) -> (&'static str, Value) {
        (self.status, json!({ "error": self.why }))
    }
}
