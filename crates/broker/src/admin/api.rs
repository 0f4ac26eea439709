//! Authenticates requests, and calls the handler of the path.

use phalanx::runtime::{AdminRequest, AdminResponse};
use phalanx::time::now;
use serde_json::{Value, json};

use crate::admin::failure::{Failure, Outcome};
use crate::admin::query::Query;
use crate::admin::{clients, messages, tracing};
use crate::context::Context;

/// The page, which contains no data.
const PAGE: &str = include_str!("page.html");

/// Answers a request.
pub(crate) async fn answer(context: Context, request: AdminRequest) -> AdminResponse {
    if matches!(request.path.as_str(), "" | "/") {
        return AdminResponse::new("200 OK", "text/html; charset=utf-8", PAGE);
    }
    let (status, body) = match authorized(&context, &request) {
        Err(failure) => failure.parts(),
        Ok(()) => match handle(&context, &request).await {
            Ok(body) => ("200 OK", body),
            Err(failure) => failure.parts(),
        },
    };
    AdminResponse::new(status, "application/json", body.to_string())
}

/// Checks the token.
fn authorized(context: &Context, request: &AdminRequest) -> Result<(), Failure> {
    let policy = context.access.load();
    if !policy.has_admin_token() {
        return Err(Failure::forbidden("the admin API is off: set admin-token-file"));
    }
    let token = request.authorization.as_deref().and_then(|value| value.strip_prefix("Bearer "));
    match token.is_some_and(|token| policy.is_admin_token(token.trim())) {
        true => Ok(()),
        false => {
            let reason = "expected the token of admin-token-file: `Authorization: Bearer TOKEN`";
            Err(Failure::unauthorized(reason))
        }
    }
}

async fn handle(context: &Context, request: &AdminRequest) -> Outcome {
    let query = Query::of(request);
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/api/overview") => Ok(overview(context)),
        ("GET", "/api/clients") => clients::list(context, &query).await,
        ("GET", "/api/client") => clients::describe(context, &query).await,
        ("DELETE", "/api/client") => clients::disconnect(context, &query).await,
        ("GET", "/api/bridges") => Ok(json!({ "bridges": context.bridges.views(now()) })),
        ("GET", "/api/cluster") => match &context.counters.peers {
            Some(peers) => {
                let kept = context.kept.as_ref().map(|kept| kept.view(now()));
                Ok(json!(peers.status.view(now(), kept)))
            }
            None => Err(Failure::missing("this broker is not a node of a cluster")),
        },
        ("GET", "/api/bans") => Ok(clients::bans(context)),
        ("POST", "/api/bans") => clients::ban(context, &request.body).await,
        ("DELETE", "/api/bans") => clients::unban(context, &query),
        ("GET", "/api/retained") => messages::browse(context, &query).await,
        ("DELETE", "/api/retained") => messages::delete(context, &query).await,
        ("POST", "/api/publish") => messages::publish(context, &request.body).await,
        ("GET", "/api/traces") => tracing::list(context, &query),
        ("POST", "/api/traces") => tracing::begin(context, &request.body),
        ("DELETE", "/api/traces") => tracing::end(context, &query),
        (method, path) => Err(Failure::missing(format!(
            "no such operation: {method} {path}; docs/broker/admin.md lists them"
        ))),
    }
}

/// Current counters and gauges. The page computes live rates from their differences.
fn overview(context: &Context) -> Value {
    let counters = &context.counters;
    json!({
        "connections": counters.connected.get(),
        "sessions": counters.sessions.get(),
        "subscriptions": counters.subscriptions.get(),
        "retained": counters.retained.get(),
        "received_total": counters.received.count(),
        "delivered_total": counters.delivered.count(),
        "dropped_total": counters.drops.messages(),
        "bytes_received_total": counters.bytes_received.count(),
        "bytes_sent_total": counters.bytes_sent.count(),
    })
}
