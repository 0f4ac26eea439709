//! The registry of the processors in this process. Wakers look up a mailbox by the processor's number,
//! other handles by its identity.
//!
//! The number follows from the identity, which rises, so that a number is used again as late as possible: a waker that
//! outlives its program must not wake a processor of a later one.

use std::sync::{Arc, RwLock};

use crate::mailbox::mailbox::Mailbox;
use crate::sync::unpoison;

/// The numbers that a waker can hold.
const MAX_WAKER_NUMBERS: usize = 1 << 16;

/// The mailboxes of live processors, by number.
static PROCESSORS: RwLock<Vec<Option<Arc<Mailbox>>>> = RwLock::new(Vec::new());

/// All numbers, beginning with the one that a processor with this identity has unless it is in use.
fn numbers(identity: u32) -> impl Iterator<Item = usize> {
    let first = identity as usize % MAX_WAKER_NUMBERS;
    (first..MAX_WAKER_NUMBERS).chain(0..first)
}

/// Registers a processor. Returns the number by which wakers find its mailbox.
pub(crate) fn register(mailbox: Arc<Mailbox>) -> u16 {
    let mut processors = unpoison(PROCESSORS.write());
    let free = |number: &usize| processors.get(*number).is_none_or(Option::is_none);
    let number =
        numbers(mailbox.identity).find(free).expect("fewer than 65,536 processors in one process");
    if number >= processors.len() {
        processors.resize(number + 1, None);
    }
    processors[number] = Some(mailbox);
    number as u16
}

pub(crate) fn unregister(number: u16) {
    let mut processors = unpoison(PROCESSORS.write());
    processors[usize::from(number)] = None;
}

/// Runs `f` with the mailbox of the processor with this identity; none if it has shut down. The processor's end waits
/// for `f`, so neither the processor nor the memory of its slots is freed meanwhile.
pub(crate) fn while_registered<R>(identity: u32, f: impl FnOnce(&Arc<Mailbox>) -> R) -> Option<R> {
    let processors = unpoison(PROCESSORS.read());
    let (before, from) =
        processors.split_at(processors.len().min(identity as usize % MAX_WAKER_NUMBERS));
    from.iter().chain(before).flatten().find(|mailbox| mailbox.identity == identity).map(f)
}

/// The mailbox of the processor with this number; none if it has shut down.
pub(crate) fn mailbox_numbered(number: u16) -> Option<Arc<Mailbox>> {
    let processors = unpoison(PROCESSORS.read());
    processors.get(usize::from(number)).cloned().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_processor_that_ended_is_not_reused_at_once() {
        let first = Arc::new(Mailbox::new(1));
        let number = register(first.clone());
        assert!(Arc::ptr_eq(&while_registered(first.identity, Arc::clone).unwrap(), &first));
        unregister(number);
        assert!(
            mailbox_numbered(number).is_none()
                && while_registered(first.identity, |_| ()).is_none()
        );
        assert_ne!(register(Arc::new(Mailbox::new(1))), number);
    }

    #[test]
    fn every_number_is_tried() {
        let all: Vec<_> = numbers(65_535 + (3 << 16)).collect();
        assert_eq!((&all[..3], all.len()), (&[65_535, 0, 1][..], MAX_WAKER_NUMBERS));
    }
}
