//! Clients: list, disconnect, ban.

use std::net::IpAddr;
use std::time::Duration;

use phalanx::time::now;
use phalanx_mqtt::Reason;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::bans::Banned;
use crate::admin::failure::{Failure, Outcome};
use crate::admin::query::Query;
use crate::context::Context;
use crate::session::partition::inspect::{ClientQuery, Kick};

const BUSY: &str = "the broker has no capacity for the operation; try again";

/// Lists clients. A position is `PARTITION:SLOT`.
pub(super) async fn list(context: &Context, query: &Query) -> Outcome {
    let sessions = context.stages.sessions;
    let (mut partition, mut slot) = match query.get("after") {
        None => (0, 0),
        Some(text) => position(text).ok_or_else(|| Failure::bad("after: not a position"))?,
    };
    let limit = query.limit()?;
    let text = query.get("text").unwrap_or_default().to_owned();
    let connected_only = query.flag("connected");
    let mut found = Vec::new();
    while partition < sessions.partitions() && found.len() < limit {
        let query = ClientQuery { text: text.clone(), connected_only, most: limit - found.len() };
        let (some, next) =
            sessions.list(partition, slot, query).await.map_err(|_| Failure::busy(BUSY))?;
        found.extend(some);
        match next {
            Some(next) => slot = next,
            None => (partition, slot) = (partition + 1, 0),
        }
    }
    let is_end = partition >= sessions.partitions();
    let next = (!is_end).then(|| format!("{partition}:{slot}"));
    Ok(json!({ "clients": found, "next": next }))
}

fn position(text: &str) -> Option<(usize, usize)> {
    let (partition, slot) = text.split_once(':')?;
    Some((partition.parse().ok()?, slot.parse().ok()?))
}

/// Shows one client with its subscriptions.
pub(super) async fn describe(context: &Context, query: &Query) -> Outcome {
    let client = query.required("client")?.to_owned();
    let found = context.stages.sessions.describe(client).await.map_err(|_| Failure::busy(BUSY))?;
    match found {
        Some(client) => Ok(json!(client)),
        None => Err(Failure::missing("there is no session with this client identifier")),
    }
}

/// Disconnects a client. With `session=true`, also ends its session.
pub(super) async fn disconnect(context: &Context, query: &Query) -> Outcome {
    let client = query.required("client")?.to_owned();
    let found = if query.flag("session") {
        let (stages, reason) = (context.stages, Reason::ADMINISTRATIVE_ACTION);
        let ended = stages.sessions.end_session(client, reason, stages.routing).await;
        ended.map_err(|_| Failure::busy(BUSY))?
    } else {
        kick(context, Kick::Client(client)).await? > 0
    };
    match found {
        true => Ok(json!({ "done": true })),
        false => Err(Failure::missing("no such client is connected")),
    }
}

/// Ends connections in all partitions. Returns their number.
async fn kick(context: &Context, kick: Kick) -> Result<usize, Failure> {
    let sessions = context.stages.sessions;
    let mut count = 0;
    for partition in 0..sessions.partitions() {
        let done = sessions.kick(partition, kick.clone()).await;
        count += done.map_err(|_| Failure::busy(BUSY))?;
    }
    Ok(count)
}

/// A ban in a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BanRequest {
    client: Option<String>,
    user: Option<String>,
    address: Option<IpAddr>,
    seconds: Option<u64>,
}

/// Bans a client, user or address, and disconnects it.
pub(super) async fn ban(context: &Context, body: &[u8]) -> Outcome {
    let query: BanRequest =
        serde_json::from_slice(body).map_err(|error| Failure::bad(error.to_string()))?;
    let BanRequest { client, user, address, seconds } = query;
    let (banned, kicked) = match (client, user, address.map(|address| address.to_canonical())) {
        (Some(client), None, None) => (Banned::Client(client.clone()), Kick::Client(client)),
        (None, Some(user), None) => (Banned::User(user.clone()), Kick::User(user)),
        (None, None, Some(address)) => (Banned::Address(address), Kick::Address(address)),
        _ => return Err(Failure::bad("expected one of client, user and address")),
    };
    if !context.bans.add(banned, seconds.map(Duration::from_secs), now()) {
        return Err(Failure::busy("there are too many bans; remove some"));
    }
    // Only after the ban was added, so that no client reconnects in between.
    let disconnected = kick(context, kicked).await?;
    Ok(json!({ "disconnected": disconnected }))
}

/// Ends a ban.
pub(super) fn unban(context: &Context, query: &Query) -> Outcome {
    let banned = match (query.get("client"), query.get("user"), query.get("address")) {
        (Some(client), None, None) => Banned::Client(client.to_owned()),
        (None, Some(user), None) => Banned::User(user.to_owned()),
        (None, None, Some(address)) => {
            let address: Result<IpAddr, _> = address.parse();
            let address = address.map_err(|_| Failure::bad("address: not an address"))?;
            Banned::Address(address.to_canonical())
        }
        _ => return Err(Failure::bad("expected one of client, user and address")),
    };
    match context.bans.remove(&banned) {
        true => Ok(json!({ "done": true })),
        false => Err(Failure::missing("there is no such ban")),
    }
}

/// Lists the bans.
pub(super) fn bans(context: &Context) -> Value {
    let all = context.bans.list(now()).into_iter();
    let all = all.map(|(banned, left)| json!({ "banned": banned, "seconds_left": left }));
    json!({ "bans": all.collect::<Vec<_>>() })
}
