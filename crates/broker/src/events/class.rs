//! The classes of events, and the format of lines.

use phalanx_config::{Value, choices};

/// A class of events, which the configuration enables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventClass {
    /// Accepted clients.
    Connects,
    /// The end of accepted clients' connections, with the reason.
    Disconnects,
    /// Connections and logins that were refused, with the reason.
    Refusals,
    /// Sessions that another connection took over.
    Takeovers,
    /// Dropped messages, connections, sessions and subscriptions, with the reason.
    Drops,
}

/// The format of lines of the event log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// The event and fields of the form `name=value`.
    #[default]
    Text,
    /// A JSON object per line.
    Json,
}

choices! {
    EventClass as EventClass:
        EventClass::Connects = "connects",
        EventClass::Disconnects = "disconnects",
        EventClass::Refusals = "refusals",
        EventClass::Takeovers = "takeovers",
        EventClass::Drops = "drops";
    LogFormat as LogFormat: LogFormat::Text = "text", LogFormat::Json = "json";
}

impl EventClass {
    pub(super) const ALL: [Self; 5] =
        [Self::Connects, Self::Disconnects, Self::Refusals, Self::Takeovers, Self::Drops];

    /// The class as one bit.
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }

    /// The name in the configuration.
    pub(super) fn name(self) -> String {
        Self::print(&self).as_str().unwrap_or_default().to_owned()
    }
}
