//! The parking table: threads that wait for an address or a descriptor, in order of arrival.
//!
//! The table contains only waiters. The state of a lock or semaphore stays in its own memory, where glibc keeps it. A
//! waiter inserts itself, tries again, and then parks. A releasing thread first releases the object, and then looks for
//! waiters. Insertion and release are full barriers, so one of the two threads sees the other.
//!
//! # Safety
//!
//! A node is accessed under the lock of its bucket. A thread removes its node before it continues past its wait. A handler
//! of a signal that interrupts the wait may wait itself, or may jump out of the wait. So a thread whose own node is in the
//! table removes it before it inserts it again, and at its end.

use core::ops::RangeInclusive;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use crate::schedule::notify::unpark;
use crate::system::lock::Lock;
use crate::thread::masked::Masked;
use crate::thread::site::Kind;
use crate::thread::wait::disturb;
use crate::thread::{Node, Thread, state};
use crate::waiting::key;

/// Number of lists, so that a walk accesses the records of few threads, which are rarely in the cache.
const BUCKETS: usize = 8192;

struct List {
    head: *mut Node,
    tail: *mut Node,
}

#[repr(align(64))]
struct Bucket {
    count: AtomicU32,
    list: Lock<List>,
}

static TABLE: [Bucket; BUCKETS] = [const {
    Bucket {
        count: AtomicU32::new(0),
        list: Lock::new(List { head: null_mut(), tail: null_mut() }),
    }
}; BUCKETS];

fn bucket(key: usize) -> &'static Bucket {
    const SHIFT: u32 = usize::BITS - BUCKETS.ilog2();
    &TABLE[(key >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> SHIFT]
}

unsafe fn node<'a>(node: *mut Node) -> &'a mut Node {
    unsafe { &mut *node }
}

/// Inserts a thread's own node. If a signal handler inserts the node, the wait that it has interrupted ends like a
/// spurious wake-up. `armed` runs under the lock with the union of the interests of all waiters for `key`; if it
/// returns false, the node is removed again.
pub(crate) fn insert(
    thread: &Thread,
    key: usize,
    interest: u32,
    armed: impl FnOnce(u32) -> bool,
) -> bool {
    let _masked = Masked::new();
    abandon(thread);
    let own = thread.node.get();
    unsafe { own.write(Node::new(thread, key, interest)) };
    unsafe { insert_node(own, armed) }
}

/// Inserts a node, which is removed before it is dropped. See [`insert`].
pub(crate) unsafe fn insert_node(new: *mut Node, armed: impl FnOnce(u32) -> bool) -> bool {
    let _masked = Masked::new();
    let Node { key, .. } = *unsafe { node(new) };
    let bucket = bucket(key);
    let mut list = bucket.list.lock();
    match list.tail.is_null() {
        true => list.head = new,
        false => unsafe { node(list.tail).next = new },
    }
    list.tail = new;
    bucket.count.fetch_add(1, Ordering::SeqCst);
    let mut union = 0;
    let mut at = list.head;
    // A request without events waits for errors; it must not replace the requests of others.
    while key::is_descriptor(key) && !at.is_null() {
        let waiter = unsafe { node(at) };
        union |= if waiter.key == key { waiter.interest } else { 0 };
        at = waiter.next;
    }
    let done = armed(union);
    if !done {
        unlink(bucket, &mut list, |other, _| other == new, 1);
    }
    done
}

/// The kind of event for which the calling thread waits.
pub(crate) fn kind_of_wait(thread: &Thread) -> Kind {
    // Other threads do not write these fields.
    let node = unsafe { node(thread.node.get()) };
    match node.key {
        0 => Kind::Time,
        key if !key::is_descriptor(key) => Kind::Object,
        _ if node.interest & key::OUT != 0 => Kind::Writable,
        _ => Kind::Readable,
    }
}

