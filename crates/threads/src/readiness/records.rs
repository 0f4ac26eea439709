//! Known properties of the program's sockets, which save calls to the kernel: a word per descriptor.
//!
//! A record is trusted if the socket is a stream socket that this process has opened with `socket` or `accept`, and
//! that no other descriptor or process shares. Every call that may change this, or the socket's flags, clears the
//! record: `close`, `dup`, `fcntl`, `ioctl`, `setsockopt`, `fdopen`, passing the descriptor in a message, and, for all
//! descriptors, the creation of a process. The monitor confirms every long wait that relies on a record, and so detects
//! changes that bypass this library.

use core::sync::atomic::{AtomicU32, Ordering};

use crate::waiting::key::{IN, OUT};

/// Descriptors from this number on have no records.
const MAX_RECORDS: usize = 1 << 16;

/// Maximum number of waits that are confirmed at a time, with four system calls each. A server with thousands of slow
/// clients would otherwise confirm each of its waits.
const MAX_CONFIRMATIONS: usize = 256;

/// This process has opened the socket and nothing shares it.
const OPENED: u32 = 1;
/// It is a TCP socket, blocking, without timeouts.
const PLAIN: u32 = 2;
/// The epoll reports its edges.
const REGISTERED: u32 = 4;
/// An edge has been reported since the last attempt began.
const EVENT: u32 = 8;
/// The last attempt took all bytes.
const DRAINED: u32 = 16;
/// Something other than bytes has arrived, such as the end of the stream, so an attempt must precede each wait.
const ENDED: u32 = 32;
/// A thread began to wait after the last attempt, and the monitor has not confirmed the registration.
const WAITING: u32 = 64;
/// The monitor has seen this wait before.
const MONITOR_SEEN: u32 = 128;
/// The program has made it non-blocking.
const NONBLOCKING: u32 = 256;
/// The low bits of the number of processes that had been created when the socket was opened.
const EPOCH: u32 = 0xfffe00;
const EPOCH_SHIFT: u32 = 9;
/// The remaining bits count changes of flags and options, so that a change between reading and recording them is not
/// missed.
const CHANGE: u32 = 1 << 24;

static RECORDS: [AtomicU32; MAX_RECORDS] = [const { AtomicU32::new(0) }; MAX_RECORDS];
/// The number of records that have been in use.
static USED: AtomicU32 = AtomicU32::new(0);
/// The descriptor with which the next confirmation begins.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// The number of processes that this one may have created.
static PROCESSES: AtomicU32 = AtomicU32::new(0);

/// How a thread must wait for a socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wait {
    /// The epoll is registered; its next edge ends the wait.
    Registered,
    /// Edges must be requested first.
    Unregistered,
    /// No wait is needed: an edge has been reported since the last attempt.
    Ready,
    /// The record is not trusted; one event must be requested.
    Untrusted,
}

fn record(descriptor: i32) -> Option<&'static AtomicU32> {
    RECORDS.get(usize::try_from(descriptor).ok()?)
}

fn epoch() -> u32 {
    PROCESSES.load(Ordering::Relaxed) << EPOCH_SHIFT & EPOCH
}

fn load(descriptor: i32) -> u32 {
    record(descriptor).map_or(0, |record| record.load(Ordering::SeqCst))
}

/// Whether a record has these bits and belongs to the current epoch.
fn has(value: u32, bits: u32) -> bool {
    value & bits == bits && value & EPOCH == epoch()
}

/// Notes that the process has opened a socket.
pub(crate) fn open(descriptor: i32) {
    if let Some(record) = record(descriptor) {
        USED.fetch_max(descriptor as u32 + 1, Ordering::Relaxed);
        record.store(OPENED | epoch(), Ordering::SeqCst);
    }
}

/// The registration of a descriptor whose record was cleared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cleared {
    Unregistered,
    /// The registration ends with the descriptor, which nothing shares.
    Registered,
    /// The registration may outlive the descriptor, because another process has the socket as well.
    Shared,
}

/// Distrusts a descriptor until it is opened again.
pub(super) fn clear(descriptor: i32) -> Cleared {
    let Some(record) = record(descriptor).filter(|record| record.load(Ordering::Relaxed) != 0)
    else {
        return Cleared::Unregistered;
    };
    let old = record.swap(0, Ordering::SeqCst);
    match old & REGISTERED != 0 {
        false => Cleared::Unregistered,
        true if has(old, REGISTERED) => Cleared::Registered,
        true => Cleared::Shared,
    }
}

