//! The registry of the processors in this process. Wakers look up a mailbox by the processor's number,
//! other handles by its identity.
//!
//! The number is derived from the identity, which only increases, so a number is reused as late as possible. A waker
//! that outlives its program must not wake a processor of a later program.

use std::sync::{Arc, RwLock};

use crate::mailbox::mailbox::Mailbox;
use crate::sync::unpoison;

/// The number of processor numbers that fit into a waker.
const MAX_WAKER_NUMBERS: usize = 1 << 16;

/// The mailboxes of live processors, by number.
static PROCESSORS: RwLock<Vec<Option<Arc<Mailbox>>>> = RwLock::new(Vec::new());

/// All numbers in the order in which a processor with this identity tries them.
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

/// Runs `f` with the mailbox of the processor with this identity, or returns `None` if it has shut down. The
/// processor's shutdown waits for `f`, so neither the processor nor the memory of its slots is freed while `f` runs.
pub(crate) fn while_registered<R>(identity: u32, f: impl FnOnce(&Arc<Mailbox>) -> R) -> Option<R> {
    let processors = unpoison(PROCESSORS.read());
    let (before, from) =
        processors.split_at(processors.len().min(identity as usize % MAX_WAKER_NUMBERS));
    from.iter().chain(before).flatten().find(|mailbox| mailbox.identity == identity).map(f)
}

/// The mailbox of the processor with this number, or `None` if it has shut down.
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