/// Calls a function under the lock with the only thread that waits for `key`, and its interest. `None` if there is no such
/// thread, or several.
pub(crate) fn with_only_waiter<R>(
    key: usize,
    function: impl FnOnce(&Thread, u32) -> R,
) -> Option<R> {
    let bucket = bucket(key);
    if bucket.count.load(Ordering::SeqCst) == 0 {
        return None;
    }
    let _masked = Masked::new();
    let list = bucket.list.lock();
    let (mut at, mut only) = (list.head, null_mut::<Node>());
    while !at.is_null() {
        let waiter = unsafe { node(at) };
        if waiter.key == key {
            if !only.is_null() {
                return None;
            }
            only = at;
        }
        at = waiter.next;
    }
    let waiter = unsafe { only.as_ref() }?;
    Some(function(unsafe { &*waiter.thread }, waiter.interest))
}

/// Calls a function under the lock of the waiters for `key`.
pub(crate) fn under_lock<R>(key: usize, function: impl FnOnce() -> R) -> R {
    let _masked = Masked::new();
    let _list = bucket(key).list.lock();
    function()
}

/// Removes a thread's own node for `key`. Returns whether it was woken, or a handler has waited in the meantime.
pub(crate) fn remove(thread: &Thread, key: usize) -> bool {
    // Masked, so that no handler replaces the node in between.
    let _masked = Masked::new();
    let is_replaced = !thread.has_node(key);
    let woken = unsafe { remove_node(thread.node.get()) };
    woken || is_replaced
}

/// Removes a thread's own node whose wait a handler has interrupted or left. An interrupted park ends.
pub(crate) fn abandon(thread: &Thread) {
    let key = thread.node_key();
    if key != 0 {
        disturb(thread);
        state::end_park_at_home(&thread.state);
        remove(thread, key);
    }
}

/// Removes the nodes of a thread that ends.
pub(crate) fn abandon_all(thread: &Thread) {
    abandon(thread);
    let other = thread.barrier_node.get();
    if unsafe { node(other) }.key != 0 {
        unsafe { remove_node(other) };
    }
}

/// Removes a node, unless it was woken. Returns whether it was woken. Sets its key to 0 to mark the node as free for
/// the next wait.
pub(crate) unsafe fn remove_node(old: *mut Node) -> bool {
    let _masked = Masked::new();
    let bucket = bucket(unsafe { node(old) }.key);
    let mut list = bucket.list.lock();
    let woken = unsafe { node(old) }.is_woken();
    if !woken {
        unlink(bucket, &mut list, |other, _| other == old, 1);
    }
    unsafe { node(old) }.key = 0;
    woken
}

/// Whether threads may wait for `key`.
pub(crate) fn may_have_waiters(key: usize) -> bool {
    bucket(key).count.load(Ordering::SeqCst) != 0
}

/// Marks the waiters for a descriptor that is about to be closed. The caller wakes them afterwards.
pub(crate) fn mark_closed(key: usize) {
    let _masked = Masked::new();
    let list = bucket(key).list.lock();
    waiters(&list, key).for_each(|waiter| waiter.is_closed.store(true, Ordering::Relaxed));
}

/// Whether a key belongs to one of the descriptors.
fn is_among(key: usize, descriptors: &RangeInclusive<u32>) -> bool {
    key::descriptor(key).is_some_and(|descriptor| descriptors.contains(&descriptor))
}

/// As [`mark_closed`], for several descriptors.
pub(crate) fn mark_all_closed(descriptors: &RangeInclusive<u32>) {
    let _masked = Masked::new();
    for bucket in occupied() {
        let list = bucket.list.lock();
        nodes(&list)
            .filter(|waiter| is_among(waiter.key, descriptors))
            .for_each(|waiter| waiter.is_closed.store(true, Ordering::Relaxed));
    }
}

/// Wakes the waiters for descriptors.
pub(crate) fn wake_all(descriptors: &RangeInclusive<u32>) {
    let _masked = Masked::new();
    for bucket in occupied() {
        wake_in(bucket, |key| is_among(key, descriptors), usize::MAX);
    }
}

/// The buckets with waiters.
fn occupied() -> impl Iterator<Item = &'static Bucket> {
    TABLE.iter().filter(|bucket| bucket.count.load(Ordering::SeqCst) != 0)
}

/// Whether a thread waits for `key` with an interest.
pub(crate) fn has_waiter(key: usize, interest: u32) -> bool {
    let bucket = bucket(key);
    if bucket.count.load(Ordering::SeqCst) == 0 {
        return false;
    }
    let _masked = Masked::new();
    let list = bucket.list.lock();
    waiters(&list, key).any(|waiter| waiter.interest & interest != 0)
}