/// Notes that the flags or options of a socket may have changed.
pub(crate) fn forget_flags(descriptor: i32) {
    if load(descriptor) != 0
        && let Some(record) = record(descriptor)
    {
        record.fetch_add(CHANGE, Ordering::SeqCst);
        record.fetch_and(!(PLAIN | NONBLOCKING | DRAINED), Ordering::SeqCst);
    }
}

/// Notes that a process may have been created, which shares all descriptors.
pub(crate) fn share_all() {
    PROCESSES.fetch_add(1, Ordering::Relaxed);
}

/// The record of a socket that the process has opened and that nothing shares, before its flags are read.
pub(crate) fn own(descriptor: i32) -> Option<u32> {
    Some(load(descriptor)).filter(|value| has(*value, OPENED))
}

/// Whether the socket is known to be blocking and without timeouts.
pub(crate) fn is_plain(descriptor: i32) -> bool {
    has(load(descriptor), OPENED | PLAIN)
}

/// Whether the program is known to have made the socket non-blocking.
pub(crate) fn is_nonblocking(descriptor: i32) -> bool {
    has(load(descriptor), OPENED | NONBLOCKING)
}

/// Notes whether the socket is a blocking TCP socket without timeouts, unless its record has changed since [`own`].
pub(crate) fn set_plain(descriptor: i32, own: u32, is_plain: bool) {
    change(descriptor, own, if is_plain { own | PLAIN } else { own & !OPENED });
}

/// Notes that the socket is non-blocking. Unless it is a TCP socket, a partial result may be followed by more bytes
/// that have already arrived.
pub(crate) fn set_nonblocking(descriptor: i32, own: u32, is_tcp: bool) {
    change(descriptor, own, if is_tcp { own | NONBLOCKING } else { own & !OPENED });
}

