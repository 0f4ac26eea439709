//! Entries: records that are stored atomically.

use crate::format::record::Record;
use crate::format::wire::Reader;

/// Records that are stored atomically, in this order: the changes by one packet of a client.
///
/// See [`Record`] for an example, and [`Journal::append`](crate::Journal::append) for durability.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    bytes: Vec<u8>,
    adds_state: bool,
}

impl Entry {
    /// Maximum size of an entry in the journal, in bytes: slightly more than the longest MQTT packet.
    pub const MAX_BYTES: usize = (256 << 20) + (1 << 20);

    /// Creates an entry without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a record.
    pub fn push(&mut self, record: &Record<'_>) {
        record.encode(&mut self.bytes);
        self.adds_state |= record.adds_state();
    }

    /// Moves all records of `other` to the end of this entry.
    pub fn append(&mut self, other: &mut Self) {
        if self.bytes.is_empty() {
            std::mem::swap(&mut self.bytes, &mut other.bytes);
        } else {
            self.bytes.append(&mut other.bytes);
        }
        self.adds_state |= std::mem::take(&mut other.adds_state);
    }

    /// Size in the journal, in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether the entry has no records. Appending an empty entry waits for all earlier ones.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The records, in order.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        records(&self.bytes).map(|(record, _)| record.expect("built from records"))
    }

    /// The encoded records, which [`Recovered::from_entry`](crate::Recovered::from_entry) reads.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether a record adds to the state, rather than only deleting.
    pub(crate) fn adds_state(&self) -> bool {
        self.adds_state
    }
}

/// The records in `body` with their byte ranges. Ends at the first invalid record, for which it yields `None`.
pub(crate) fn records(
    body: &[u8],
) -> impl Iterator<Item = (Option<Record<'_>>, std::ops::Range<usize>)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at == body.len() {
            return None;
        }
        let mut rest = Reader(&body[at..]);
        let record = Record::decode(&mut rest);
        let begin = at;
        at = if record.is_some() { body.len() - rest.0.len() } else { body.len() };
        Some((record, begin..at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::record::SessionId;

    #[test]
    fn entries_are_joined_in_order() {
        let of = |session| Record::IncomingDone { session: SessionId(session), packet: 7 };
        let (mut all, mut next) = (Entry::new(), Entry::new());
        for session in 1..4 {
            next.push(&of(session));
            all.append(&mut next);
            assert!(next.is_empty());
        }
        assert!(all.records().eq((1..4).map(of)));
        assert!(!all.adds_state());
        next.push(&Record::Incoming { session: SessionId(1), packet: 7 });
        all.append(&mut next);
        assert!(all.adds_state() && !next.adds_state());
    }

    /// An earlier version had a condition there. A subscription with a condition must not become one without.
    #[test]
    fn the_reserved_field_of_a_subscription_is_empty() {
        let (session, mut bytes) = (SessionId(1), Vec::new());
        Record::Subscribe { session, filter: "t", options: 1, identifier: 2 }.encode(&mut bytes);
        assert_eq!(bytes.pop(), Some(0));
        bytes.extend([1, b'x']);
        assert_eq!(records(&bytes).next().unwrap().0, None);
    }
}
