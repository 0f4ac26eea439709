//! Logs events of connections.

use std::time::Duration;

use phalanx::time::now;
use phalanx_mqtt::{Reason, Version};

use crate::access::Identity;
use crate::connection::end::End;
use crate::context::Context;
use crate::events::{EventClass, EventLog, Line, Origin};
use crate::transport::outbox::Cause;

/// Logs a refused connection: the reason code, its explanation if there is one, and the names in CONNECT if received.
pub(super) fn refused(
    context: &Context,
    origin: &Origin,
    (client, user): (Option<&str>, Option<&str>),
    (reason, why): (Reason, &str),
) {
    context.events().log(EventClass::Refusals, "refused", |line| {
        origin.write(line);
        // Before any text from the client, so that patterns anchored at the start of the line cannot be spoofed.
        line.text("reason", &reason.to_string());
        if !why.is_empty() {
            line.text("why", why);
        }
        line.optional("client", client);
        line.optional("user", user);
    });
}

/// Logs an accepted client, and the takeover of its session from another connection.
pub(super) fn connected(
    context: &Context,
    (identity, origin): (&Identity, &Origin),
    taken_over: Option<Option<Origin>>,
    fields: impl FnOnce(&mut Line),
) {
    let names = |line: &mut Line| {
        origin.write(line);
        line.text("client", &identity.client);
        line.optional("user", identity.user.as_deref());
    };
    if context.traces().is_on() {
        context.traces().record("connected", &identity.client, None);
    }
    context.events().log(EventClass::Connects, "connected", |line| {
        names(line);
        fields(line);
    });
    if let Some(earlier) = taken_over {
        context.events().log(EventClass::Takeovers, "taken_over", |line| {
            names(line);
            if let Some(address) = earlier.and_then(|origin| origin.address) {
                line.plain("from", address.ip().to_canonical());
            }
        });
    }
}

/// The name of a version in a log line.
pub(super) fn version(version: Version) -> &'static str {
    match version {
        Version::V3 => "3.1.1",
        Version::V5 => "5",
    }
}

/// Logs the end of an accepted client's connection, which began at `since`. The sender may have recorded the cause.
pub(super) fn disconnected(
    events: &EventLog,
    (identity, origin): (&Identity, &Origin),
    (end, cause): (&End, Option<Cause>),
    since: Duration,
) {
    if events.traces().is_on() {
        events.traces().record("disconnected", &identity.client, None);
    }
    events.log(EventClass::Disconnects, "disconnected", |line| {
        origin.write(line);
        let (reason, why) = match end {
            End::Disconnected(closing) if closing.will => {
                (Reason::DISCONNECT_WITH_WILL.to_string(), "")
            }
            End::Disconnected(_) => ("disconnected by the client".to_owned(), ""),
            End::Because(reason, why) => (reason.to_string(), *why),
            End::Lost | End::Leaving => match cause {
                Some(Cause::Session(reason)) => (reason.to_string(), ""),
                Some(Cause::SendTimeout) => ("send timeout".to_owned(), ""),
                None => ("connection lost".to_owned(), ""),
            },
        };
        line.text("reason", &reason);
        if !why.is_empty() {
            line.text("why", why);
        }
        line.number("seconds", (now() - since).as_secs());
        line.text("client", &identity.client);
        line.optional("user", identity.user.as_deref());
    });
}
