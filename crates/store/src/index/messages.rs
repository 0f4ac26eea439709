//! The live messages and retained topics.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

use crate::format::record::{MessageId, Record};
use crate::index::Place;

/// The live messages, with the number of their references, and the retained topics.
#[derive(Debug, Default)]
pub(super) struct MessageIndex {
    /// Ordered: messages are stored and released in the order of their IDs, so lookups find neighbours in the cache.
    messages: BTreeMap<u64, Message>,
    retained: HashMap<Box<str>, Retained, RandomState>,
    /// Messages of the current batch without references; deleted at its end.
    unreferenced: Vec<u64>,
    /// Size of the live records, in bytes.
    pub(super) live: u64,
    pub(super) next: u64,
}

#[derive(Debug)]
struct Message {
    place: Place,
    /// The number of deliveries and topics that reference the message. During a replay it is unknown, and counted at
    /// the end.
    references: u32,
}

#[derive(Debug)]
struct Retained {
    place: Place,
    message: u64,
}

impl MessageIndex {
    /// The numbers of messages and of retained topics.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.messages.len() as u64, self.retained.len() as u64)
    }

    /// Applies a record of a message or a topic at `place`, and ignores others. A replay does not count references,
    /// because the message itself may come later.
    pub(super) fn apply(&mut self, record: &Record<'_>, place: Place, replaying: bool) {
        match *record {
            Record::Message { message: MessageId(number), .. } => {
                self.next = self.next.max(number.saturating_add(1));
                let (references, old) = match self.messages.entry(number) {
                    Entry::Occupied(mut here) => {
                        let here = here.get_mut();
                        (here.references, Some(std::mem::replace(&mut here.place, place)))
                    }
                    Entry::Vacant(free) => {
                        free.insert(Message { place, references: 0 });
                        (0, None)
                    }
                };
                if references == 0 && !replaying {
                    self.unreferenced.push(number);
                }
                self.replaced(old, place);
            }
            Record::Retain { topic, message } => {
                if !replaying && !self.add_reference(message.0) {
                    return;
                }
                let new = Retained { place, message: message.0 };
                let old = match self.retained.get_mut(topic) {
                    Some(here) => Some(std::mem::replace(here, new)),
                    None => self.retained.insert(topic.into(), new),
                };
                self.replaced(old.as_ref().map(|old| old.place), place);
                if let Some(old) = old.filter(|_| !replaying) {
                    self.release(old.message);
                }
            }
            Record::Unretain { topic } => {
                if let Some(old) = self.retained.remove(topic) {
                    self.record_dead(old.place);
                    if !replaying {
                        self.release(old.message);
                    }
                }
            }
            _ => (),
        }
    }

    /// Adds a reference to a message. Returns false if it does not exist.
    pub(super) fn add_reference(&mut self, message: u64) -> bool {
        let message = self.messages.get_mut(&message);
        message.map(|message| message.references += 1).is_some()
    }

    /// Removes a reference, and the message if that was the last one.
    pub(super) fn release(&mut self, message: u64) {
        let Some(entry) = self.messages.get_mut(&message) else { return };
        entry.references -= 1;
        if entry.references == 0 {
            self.remove(message);
        }
    }

    /// Ends a batch: deletes messages without references.
    pub(super) fn end_batch(&mut self) {
        for message in std::mem::take(&mut self.unreferenced) {
            if self.messages.get(&message).is_some_and(|message| message.references == 0) {
                self.remove(message);
            }
        }
    }

    /// Ends a replay, after the references of deliveries were [counted](Self::keep): counts the references of topics,
    /// and deletes topics and messages that have none.
    pub(super) fn finish_replay(&mut self) {
        let Self { messages, retained, live, .. } = self;
        retained.retain(|_, entry| {
            let message = messages.get_mut(&entry.message);
            let keep = message.map(|message| message.references += 1).is_some();
            *live -= if keep { 0 } else { u64::from(entry.place.length) };
            keep
        });
        messages.retain(|_, message| {
            let keep = message.references > 0;
            *live -= if keep { 0 } else { u64::from(message.place.length) };
            keep
        });
    }

    /// The place of the live record that sets the same object as `record`.
    pub(super) fn place(&self, record: &Record<'_>) -> Option<Place> {
        match *record {
            Record::Message { message, .. } => self.messages.get(&message.0).map(|it| it.place),
            Record::Retain { topic, .. } => self.retained.get(topic).map(|it| it.place),
            _ => None,
        }
    }

    /// The places of all live records.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let retained = self.retained.values().map(|it| it.place);
        self.messages.values().map(|it| it.place).chain(retained)
    }

    fn remove(&mut self, message: u64) {
        if let Some(old) = self.messages.remove(&message) {
            self.record_dead(old.place);
        }
    }

    fn replaced(&mut self, old: Option<Place>, new: Place) {
        old.into_iter().for_each(|old| self.record_dead(old));
        self.live += u64::from(new.length);
    }

    fn record_dead(&mut self, old: Place) {
        self.live -= u64::from(old.length);
    }
}
