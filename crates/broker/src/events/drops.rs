//! Drops by reason: messages, connections, sessions and subscriptions that the broker drops or refuses, as
//! metrics and in the log.
//!
//! Each drop is counted when it happens, whether or not the client receives a reason code. The
//! [log](crate::serve::log) compares the counts at intervals and writes a line for each reason whose count
//! increased.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use phalanx::metrics::Counter;

use crate::events::log_limit::LogLimit;
use crate::events::{EventClass, EventLog, Line, Origin};

/// Kinds of drops and refusals. Each is a metric with a label for the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Messages,
    Connections,
    Sessions,
    Subscriptions,
}

impl Family {
    /// The metric's name and help text.
    const fn metric(self) -> (&'static str, &'static str) {
        match self {
            Self::Messages => ("mqtt_messages_dropped", "Dropped messages, once per receiver."),
            Self::Connections => {
                ("mqtt_connections_dropped", "Connections closed without a response.")
            }
            Self::Sessions => (
                "mqtt_sessions_rejected",
                "CONNECTs rejected because the session cannot be stored.",
            ),
            Self::Subscriptions => (
                "mqtt_subscriptions_rejected",
                "Subscriptions rejected because they are not allowed or cannot be stored.",
            ),
        }
    }

    /// The beginning of a log line about `count` drops.
    fn counted(self, count: u64) -> String {
        match self {
            Self::Messages => format!("dropped {count} messages"),
            Self::Connections => format!("dropped {count} connections"),
            Self::Sessions => format!("refused {count} sessions"),
            Self::Subscriptions => format!("refused {count} subscriptions"),
        }
    }
}

macro_rules! reasons {
    ($($name:ident = $label:literal, $family:ident, $text:literal;)*) => {
        /// Reason for a drop or refusal.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum DropReason {
            $(#[doc = $text] $name,)*
        }

        impl DropReason {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// The label in metrics, and the topic level in `$SYS`.
            pub(crate) const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            const fn family(self) -> Family {
                match self { $(Self::$name => Family::$family,)* }
            }

            /// The description in log lines.
            const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    QueueFull = "queue_full", Messages,
        "the client's queue is full (max-queued-messages, max-queued-bytes)";
    Offline = "offline", Messages, "QoS 0 for a client that is not connected";
    ConnectionLost = "connection_lost", Messages, "QoS 0, not sent before the connection ended";
    SessionEnded = "session_ended", Messages, "the session ended";
    Expired = "expired", Messages, "expired in the client's queue";
    PacketTooLarge = "packet_too_large", Messages, "exceeds the client's maximum packet size";
    Invalid = "invalid", Messages, "stored by an earlier version, and not valid MQTT";
    RetainedFull = "retained_full", Messages,
        "the limit of retained messages is reached (max-retained, max-retained-bytes)";
    RetainedExpired = "retained_expired", Messages, "a retained message expired";
    RetainedLeftOut = "retained_left_out", Messages,
        "more retained messages than are sent for one SUBSCRIBE (max-queued-messages)";
    StoreFull = "store_full", Messages, "the journal is full or behind (max-persistence-bytes)";
    DiskFull = "disk_full", Messages, "the disk is full";
    NotAuthorized = "not_authorized", Messages,
        "the client may not publish to these topics (acl-file, auth-http.access-url, $SYS)";
    NotDecided = "not_decided", Messages, "the service of auth-http.access-url does not decide about them";
    PayloadFormat = "payload_format", Messages, "declared as UTF-8, but not valid";
    Busy = "busy", Messages, "the broker has no capacity for another operation";
    BridgeLoop = "bridge_loop", Messages, "a bridge's message that passed this broker before";
    BridgeUnmapped = "bridge_unmapped", Messages,
        "from a remote broker, to a topic that its bridge does not forward";
    BridgeRefused = "bridge_refused", Messages, "of a bridge, and refused by the remote broker";
    BridgeInvalid = "bridge_invalid", Messages,
        "of a bridge, with a topic or content that the receiving broker rejects";
    ClusterClaim = "cluster_claim", Messages,
        "for or of the other nodes, about clients that connected, because too many of these wait, or too large for NATS";
    ClusterNoMember = "cluster_no_member", Messages,
        "from another node, for a shared subscription that has no member here any more";
    Will = "will", Messages, "the broker had no capacity to publish a will";
    ConnectionLimit = "connection_limit", Connections,
        "closed without a response, because the limit is reached (max-connections)";
    ConnectionBusy = "connection_busy", Connections,
        "closed without a response, because the broker has no capacity for another operation";
    ConnectionRejected = "connection_rejected", Connections,
        "closed before TLS, because of a limit per address or a ban";
    SessionStoreFull = "session_store_full", Sessions,
        "the journal is full or behind (max-persistence-bytes)";
    SessionDiskFull = "session_disk_full", Sessions, "the disk is full";
    SubscriptionStoreFull = "subscription_store_full", Subscriptions,
        "of a persistent session, because the journal is full or behind (max-persistence-bytes)";
    SubscriptionDiskFull = "subscription_disk_full", Subscriptions,
        "of a persistent session, because the disk is full";
    SubscriptionNotAuthorized = "subscription_not_authorized", Subscriptions,
        "the client may not make them (acl-file, auth-http.access-url)";
}

/// A dropped message: its topic, and its receiver or publisher, as far as known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped<'a> {
    pub(crate) topic: Option<&'a str>,
    pub(crate) client: Option<&'a str>,
    pub(crate) user: Option<&'a str>,
    /// Whether the client is the publisher.
    pub(crate) is_publisher: bool,
    pub(crate) origin: Option<Origin>,
}

impl Dropped<'_> {
    fn write(&self, line: &mut Line) {
        if let Some(origin) = &self.origin {
            origin.write(line);
        }
        line.optional("topic", self.topic);
        line.optional(if self.is_publisher { "publisher" } else { "client" }, self.client);
        line.optional("user", self.user);
    }
}