/// The waiters for `key` in a locked list.
fn waiters(list: &List, key: usize) -> impl Iterator<Item = &Node> {
    nodes(list).filter(move |waiter| waiter.key == key)
}

/// The waiters in a locked list.
fn nodes(list: &List) -> impl Iterator<Item = &Node> {
    let mut at = list.head;
    std::iter::from_fn(move || {
        let waiter = unsafe { at.as_ref() }?;
        at = waiter.next;
        Some(waiter)
    })
}

/// Wakes up to `count` waiters for `key`, the oldest first. Returns how many.
///
/// The caller has released the object, or the lock that guards a condition, by a locked instruction, which is a full
/// barrier on x86-64. So either this finds a waiter's insertion, or the waiter's next attempt finds the release.
#[inline]
pub(crate) fn wake(key: usize, count: usize) -> usize {
    compiler_fence(Ordering::SeqCst);
    if bucket(key).count.load(Ordering::SeqCst) == 0 { 0 } else { wake_slowly(key, count) }
}

#[cold]
fn wake_slowly(key: usize, count: usize) -> usize {
    let _masked = Masked::new();
    wake_in(bucket(key), |other| other == key, count)
}

/// Wakes up to `count` waiters of a bucket whose keys match.
fn wake_in(bucket: &Bucket, matches: impl Fn(usize) -> bool, count: usize) -> usize {
    let mut list = bucket.list.lock();
    let (mut woken, mut number) =
        (unlink(bucket, &mut list, |_, waiter| matches(waiter.key), count), 0);
    // A woken thread takes the lock before it ends its wait, so its node and its record live until the lock is released.
    while let Some(waiter) = unsafe { woken.as_ref() } {
        woken = waiter.next;
        waiter.woken.store(true, Ordering::Release);
        unpark(unsafe { &*waiter.thread });
        number += 1;
    }
    number
}

/// Notifies all waiters for `key`, which remain in the table until they have what they wait for, or give up. See [`wake`].
#[inline]
pub(crate) fn notify(key: usize) {
    compiler_fence(Ordering::SeqCst);
    if bucket(key).count.load(Ordering::SeqCst) != 0 {
        notify_slowly(key);
    }
}

#[cold]
fn notify_slowly(key: usize) {
    let _masked = Masked::new();
    let list = bucket(key).list.lock();
    // Each takes the lock before it ends its wait.
    waiters(&list, key).for_each(|waiter| unpark(unsafe { &*waiter.thread }));
}

/// Unlinks up to `count` matching waiters and returns them as a list.
fn unlink(
    bucket: &Bucket,
    list: &mut List,
    matches: impl Fn(*mut Node, &Node) -> bool,
    count: usize,
) -> *mut Node {
    let (mut first, mut last) = (null_mut(), null_mut::<Node>());
    let (mut previous, mut at, mut found) = (null_mut::<Node>(), list.head, 0);
    while !at.is_null() && found < count {
        let next = unsafe { node(at) }.next;
        if !matches(at, unsafe { node(at) }) {
            previous = at;
            at = next;
            continue;
        }
        match previous.is_null() {
            true => list.head = next,
            false => unsafe { node(previous).next = next },
        }
        if next.is_null() {
            list.tail = previous;
        }
        unsafe { node(at).next = null_mut() };
        match last.is_null() {
            true => first = at,
            false => unsafe { node(last).next = at },
        }
        last = at;
        at = next;
        found += 1;
    }
    bucket.count.fetch_sub(found as u32, Ordering::SeqCst);
    first
}

/// Empties the table in a child process.
pub(crate) unsafe fn reset() {
    // Pages that are not in use are not written.
    let is_used =
        |bucket: &&Bucket| bucket.count.load(Ordering::SeqCst) != 0 || !bucket.list.is_free();
    for bucket in TABLE.iter().filter(is_used) {
        bucket.count.store(0, Ordering::SeqCst);
        unsafe {
            bucket.list.reset_with(|list| *list = List { head: null_mut(), tail: null_mut() })
        };
    }
}
