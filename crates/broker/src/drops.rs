//! Drops: each reason for which the broker gives something up that a client has sent or waits for, how often that was, and
//! the log line that says so.
//!
//! Each drop is counted here when it happens, whether or not a reason code tells the client of it. One operation of one
//! processor compares the counts with those before, and logs the reasons whose counts have grown.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use phalanx::{Counter, First, draining, first, sleep};

const MESSAGES: &str = "mqtt_messages_dropped";
const CONNECTIONS: &str = "mqtt_connections_dropped";

macro_rules! reasons {
    ($($name:ident = $label:literal, $family:expr, $text:literal;)*) => {
        /// Why something is dropped.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum DropReason {
            $(#[doc = $text] $name,)*
        }

        impl DropReason {
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its label in metrics, and the level of its topic.
            pub(crate) const fn label(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }

            const fn family(self) -> &'static str {
                match self { $(Self::$name => $family,)* }
            }

            /// For the log: a sentence without its end.
            const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    QueueFull = "queue_full", MESSAGES, "as many wait for a client as may (max-queue)";
    Offline = "offline", MESSAGES, "QoS 0 for a client that is not connected";
    ConnectionLost = "connection_lost", MESSAGES, "QoS 0 that was not sent before the connection ended";
    SessionEnded = "session_ended", MESSAGES, "the session for which they waited has ended";
    Expired = "expired", MESSAGES, "expired while they waited for a client";
    PacketTooLarge = "packet_too_large", MESSAGES, "longer than the client's maximum packet size";
    Invalid = "invalid", MESSAGES, "kept by an earlier version, and not valid MQTT";
    RetainedFull = "retained_full", MESSAGES,
        "as many are retained as may be (max-retained, max-retained-bytes)";
    RetainedExpired = "retained_expired", MESSAGES, "retained, and expired";
    RetainedLeftOut = "retained_left_out", MESSAGES,
        "more are retained than one SUBSCRIBE is sent (max-queue)";
    StoreFull = "store_full", MESSAGES, "the journal is full or behind (max-data)";
    NotAuthorized = "not_authorized", MESSAGES, "the access list does not let the client publish them";
    PayloadFormat = "payload_format", MESSAGES, "declared as text, and not UTF-8";
    Busy = "busy", MESSAGES, "the broker has no room for another operation";
    Will = "will", MESSAGES, "wills for which the broker had no room";
    ConnectionLimit = "connection_limit", CONNECTIONS,
        "closed without an answer, as there are as many as may be (max-connections)";
    ConnectionBusy = "connection_busy", CONNECTIONS,
        "closed without an answer, as the broker has no room for another operation";
    ConnectionRefused = "connection_refused", CONNECTIONS,
        "closed before TLS, as an address has or begins too many";
}

/// The counts of all reasons. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Drops(Arc<[Count]>);

#[derive(Debug)]
struct Count {
    counter: Counter,
    /// The first drop since the last log line, and whether there was one.
    example: Mutex<String>,
    has_example: AtomicBool,
}

impl Drops {
    pub(crate) fn new() -> Self {
        let count = |reason: &DropReason| {
            let help = match reason.family() {
                MESSAGES => "Messages dropped, each as often as it was for a client.",
                _ => "Connections closed without an answer.",
            };
            let label = ("reason", reason.label());
            let counter = Counter::with_label(reason.family(), help, label);
            Count { counter, example: Mutex::default(), has_example: AtomicBool::new(false) }
        };
        Self(DropReason::ALL.iter().map(count).collect())
    }

    /// So many were dropped. `example` names one of them, and is called for the first since the last log line.
    pub(crate) fn add(&self, reason: DropReason, count: usize, example: impl FnOnce() -> String) {
        if count == 0 {
            return;
        }
        let own = &self.0[reason as usize];
        own.counter.add(count as u64);
        if !own.has_example.load(Ordering::Relaxed) {
            let example = example();
            *own.example.lock().unwrap_or_else(PoisonError::into_inner) = example;
            own.has_example.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn count(&self, reason: DropReason) -> u64 {
        self.0[reason as usize].counter.count()
    }

    /// How many messages were dropped, for whatever reason.
    pub(crate) fn messages(&self) -> u64 {
        let of_messages = DropReason::ALL.iter().filter(|reason| reason.family() == MESSAGES);
        of_messages.map(|reason| self.count(*reason)).sum()
    }

    pub(crate) fn counters(&self) -> impl Iterator<Item = &Counter> {
        self.0.iter().map(|own| &own.counter)
    }

    fn take_example(&self, reason: DropReason) -> String {
        let own = &self.0[reason as usize];
        own.has_example.store(false, Ordering::Relaxed);
        std::mem::take(&mut own.example.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The interval between two looks at the counts. A reason whose count has grown is logged at the next look, and then after twice
/// as many looks each time.
const LOOK: Duration = Duration::from_secs(5);
/// In looks: no reason waits longer for its next line.
const LONGEST: u32 = 120;

/// Logs what is dropped until the program drains.
pub(crate) async fn log(drops: Drops) {
    let (mut log, mut drained) = (DropLog::default(), pin!(draining()));
    loop {
        let is_over = matches!(first(sleep(LOOK), drained.as_mut()).await, First::Other(()));
        log.lines(&drops, is_over).into_iter().for_each(|line| eprintln!("phalanx: {line}"));
        if is_over {
            return;
        }
    }
}

/// The state of the log, by reasons.
struct DropLog([Logged; DropReason::ALL.len()]);

#[derive(Clone, Copy, Default)]
struct Logged {
    count: u64,
    /// The line after the last comes so many looks later, and so many are left.
    pause: u32,
    left: u32,
}

impl Default for DropLog {
    fn default() -> Self {
        Self([Logged::default(); DropReason::ALL.len()])
    }
}

impl DropLog {
    /// The lines that are due; all that is not yet logged if this is the last look.
    fn lines(&mut self, drops: &Drops, is_last: bool) -> Vec<String> {
        let mut lines = Vec::new();
        for (own, reason) in self.0.iter_mut().zip(DropReason::ALL) {
            own.left = own.left.saturating_sub(1);
            if own.left > 0 && !is_last {
                continue;
            }
            let more = drops.count(*reason) - own.count;
            if more == 0 {
                // After a quiet time the next drop is logged at the next look.
                own.pause = 0;
                continue;
            }
            own.count += more;
            own.pause = (own.pause * 2).clamp(1, LONGEST);
            own.left = own.pause;
            let what = if reason.family() == MESSAGES { "messages" } else { "connections" };
            let (label, text) = (reason.label(), reason.text());
            let example = drops.take_example(*reason);
            lines.push(format!("dropped {more} {what}, {label}: {text}; the first was {example}"));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_counted_under_a_label_of_its_own() {
        let drops = Drops::new();
        for (n, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, n);
            assert!(DropReason::ALL[..n].iter().all(|other| other.label() != reason.label()));
            drops.add(*reason, n + 1, String::new);
            assert_eq!(drops.count(*reason), n as u64 + 1);
        }
        let connections = [
            DropReason::ConnectionLimit,
            DropReason::ConnectionBusy,
            DropReason::ConnectionRefused,
        ];
        let all: u64 = DropReason::ALL.iter().map(|reason| drops.count(*reason)).sum();
        let others: u64 = connections.iter().map(|reason| drops.count(*reason)).sum();
        assert_eq!(drops.messages(), all - others);
    }

    #[test]
    fn lines_are_rarer_while_more_is_dropped() {
        let (drops, mut log) = (Drops::new(), DropLog::default());
        let mut looks = Vec::new();
        for look in 0..1000 {
            drops.add(DropReason::QueueFull, 1, || format!("number {look}"));
            for line in log.lines(&drops, false) {
                assert!(line.contains("queue_full") && line.contains("max-queue"), "{line}");
                let first = looks.last().map_or(0, |last| last + 1);
                assert!(line.ends_with(&format!("the first was number {first}")), "{line}");
                let count = look - first + 1;
                assert!(line.starts_with(&format!("dropped {count} messages")), "{line}");
                looks.push(look);
            }
        }
        let pauses: Vec<_> = looks.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(pauses[..7], [1, 2, 4, 8, 16, 32, 64]);
        assert!(pauses[7..].iter().all(|pause| *pause == 120));
        // The last look logs the rest.
        assert_eq!(log.lines(&drops, true).len(), 1);
        assert!(log.lines(&drops, true).is_empty());
        // After a quiet time, at once.
        (0..200).for_each(|_| assert!(log.lines(&drops, false).is_empty()));
        drops.add(DropReason::QueueFull, 1, String::new);
        assert_eq!(log.lines(&drops, false).len(), 1);
    }
}
