//! Wakers: names of operations that any thread may hold, for as long as it likes.
//!
//! A waker is one word, the operation's [`Name`]: the low bits of its slot's generation, the
//! processor's number and the slot's index. The word stands ready in the slot's header, so making,
//! cloning and dropping a waker computes nothing. A name repeats after 2²⁴ uses of its slot. So it
//! proves nothing about what lives in the slot, and is good for one thing: an operation that is
//! re-enabled by another's old waker is polled once in vain. Code that reads or writes a payload, or
//! ends an operation, compares [`Serial`](crate::operation::slot::Serial), which never repeats.
//!
//! # Safety
//! The word is never used as a pointer, so the vtable's functions are sound for any word at all.
//! Waking, the only use of a name, polls or queues an operation that is suspended, and is sound for
//! any operation.

use std::sync::{Arc, RwLock};
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::mailbox::mailbox::Post;
use crate::processor::notify::contain;
use crate::processor::processor::{self, Processor};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("an operation's name fills one word of 64 bits");

const INDEX_BITS: u32 = 24;
const NUMBER_BITS: u32 = 16;

/// The most operations a processor may hold: a name has 24 bits for the slot.
pub const MAX_OPERATIONS: usize = 1 << INDEX_BITS;

/// The processors alive, by number.
static PROCESSORS: RwLock<Vec<Option<Arc<Post>>>> = RwLock::new(Vec::new());

/// Gives a processor a number under which wakers find its post.
pub(crate) fn register(post: Arc<Post>) -> u16 {
    let mut processors = PROCESSORS.write().unwrap_or_else(|poison| poison.into_inner());
    let free = processors.iter().position(Option::is_none);
    let number = free.unwrap_or_else(|| {
        processors.push(None);
        processors.len() - 1
    });
    processors[number] = Some(post);
    u16::try_from(number).expect("fewer than 65,536 processors in one process")
}

pub(crate) fn unregister(number: u16) {
    let mut processors = PROCESSORS.write().unwrap_or_else(|poison| poison.into_inner());
    processors[usize::from(number)] = None;
}

/// The post of the processor with this identity, unless that has ended.
pub(crate) fn post_of(identity: u32) -> Option<Arc<Post>> {
    let processors = PROCESSORS.read().unwrap_or_else(|poison| poison.into_inner());
    processors.iter().flatten().find(|post| post.identity == identity).cloned()
}

/// Which operation of which processor. The generation has the highest bits, so that the next
/// name of a slot is one addition away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name(u64);

impl Name {
    pub(crate) fn new(processor: u16, index: u32) -> Self {
        assert!((index as usize) < MAX_OPERATIONS, "a slot's index fills its bits");
        Self(u64::from(processor) << INDEX_BITS | u64::from(index))
    }

    /// The name of the next operation in the same slot.
    #[inline]
    pub(crate) fn next(self) -> Self {
        Self(self.0.wrapping_add(1 << (INDEX_BITS + NUMBER_BITS)))
    }

    /// The name after so many operations in the same slot.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn after(self, uses: u64) -> Self {
        Self(self.0.wrapping_add(uses << (INDEX_BITS + NUMBER_BITS)))
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 as u32 & (MAX_OPERATIONS as u32 - 1)
    }

    #[inline]
    pub(crate) fn processor(self) -> u16 {
        (self.0 >> INDEX_BITS) as u16
    }
}

/// The waker of the operation named `name`.
#[inline]
pub(crate) fn waker(name: Name) -> Waker {
    let data = std::ptr::without_provenance(name.0 as usize);
    // SAFETY: the vtable is sound for any word (top of the file).
    unsafe { Waker::new(data, &VTABLE) }
}

/// The operation of this processor that `waker` names, if it names one.
#[inline]
pub(crate) fn named(waker: &Waker, processor: &Processor) -> Option<Name> {
    let name = Name(waker.data().addr() as u64);
    let ours = std::ptr::eq(waker.vtable(), &raw const VTABLE);
    (ours && name.processor() == processor.number()).then_some(name)
}

/// A copy of `waker`, if it is an operation's; without calling anything.
#[inline]
pub(crate) fn copy_own(waker: &Waker) -> Option<Waker> {
    let ours = std::ptr::eq(waker.vtable(), &raw const VTABLE);
    ours.then(|| self::waker(Name(waker.data().addr() as u64)))
}

static VTABLE: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), wake, wake, |_| ());

fn wake(data: *const ()) {
    let name = Name(data.addr() as u64);
    let here = processor::try_current(|processor| {
        let ours = processor.number() == name.processor();
        if ours {
            processor.enable(name);
        }
        ours
    });
    if here != Some(true) {
        // Not under the lock: to wake calls the embedder's [`Unpark`](crate::Unpark).
        let post = {
            let processors = PROCESSORS.read().unwrap_or_else(|poison| poison.into_inner());
            processors.get(usize::from(name.processor())).cloned().flatten()
        };
        if let Some(post) = post {
            post.wake(name);
        }
    }
}

/// Wakes an operation or a foreign task. For a runtime's own tables of waiters.
///
/// A foreign waker is foreign code: if it panics, the panic is discarded. The waker of an operation
/// does not panic, and costs nothing more than [`Waker::wake`].
pub fn wake_contained(waker: Waker) {
    match std::ptr::eq(waker.vtable(), &raw const VTABLE) {
        true => waker.wake(),
        false => contain(|| waker.wake()),
    }
}
