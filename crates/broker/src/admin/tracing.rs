//! Traces of a client or of topics.

use std::time::Duration;

use phalanx_mqtt::topic;
use serde::Deserialize;
use serde_json::json;

use crate::admin::failure::{Failure, Outcome};
use crate::admin::query::Query;
use crate::context::Context;
use crate::events::traces::{MAX_TIME, Target};

/// A trace in a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceRequest {
    client: Option<String>,
    filter: Option<String>,
    seconds: u64,
}

/// Begins a trace.
pub(super) fn begin(context: &Context, body: &[u8]) -> Outcome {
    let request: TraceRequest =
        serde_json::from_slice(body).map_err(|error| Failure::bad(error.to_string()))?;
    let target = match (request.client, request.filter) {
        (Some(client), None) => Target::Client(client),
        (None, Some(filter)) if topic::is_filter(&filter) => Target::Filter(filter),
        (None, Some(_)) => return Err(Failure::bad("filter: not a topic filter")),
        _ => return Err(Failure::bad("expected either client or filter")),
    };
    let max = MAX_TIME.as_secs();
    if !(1..=max).contains(&request.seconds) {
        return Err(Failure::bad(format!("seconds: expected 1 to {max}")));
    }
    match context.traces().begin(target, Duration::from_secs(request.seconds)) {
        Some(id) => Ok(json!({ "id": id })),
        None => Err(Failure::busy("there are too many traces; delete one")),
    }
}

/// Lists the traces, or shows one with its records.
pub(super) fn list(context: &Context, query: &Query) -> Outcome {
    let id = query.number("id")?;
    let found = context.traces().list(id);
    match (id, found.is_empty()) {
        (Some(_), true) => Err(Failure::missing("there is no such trace")),
        _ => Ok(json!({ "traces": found })),
    }
}

/// Ends a trace and discards its records.
pub(super) fn end(context: &Context, query: &Query) -> Outcome {
    let id = query.number("id")?.ok_or_else(|| Failure::bad("the parameter id is missing"))?;
    match context.traces().end(id) {
        true => Ok(json!({ "done": true })),
        false => Err(Failure::missing("there is no such trace")),
    }
}