impl fmt::Display for Dropped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, client, user, is_publisher, origin } = self;
        let is_first = topic.is_none();
        if let Some(topic) = topic {
            write!(f, "{topic:?}")?;
        }
        match (client, origin) {
            (Some(client), _) => {
                let space = if is_first { "" } else { " " };
                let role = if *is_publisher { "from" } else { "for" };
                write!(f, "{space}{role} client {client:?}")?;
                user.map_or(Ok(()), |user| write!(f, " of user {user:?}"))
            }
            (None, Some(origin)) if is_first => write!(f, "at {}", origin.listen),
            _ => Ok(()),
        }
    }
}

/// The counts of all reasons, and the log of each drop. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Drops {
    counts: Arc<[Count]>,
    events: EventLog,
}

#[derive(Debug)]
struct Count {
    counter: Counter,
    /// The first drop since the last log line, if any.
    example: Mutex<String>,
    has_example: AtomicBool,
}

impl Drops {
    pub(crate) fn new(events: EventLog) -> Self {
        let count = |reason: &DropReason| {
            let (name, help) = reason.family().metric();
            let counter = Counter::with_label(name, help, ("reason", reason.label()));
            Count { counter, example: Mutex::default(), has_example: AtomicBool::new(false) }
        };
        Self { counts: DropReason::ALL.iter().map(count).collect(), events }
    }

