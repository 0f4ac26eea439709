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
        Self::Because(error.reason, error.message())
    }
}

impl From<Reason> for End {
    fn from(reason: Reason) -> Self {
        Self::Because(reason, "")
    }
}

/// Converts a reason code for DISCONNECT. Some codes are valid only in CONNACK (MQTT-3.14.2-1).
pub(super) fn in_disconnect(reason: Reason) -> Reason {
    match reason {
        Reason::SERVER_UNAVAILABLE => Reason::SERVER_BUSY,
        Reason::UNSUPPORTED_PROTOCOL_VERSION => Reason::PROTOCOL_ERROR,
        Reason::BAD_USER_NAME_OR_PASSWORD
        | Reason::BAD_AUTHENTICATION_METHOD
        | Reason::BANNED
        | Reason::CLIENT_IDENTIFIER_NOT_VALID => Reason::NOT_AUTHORIZED,
        other => other,
    }
}

/// The end of a connection whose publisher cannot get an acknowledgement.
pub(super) const TAKES_NOTHING: End = End::Because(
    Reason::SERVER_BUSY,
    "journal write timed out; unacknowledged messages may be lost",
);

/// Ends the connection of another node or of a bridge when the full journal has space again. The unacknowledged messages,
/// which the journal could not store, are then sent again.
pub(super) const NOT_STORED: End = End::Because(
    Reason::QUOTA_EXCEEDED,
    "the journal was full; messages that are not acknowledged are to be sent again",
);

/// The explanation when the authorization service does not answer.
pub(super) const UNDECIDED: &str = "the service that decides about topics does not answer";

#[cfg(test)]
mod tests {
    use phalanx_mqtt::{Disconnect, Packet, Version};

    use super::*;
    use crate::transport::outbox::Outbox;

    /// The outbox rejects a code that is invalid in DISCONNECT.
    #[test]
    fn each_reason_of_connack_has_one_of_disconnect() {
        let of_connack =
            (0x80..=0x8a).chain([0x8c, 0x90, 0x95, 0x97, 0x99, 0x9a, 0x9b, 0x9c, 0x9d, 0x9f]);
        let outbox = Outbox::new(Version::V5, usize::MAX);
        for code in of_connack {
            let reason = in_disconnect(Reason(code));
            outbox.push(&Packet::Disconnect(Disconnect::new(reason)));
        }
        assert!(!outbox.is_empty());
    }
}
