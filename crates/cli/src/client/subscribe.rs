//! `phalanx sub`: prints messages as they arrive.

use std::borrow::Cow;
use std::collections::HashSet;
use std::num::NonZero;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use percent_encoding::percent_decode_str;
use phalanx_mqtt::{
    Ack, Delivery, Packet, PacketId, Property, PropertyBuffer, Publish, QoS, Reason, Subscribe,
    SubscribeOptions, SubscriptionBuffer, Version,
};

use super::To;
use super::connect::{Limit, connect};
use super::connection::{Connection, Event};
use super::failure::{Failure, reason_text};
use super::output::Form;
use crate::stdout;

/// Subscribe to topics of an MQTT broker and print the messages
///
/// Reports on stderr when the subscription is active. Exit codes: 0 after --count messages, or after --timeout
/// without a count; 1 when the broker is unreachable or rejects the subscription; 2 for bad arguments; 3 on a
/// timeout before --count messages; 130 after Ctrl-C.
#[derive(Args)]
pub(crate) struct Sub {
    /// Topic filter; + matches one level and # all following ones. May be given several times.
    #[arg(long = "topic", short, required = true)]
    topics: Vec<String>,

    /// Only messages whose user properties satisfy this content filter: symbol = 'ACME' AND price > 10. Requires
    /// a broker with content filters, such as phalanx broker. (MQTT 5)
    #[arg(long, short, value_name = "CONDITION")]
    filter: Option<String>,

    /// Apply the filter to fields of JSON payloads as well.
    #[arg(long, requires = "filter")]
    json_payload: bool,

    /// Maximum QoS: 0 at most once, 1 at least once, 2 exactly once.
    #[arg(long, short, default_value = "0", value_parser = super::qos)]
    qos: QoS,

    /// Exit after this many messages.
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<NonZero<u64>>,

    /// Exit after this time. Also limits the wait for the broker's answers, which is at most 30 seconds.
    #[arg(long, value_name = "time", value_parser = super::timeout)]
    timeout: Option<Duration>,

    /// Print the topic before the payload.
    #[arg(long, short, conflicts_with = "json")]
    verbose: bool,

    /// Print each message as a line of JSON: topic, payload (or payload_hex), qos, retain, user_properties and
    /// more.
    #[arg(long)]
    json: bool,

    /// Do not report that the subscription is active.
    #[arg(long)]
    quiet: bool,

    #[command(flatten)]
    to: To,
}

/// Maximum wait for an answer of the broker.
const TIMEOUT: Duration = Duration::from_secs(30);

impl Sub {
    pub(crate) fn run(self) -> ExitCode {
        match self.subscribe() {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => failure.report("sub"),
        }
    }

    fn subscribe(&self) -> Result<(), Failure> {
        let deadline = self.timeout.map(|timeout| Instant::now() + timeout);
        let limit = Limit { answer: TIMEOUT, deadline };
        let connection = connect(&self.to, limit)?.connection;
        if connection.version == Version::V3 && self.filter.is_some() {
            let reason = "filters require MQTT 5, but the connection uses MQTT 3.1.1; append the filter to the topic: 'a/b?k>5'";
            return Err(Failure::Usage(reason.into()));
        }
        let form = match (self.json, self.verbose) {
            (true, _) => Form::Json,
            (false, true) => Form::WithTopic,
            (false, false) => Form::Payload,
        };
        let remaining = self.count.map(NonZero::get);
        let mut active =
            ActiveSubscription { connection, form, remaining, received_ids: HashSet::new() };
        active.connection.send(&Packet::Subscribe(Subscribe {
            id: PacketId::MIN,
            filters: self.subscriptions()?.to_subscribe(),
            properties: self.properties()?.get(),
        }))?;
        let mut suback_deadline = Some(limit.end());
        // Retained messages may arrive before SUBACK.
        while active.remaining != Some(0) || suback_deadline.is_some() {
            let received = match active.connection.next(suback_deadline.or(deadline), None)? {
                Event::Packet(received) => received,
                Event::Sent => continue,
                _ if suback_deadline.is_some() => {
                    return Err(Failure::Timeout("the broker does not answer SUBSCRIBE".into()));
                }
                _ => match active.remaining {
                    Some(remaining) => {
                        return Err(Failure::Timeout(format!(
                            "timeout; {remaining} messages are missing"
                        )));
                    }
                    None => break,
                },
            };
            match received.packet()? {
                Packet::SubAck(ack) => {
                    suback_deadline = None;
                    self.check_suback(
                        ack.reasons,
                        &reason_text(first_failure(ack.reasons), ack.properties),
                    )?;
                }
                packet => {
                    active.take(packet)?;
                    // Printing may have taken long.
                    suback_deadline = suback_deadline.map(|_| limit.end());
                }
            }
        }
        // All messages were received, so errors of the disconnect do not matter.
        let _ = active.connection.disconnect();
        Ok(())
    }

    fn subscriptions(&self) -> Result<SubscriptionBuffer, Failure> {
        let mut subscriptions = SubscriptionBuffer::new();
        let options = SubscribeOptions { qos: self.qos, ..SubscribeOptions::default() };
        for topic in &self.topics {
            let result = subscriptions.push(topic, options);
            result.map_err(|error| Failure::Usage(error.message().to_owned()))?;
        }
        Ok(subscriptions)
    }

