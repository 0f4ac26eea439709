//! Wakers: names of operations that any thread may hold, for as long as it likes.
//!
//! A waker is one word: the processor's number, the slot's index and the low bits of its
//! generation. Making, cloning and dropping one touches no memory. A waker that outlives its
//! operation names nothing, or at worst a later operation in the same slot, which is then polled
//! once in vain; so an old waker is never a memory error.
//!
//! # Safety
//! The word is never used as a pointer, so the vtable's functions are sound for any word at all.

use std::sync::{Arc, RwLock};
use std::task::{RawWaker, RawWakerVTable, Waker};

use crate::operation::Slot;
use crate::post::Post;
use crate::processor::{self, Processor};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("an operation's name fills one word of 64 bits");

const INDEX_BITS: u32 = 24;
const GENERATION_BITS: u32 = 24;

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

/// The name of the operation that now lives in `slot`.
#[inline]
fn key(processor: u16, slot: Slot) -> u64 {
    let generation = u64::from(slot.generation.get()) & ((1 << GENERATION_BITS) - 1);
    u64::from(processor) << (INDEX_BITS + GENERATION_BITS)
        | generation << INDEX_BITS
        | u64::from(slot.index)
}

/// Re-enables the operation named `key`, which belongs to this processor.
pub(crate) fn enable(processor: &Processor, key: u64) {
    let index = (key & ((1 << INDEX_BITS) - 1)) as u32;
    let generation = (key >> INDEX_BITS) as u32 & ((1 << GENERATION_BITS) - 1);
    if let Some(slot) = processor.slab().get(index) {
        let now = slot.generation.get();
        if now & ((1 << GENERATION_BITS) - 1) == generation {
            processor.enable(slot, now);
        }
    }
}

/// A waker for the operation in `slot`.
#[inline]
pub(crate) fn waker(processor: &Processor, slot: Slot) -> Waker {
    let data = std::ptr::without_provenance(key(processor.number(), slot) as usize);
    // SAFETY: the vtable is sound for any word (top of the file).
    unsafe { Waker::new(data, &VTABLE) }
}

/// Whether `waker` is the one of the operation in `slot`.
#[inline]
pub(crate) fn names(waker: &Waker, processor: &Processor, slot: Slot) -> bool {
    waker.data().addr() as u64 == key(processor.number(), slot)
        && std::ptr::eq(waker.vtable(), &raw const VTABLE)
}

static VTABLE: RawWakerVTable =
    RawWakerVTable::new(|data| RawWaker::new(data, &VTABLE), wake, wake, |_| ());

fn wake(data: *const ()) {
    let key = data.addr() as u64;
    let number = (key >> (INDEX_BITS + GENERATION_BITS)) as u16;
    let here = processor::try_current(|processor| {
        let ours = processor.number() == number;
        if ours {
            enable(processor, key);
        }
        ours
    });
    if here != Some(true) {
        let processors = PROCESSORS.read().unwrap_or_else(|poison| poison.into_inner());
        if let Some(Some(post)) = processors.get(usize::from(number)) {
            post.wake(key);
        }
    }
}
