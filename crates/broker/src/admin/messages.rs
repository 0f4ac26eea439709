//! Retained messages, and publishing.

use std::sync::Arc;

use phalanx_mqtt::{Properties, QoS, Reason, topic};
use serde::Deserialize;
use serde_json::json;

use crate::admin::failure::{Failure, Outcome};
use crate::admin::query::Query;
use crate::context::Context;
use crate::model::message::{Message, check};
use crate::model::subscriptions::trie::is_shallow;
use crate::requests::{Answer, BrowseRequest, Item, JOURNAL_FULL, Publication};

/// Maximum number of payload bytes shown in a list.
const MAX_PAYLOAD_BYTES: usize = 4096;

/// Maximum number of topics examined for one page.
const MAX_TOPICS: usize = 20_000;

/// Lists the retained messages of a topic filter, after topic `after`.
pub(super) async fn browse(context: &Context, query: &Query) -> Outcome {
    let filter = query.get("filter").unwrap_or("#").to_owned();
    if !topic::is_filter(&filter) || !is_shallow(&filter) {
        return Err(Failure::bad("filter: not a topic filter"));
    }
    let after = query.get("after").map(str::to_owned);
    let request = BrowseRequest { filter, after, most: query.limit()?, topics: MAX_TOPICS };
    let answer = context.stages.routing.call(Item::Browse(request)).await;
    let Ok(Answer::Retained(messages, next)) = answer else { return Err(busy()) };
    let shown = messages.iter().map(|message| {
        let shown = &message.payload[..message.payload.len().min(MAX_PAYLOAD_BYTES)];
        json!({
            "topic": message.topic,
            "qos": message.qos as u8,
            "bytes": message.payload.len(),
            "payload": String::from_utf8_lossy(shown),
            "is_text": std::str::from_utf8(&message.payload).is_ok(),
        })
    });
    Ok(json!({ "messages": shown.collect::<Vec<_>>(), "next": next }))
}

/// Deletes the retained message of a topic, by publishing an empty message as in MQTT, which subscribers receive.
pub(super) async fn delete(context: &Context, query: &Query) -> Outcome {
    let topic = query.required("topic")?.to_owned();
    let request = PublishRequest { topic, payload: String::new(), qos: 0, retain: true };
    send(context, request).await
}

/// A message in a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PublishRequest {
    topic: String,
    #[serde(default)]
    payload: String,
    #[serde(default)]
    qos: u8,
    #[serde(default)]
    retain: bool,
}

/// Publishes a message.
pub(super) async fn publish(context: &Context, body: &[u8]) -> Outcome {
    let request = serde_json::from_slice(body).map_err(|error| Failure::bad(error.to_string()))?;
    send(context, request).await
}

async fn send(context: &Context, request: PublishRequest) -> Outcome {
    let PublishRequest { topic, payload, qos, retain } = request;
    let qos = match qos {
        0 => QoS::AtMostOnce,
        1 => QoS::AtLeastOnce,
        2 => QoS::ExactlyOnce,
        _ => return Err(Failure::bad("qos: expected 0, 1 or 2")),
    };
    let is_own = topic == "$SYS" || topic.starts_with("$SYS/");
    if !topic::is_name(&topic) || !is_shallow(&topic) || is_own {
        return Err(Failure::bad("topic: clients cannot publish to this topic"));
    }
    let (properties, payload) = (Properties::NONE, payload.as_bytes());
    check(&topic, properties, payload).map_err(|(_, reason)| Failure::bad(reason))?;
    let message = Message::of_operator(&topic, payload, qos, retain);
    let mut own = Publication { messages: vec![Arc::new(message)], ..Publication::default() };
    loop {
        own = match context.stages.routing.call(Item::Publish(own)).await {
            Ok(Answer::Published(own)) => own,
            _ => return Err(busy()),
        };
        match own.reasons.first() {
            Some(&JOURNAL_FULL) => return Err(Failure::busy(Reason::QUOTA_EXCEEDED.to_string())),
            Some(reason) if reason.is_failure() => return Err(Failure::busy(reason.to_string())),
            // The disk makes no progress.
            Some(_) if own.is_late && (retain || qos != QoS::AtMostOnce) => return Err(late()),
            Some(reason) => {
                return Ok(
                    json!({ "has_subscribers": *reason != Reason::NO_MATCHING_SUBSCRIBERS }),
                );
            }
            // The message did not fit the limit on deliveries in progress.
            None => own.permit = context.delivery_limiter.acquire(1, 1).await,
        }
    }
}

fn late() -> Failure {
    Failure::busy(
        "the disk accepts no writes; the message was delivered, but it may be lost in a crash",
    )
}

fn busy() -> Failure {
    Failure::busy("the broker has no capacity for the operation; try again")
}