fn change(descriptor: i32, own: u32, new: u32) {
    if let Some(record) = record(descriptor) {
        let _ = record.compare_exchange(own, new, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Notes that a thread is about to receive.
pub(crate) fn begin_attempt(descriptor: i32) {
    const TRANSIENT: u32 = EVENT | DRAINED | WAITING | MONITOR_SEEN;
    if load(descriptor) & TRANSIENT != 0
        && let Some(record) = record(descriptor)
    {
        record.fetch_and(!TRANSIENT, Ordering::SeqCst);
    }
}

/// The number of descriptors that may have records.
pub(super) fn used() -> i32 {
    USED.load(Ordering::Relaxed) as i32
}

/// Notes that a thread has received all that had arrived: fewer bytes than it asked for, or nothing.
pub(crate) fn drained(descriptor: i32) {
    let is_known = is_plain(descriptor) || is_nonblocking(descriptor);
    if let Some(record) = record(descriptor).filter(|_| is_known) {
        record.fetch_or(DRAINED, Ordering::SeqCst);
    }
}

/// Whether an attempt to receive would find nothing, unless the socket has been made non-blocking.
pub(crate) fn is_drained(descriptor: i32) -> bool {
    is_plain(descriptor) && is_quiet(descriptor)
}

/// Whether nothing has arrived since the last attempt, which took everything.
pub(crate) fn is_quiet(descriptor: i32) -> bool {
    let value = load(descriptor);
    value & (EVENT | ENDED) == 0 && has(value, OPENED | REGISTERED | DRAINED)
}

/// Whether bytes have arrived since the last attempt, and nothing else.
pub(crate) fn has_bytes(descriptor: i32) -> bool {
    let value = load(descriptor);
    value & ENDED == 0 && has(value, OPENED | REGISTERED | EVENT)
}

/// Ends an event before the thread looks at the descriptor. Returns whether there was one.
pub(crate) fn take_event(descriptor: i32) -> bool {
    load(descriptor) & EVENT != 0
        && record(descriptor).is_some_and(|record| {
            record.fetch_and(!EVENT, Ordering::SeqCst) & (EVENT | REGISTERED) == EVENT | REGISTERED
        })
}

/// Notes that a thread begins to wait, under the lock of the descriptor's bucket. A thread that is to receive waits for a
/// plain socket, and one that calls `poll` for any that the process has opened.
pub(super) fn begin_wait(descriptor: i32, interest: u32, is_poll: bool) -> Wait {
    let value = load(descriptor);
    let Some(record) = record(descriptor) else { return Wait::Untrusted };
    let known = if is_poll { OPENED } else { OPENED | PLAIN };
    if interest != IN || value & ENDED != 0 || !has(value, known) {
        return Wait::Untrusted;
    }
    if value & REGISTERED == 0 {
        return Wait::Unregistered;
    }
    // An edge is recorded before its waiters are looked up, so either the edge or the waiter is seen.
    match record.fetch_or(WAITING, Ordering::SeqCst) & EVENT == 0 {
        true => Wait::Registered,
        false => Wait::Ready,
    }
}

/// Notes that the epoll reports edges of the socket, under the lock of the bucket.
pub(super) fn set_registered(descriptor: i32) {
    if let Some(record) = record(descriptor) {
        let old = record.load(Ordering::SeqCst);
        let new = old | REGISTERED | WAITING;
        let _ = record.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst);
    }
}

/// Notes that the epoll will report one event only, under the lock of the bucket.
pub(super) fn clear_registered(descriptor: i32) {
    if load(descriptor) & REGISTERED != 0
        && let Some(record) = record(descriptor)
    {
        record.fetch_and(!(REGISTERED | WAITING | MONITOR_SEEN), Ordering::SeqCst);
    }
}

/// Restores an event that was taken.
pub(crate) fn give_event(descriptor: i32) {
    note_event(descriptor, IN);
}

/// Notes an event of the epoll.
pub(super) fn note_event(descriptor: i32, events: u32) {
    if load(descriptor) & REGISTERED != 0
        && let Some(record) = record(descriptor)
    {
        let ends = if events & !(IN | OUT) == 0 { 0 } else { ENDED };
        record.fetch_or(EVENT | ends, Ordering::SeqCst);
    }
}

/// Calls `confirm` with descriptors whose waits have lasted since the last call, at most [`MAX_CONFIRMATIONS`]. Returns
/// whether other waits must be confirmed later.
pub(super) fn confirm_old(mut confirm: impl FnMut(i32)) -> bool {
    let used = USED.load(Ordering::Relaxed) as usize;
    let first = (NEXT.load(Ordering::Relaxed) as usize).min(used);
    let (mut confirmed, mut is_pending) = (0, false);
    for descriptor in (first..used).chain(0..first) {
        let record = &RECORDS[descriptor];
        let value = record.load(Ordering::Relaxed);
        if value & WAITING == 0 {
            continue;
        }
        if value & MONITOR_SEEN == 0 {
            let seen = value | MONITOR_SEEN;
            let _ = record.compare_exchange(value, seen, Ordering::SeqCst, Ordering::SeqCst);
            is_pending = true;
        } else if confirmed < MAX_CONFIRMATIONS {
            confirm(descriptor as i32);
            confirmed += 1;
            NEXT.store(descriptor as u32 + 1, Ordering::Relaxed);
        } else {
            is_pending = true;
        }
    }
    is_pending
}

/// Whether there is an unconfirmed wait.
pub(super) fn has_waits() -> bool {
    let used = USED.load(Ordering::Relaxed) as usize;
    RECORDS.iter().take(used).any(|record| record.load(Ordering::SeqCst) & WAITING != 0)
}

/// Whether a wait has lasted since the last call of [`confirm_old`].
pub(super) fn is_old_wait(descriptor: i32) -> bool {
    load(descriptor) & (REGISTERED | WAITING | MONITOR_SEEN) == REGISTERED | WAITING | MONITOR_SEEN
}

/// Notes that a wait is confirmed.
pub(super) fn confirmed(descriptor: i32) {
    if let Some(record) = record(descriptor) {
        record.fetch_and(!(WAITING | MONITOR_SEEN), Ordering::SeqCst);
    }
}

/// Clears the records in a child process.
pub(super) fn reset() {
    let used = USED.swap(0, Ordering::Relaxed) as usize;
    RECORDS.iter().take(used).for_each(|record| record.store(0, Ordering::Relaxed));
}