    fn properties(&self) -> Result<PropertyBuffer, Failure> {
        let mut properties = PropertyBuffer::new();
        let filter = self.filter.as_deref().map(|filter| Property::User("$where", filter));
        let fields = self.json_payload.then_some(Property::User("$payload", "json"));
        for property in filter.into_iter().chain(fields) {
            let result = properties.push(property);
            result.map_err(|error| Failure::Usage(error.message().to_owned()))?;
        }
        Ok(properties)
    }

    /// Handles SUBACK: reports success or the reason of a rejection.
    fn check_suback(&self, reasons: &[u8], reason_text: &str) -> Result<(), Failure> {
        let rejected = self.topics.iter().zip(reasons).find(|(_, reason)| **reason >= 0x80);
        if let Some((topic, _)) = rejected {
            let mut text = format!("the broker rejected {topic}: {reason_text}");
            let filter = self.filter.as_deref().map(Cow::Borrowed).or_else(|| condition(topic));
            if let Some(filter) = filter
                && let Some(marked) = caret(&filter, reason_text)
            {
                text = format!("{text}\n{marked}");
            }
            return Err(Failure::Broker(text));
        }
        if !self.quiet {
            let topics = self.topics.join(", ");
            stdout::complain(format_args!("phalanx sub: subscribed to {topics}"));
        }
        Ok(())
    }
}

fn first_failure(reasons: &[u8]) -> Reason {
    let failure = reasons.iter().find(|reason| **reason >= 0x80);
    failure.map_or(Reason::SUCCESS, |reason| Reason(*reason))
}

/// The content filter of `$share/GROUP/$where/CONDITION/TOPIC` or `TOPIC?QUERY`, as the broker counts its columns.
fn condition(topic: &str) -> Option<Cow<'_, str>> {
    let topic = match topic.strip_prefix("$share/") {
        Some(shared) => shared.split_once('/')?.1,
        None => topic,
    };
    if let Some(topic) =
        topic.strip_prefix("$where/").or_else(|| topic.strip_prefix("$where-json/"))
    {
        return percent_decode_str(topic.split_once('/')?.0).decode_utf8().ok();
    }
    let query = topic.split_once('?')?.1;
    Some(query.strip_prefix("$json&").unwrap_or(query).into())
}

/// The filter with a mark under the column that the broker's reason names; `None` if it names no column.
fn caret(filter: &str, reason: &str) -> Option<String> {
    let digits = reason.split_once("column ")?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let column: usize = digits[..end].parse().ok()?;
    // The column of an error at the end is one past the last character.
    if column == 0 || column > filter.chars().count() + 1 || filter.contains(char::is_control) {
        return None;
    }
    Some(format!("  {filter}\n  {}^", " ".repeat(column - 1)))
}

/// An active subscription.
struct ActiveSubscription {
    connection: Connection,
    form: Form,
    /// Number of messages still to receive.
    remaining: Option<u64>,
    /// QoS 2 messages that were printed and may be sent again.
    received_ids: HashSet<PacketId>,
}

impl ActiveSubscription {
    fn take(&mut self, packet: Packet<'_>) -> Result<(), Failure> {
        match packet {
            Packet::Publish(message) => self.print(&message),
            Packet::PubRel(ack) => {
                self.received_ids.remove(&ack.id);
                self.connection.send(&Packet::PubComp(Ack::success(ack.id)))
            }
            _ => Ok(()),
        }
    }

    fn print(&mut self, message: &Publish<'_>) -> Result<(), Failure> {
        let is_new = match message.delivery {
            Delivery::ExactlyOnce(id) => self.received_ids.insert(id),
            _ => true,
        };
        if is_new && self.remaining != Some(0) {
            // Print before acknowledging: an acknowledged message is not sent again.
            self.connection.print(&self.form.text(message))?;
            self.remaining = self.remaining.map(|remaining| remaining - 1);
        }
        match message.delivery {
            Delivery::AtMostOnce => Ok(()),
            Delivery::AtLeastOnce(id) => self.connection.send(&Packet::PubAck(Ack::success(id))),
            Delivery::ExactlyOnce(id) => self.connection.send(&Packet::PubRec(Ack::success(id))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_under_the_column() {
        let expected =
            caret("n >> 5", "topic filter invalid: wrong at column 4: expected").unwrap();
        assert_eq!(expected, "  n >> 5\n     ^");
        assert_eq!(caret("é>", "column 3").unwrap(), "  é>\n    ^");
        for reason in ["column 9", "column 0", "column x", "no place"] {
            assert_eq!(caret("n >> 5", reason), None, "{reason}");
        }
    }

    #[test]
    fn the_condition_is_found_in_the_topic() {
        for (topic, expected) in [
            ("t", None),
            ("$share/g/t", None),
            ("t?k>>5", Some("k>>5")),
            ("$share/g/t?$json&k>>5", Some("k>>5")),
            ("$where/k %2B 1 > '%C3%A9'/a/b?c", Some("k + 1 > 'é'")),
            ("$share/g/$where-json/k/t", Some("k")),
            ("$where/k", None),
        ] {
            assert_eq!(condition(topic).as_deref(), expected, "{topic}");
        }
    }
}
