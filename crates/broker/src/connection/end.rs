//! The reasons for a connection's end.

use phalanx_mqtt::{Error, Reason};

use crate::session::partition::close::Closing;

/// The reason for a connection's end.
pub(crate) enum End {
    /// The client sent DISCONNECT, with these instructions for its will and session.
    Disconnected(Closing),
    /// The connection was lost, or the session was taken over.
    Lost,
    /// The connection should move to another processor.
    Leaving,
    /// The broker closes the connection, with this reason code and text.
    Because(Reason, &'static str),
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self::Because(error.reason, error.what())
    }
}

impl From<Reason> for End {
    fn from(reason: Reason) -> Self {
        Self::Because(reason, "")
    }
}

/// The end of a connection whose publisher cannot get an acknowledgement.
pub(super) const TAKES_NOTHING: End = End::Because(
    Reason::SERVER_UNAVAILABLE,
    "journal write timed out; unacknowledged messages may be lost",
);

/// The end of a connection of another node or of a bridge whose messages the journal could not store, when there is room.
/// Without an acknowledgement they are sent again.
pub(super) const NOT_STORED: End = End::Because(
    Reason::QUOTA_EXCEEDED,
    "the journal was full; messages that are not acknowledged are to be sent again",
);

/// Why a service that decides about topics refuses access.
pub(super) const UNDECIDED: &str = "the service that decides about topics does not answer";
