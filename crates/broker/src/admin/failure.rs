//! Failures of the admin API.

use serde_json::{Value, json};

/// A request that failed: the status, and the reason.
pub(super) struct Failure {
    status: &'static str,
    reason: String,
}

/// The result of a handler: JSON.
pub(super) type Outcome = Result<Value, Failure>;

impl Failure {
    pub(super) fn bad(reason: impl Into<String>) -> Self {
        Self { status: "400 Bad Request", reason: reason.into() }
    }

    pub(super) fn missing(reason: impl Into<String>) -> Self {
        Self { status: "404 Not Found", reason: reason.into() }
    }

    pub(super) fn unauthorized(reason: impl Into<String>) -> Self {
        Self { status: "401 Unauthorized", reason: reason.into() }
    }

    pub(super) fn forbidden(reason: impl Into<String>) -> Self {
        Self { status: "403 Forbidden", reason: reason.into() }
    }

    /// A limit is reached, or the broker has no capacity for the operation.
    pub(super) fn busy(reason: impl Into<String>) -> Self {
        Self { status: "503 Service Unavailable", reason: reason.into() }
    }

    /// The status and the body.
    pub(super) fn parts(self) -> (&'static str, Value) {
        (self.status, json!({ "error": self.reason }))
    }
}