    /// Counts `count` drops, and logs them if the event log includes drops. `what` describes one of them; it is
    /// called only if a log needs it.
    pub(crate) fn add<'a>(
        &self,
        reason: DropReason,
        count: usize,
        what: impl FnOnce() -> Dropped<'a>,
    ) {
        if count == 0 {
            return;
        }
        let own = &self.counts[reason as usize];
        own.counter.add(count as u64);
        let has_example = own.has_example.load(Ordering::Relaxed);
        if has_example && !self.events.is_on(EventClass::Drops) {
            return;
        }
        let what = what();
        if !has_example {
            *own.example.lock().unwrap_or_else(PoisonError::into_inner) = what.to_string();
            own.has_example.store(true, Ordering::Relaxed);
        }
        self.events.log(EventClass::Drops, "dropped", |line| {
            line.plain("reason", reason.label());
            line.number("count", count as u64);
            what.write(line);
        });
    }

    pub(crate) fn events(&self) -> &EventLog {
        &self.events
    }

    pub(crate) fn count(&self, reason: DropReason) -> u64 {
        self.counts[reason as usize].counter.count()
    }

    /// The number of messages dropped for any reason.
    pub(crate) fn messages(&self) -> u64 {
        let of_messages =
            DropReason::ALL.iter().filter(|reason| reason.family() == Family::Messages);
        of_messages.map(|reason| self.count(*reason)).sum()
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.counts.iter().map(|count| &count.counter)
    }

    fn take_example(&self, reason: DropReason) -> String {
        let own = &self.counts[reason as usize];
        own.has_example.store(false, Ordering::Relaxed);
        std::mem::take(&mut own.example.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Maximum interval between log lines of one reason, in log intervals.
const MAX_LOG_PAUSE: u32 = 120;

/// The log's rate limits, by reason.
pub(crate) struct DropLog([LogLimit; DropReason::ALL.len()]);

impl Default for DropLog {
    fn default() -> Self {
        Self([LogLimit::default(); DropReason::ALL.len()])
    }
}

impl DropLog {
    /// The lines that are due; all remaining lines if `is_last`.
    pub(crate) fn lines(&mut self, drops: &Drops, is_last: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for (own, reason) in self.0.iter_mut().zip(DropReason::ALL) {
            let Some(more) = own.check(drops.count(*reason), MAX_LOG_PAUSE, is_last) else {
                continue;
            };
            let what = reason.family().counted(more);
            let (label, text) = (reason.label(), reason.text());
            let example = drops.take_example(*reason);
            lines.push(format!("{what}, {label}: {text}; the first was {example}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_its_own_label() {
        let drops = Drops::new(EventLog::default());
        for (n, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, n);
            assert!(DropReason::ALL[..n].iter().all(|other| other.label() != reason.label()));
            drops.add(*reason, n + 1, Dropped::default);
            assert_eq!(drops.count(*reason), n as u64 + 1);
        }
        let is_of_messages = |reason: &&DropReason| {
            let others = ["connection_", "session_store", "session_disk", "subscription_"];
            let is_other = |start: &&str| reason.label().starts_with(*start);
            **reason == DropReason::ConnectionLost || !others.iter().any(is_other)
        };
        let of_messages = DropReason::ALL.iter().filter(is_of_messages);
        assert_eq!(drops.messages(), of_messages.map(|reason| drops.count(*reason)).sum::<u64>());
    }

    #[test]
    fn a_line_names_client_and_user() {
        let drops = Drops::new(EventLog::default());
        for (reason, is_publisher, ends) in [
            (
                DropReason::NotAuthorized,
                true,
                "the first was \"a/b\" from client \"c\" of user \"u\"",
            ),
            (
                DropReason::SubscriptionNotAuthorized,
                false,
                "\"a/b\" for client \"c\" of user \"u\"",
            ),
        ] {
            let (topic, client, user) = (Some("a/b"), Some("c"), Some("u"));
            drops.add(reason, 1, || Dropped { topic, client, user, is_publisher, origin: None });
            let lines = DropLog::default().lines(&drops, true);
            let own = lines.iter().find(|line| line.contains(reason.label()));
            assert!(own.is_some_and(|line| line.ends_with(ends)), "{lines:?}");
        }
    }

    #[test]
    fn log_lines_get_rarer_with_more_drops() {
        let (drops, mut log) = (Drops::new(EventLog::default()), DropLog::default());
        let mut line_times = Vec::new();
        for look in 0..1000 {
            let topic = format!("number {look}");
            let what = || Dropped { topic: Some(&topic), ..Dropped::default() };
            drops.add(DropReason::QueueFull, 1, what);
            for line in log.lines(&drops, false) {
                assert!(
                    line.contains("queue_full") && line.contains("max-queued-messages"),
                    "{line}"
                );
                let first = line_times.last().map_or(0, |last| last + 1);
                assert!(line.ends_with(&format!("the first was \"number {first}\"")), "{line}");
                let count = look - first + 1;
                assert!(line.starts_with(&format!("dropped {count} messages")), "{line}");
                line_times.push(look);
            }
        }
        let pauses: Vec<_> = line_times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses[..7], [1, 2, 4, 8, 16, 32, 64]);
        assert!(pauses[7..].iter().all(|pause| *pause == 120));
        // The last call logs the remaining drops.
        assert_eq!(log.lines(&drops, true).len(), 1);
        assert!(log.lines(&drops, true).is_empty());
        // After a quiet period, a line is logged immediately.
        (0..200).for_each(|_| assert!(log.lines(&drops, false).is_empty()));
        drops.add(DropReason::QueueFull, 1, Dropped::default);
        assert_eq!(log.lines(&drops, false).len(), 1);
    }
}
