//! The registry of the processors in this process. Wakers look up a mailbox by the processor's number,
//! other handles by its identity.

use std::sync::{Arc, RwLock};

use crate::mailbox::mailbox::Mailbox;

/// The mailboxes of live processors, by number.
static PROCESSORS: RwLock<Vec<Option<Arc<Mailbox>>>> = RwLock::new(Vec::new());

/// Registers a processor. Returns the number by which wakers find its mailbox.
pub(crate) fn register(mailbox: Arc<Mailbox>) -> u16 {
    let mut processors = PROCESSORS.write().unwrap_or_else(|poison| poison.into_inner());
    let free = processors.iter().position(Option::is_none);
    let number = free.unwrap_or_else(|| {
        processors.push(None);
        processors.len() - 1
    });
    processors[number] = Some(mailbox);
    u16::try_from(number).expect("fewer than 65,536 processors in one process")
}

pub(crate) fn unregister(number: u16) {
    let mut processors = PROCESSORS.write().unwrap_or_else(|poison| poison.into_inner());
    processors[usize::from(number)] = None;
}

/// The mailbox of the processor with this identity; none if it has shut down.
pub(crate) fn mailbox_of(identity: u32) -> Option<Arc<Mailbox>> {
    let processors = PROCESSORS.read().unwrap_or_else(|poison| poison.into_inner());
    processors.iter().flatten().find(|mailbox| mailbox.identity == identity).cloned()
}

/// The mailbox of the processor with this number; none if it has shut down.
pub(crate) fn mailbox_numbered(number: u16) -> Option<Arc<Mailbox>> {
    let processors = PROCESSORS.read().unwrap_or_else(|poison| poison.into_inner());
    processors.get(usize::from(number)).cloned().flatten()
}
