//! Calls that wait for several descriptors: `poll`, `select`, `epoll_wait` and their variants.
//!
//! # Safety
//!
//! The caller passes arrays, sets and times that the C library may read and write. Nodes are on the stack of the waiting
//! thread, and are removed before the function returns.

use core::mem::MaybeUninit;

use crate::calls::descriptors::wait::{Ready, convertible};
use crate::calls::threads::signals::must_return;
use crate::carriers::monitor;
use crate::readiness::records;
use crate::readiness::watch::{self, Armed};
use crate::schedule::home::go_home;
use crate::system::real;
use crate::system::sys::{self, Timespec};
use crate::thread::wait::Wait;
use crate::thread::{Node, Thread};
use crate::waiting::key::{IN, OUT, PRI, key};
use crate::waiting::park::{Woken, park};
use crate::waiting::table;

/// Calls with more descriptors wait at home.
const MAX_DESCRIPTORS: usize = 64;
/// Number of events without a result after which the call continues in the kernel, because `select` ignores some
/// events.
const MAX_EVENTS: u32 = 16;
/// Bits of a set for `select`.
const SET_BITS: usize = 1024;

/// A request of `poll`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Request {
    descriptor: i32,
    events: u16,
    returned: u16,
}

type Set = [u64; SET_BITS / 64];

/// Repeats an attempt that does not block until it does not return 0, or until `deadline`. If bytes have arrived for
/// the only request, `report` replaces an attempt where possible. Returns `None` if the thread has returned home, where
/// it must continue with the remaining time.
fn repeat(
    thread: &Thread,
    requests: &[Request],
    deadline: Option<u64>,
    attempt: &mut dyn FnMut() -> i32,
    report: Option<&dyn Fn()>,
) -> Option<i32> {
    let mut is_quiet = is_one_for_bytes(requests) && records::is_quiet(requests[0].descriptor);
    for _ in 0..MAX_EVENTS {
        if !is_quiet {
            let ready = probe(requests, attempt);
            if ready != 0 {
                return Some(ready);
            }
        }
        is_quiet = false;
        match wait(thread, requests, deadline) {
            Ready::Retry => {
                if let Some(report) = report
                    && is_one_for_bytes(requests)
                    // An event may be recorded after another thread has received its bytes. Only a program that uses
                    // non-blocking sockets can handle such an event.
                    && records::is_nonblocking(requests[0].descriptor)
                    && records::has_bytes(requests[0].descriptor)
                {
                    report();
                    return Some(1);
                }
            }
            Ready::TimedOut => return Some(attempt()),
            Ready::Interrupted => return Some(sys::fail(sys::EINTR) as i32),
            Ready::Natively | Ready::Unsupported | Ready::Closed => break,
        }
    }
    go_home(thread);
    None
}

/// Whether the only request is for bytes to receive.
fn is_one_for_bytes(requests: &[Request]) -> bool {
    matches!(requests, [request] if u32::from(request.events) == IN)
}

/// Makes an attempt that receives nothing, so the events that it takes are restored.
fn probe(requests: &[Request], attempt: &mut dyn FnMut() -> i32) -> i32 {
    let mut taken = 0_u64;
    for (at, request) in requests.iter().enumerate() {
        taken |= u64::from(records::take_event(request.descriptor)) << at;
    }
    let ready = attempt();
    if ready != 0 && taken != 0 {
        for (_, request) in requests.iter().enumerate().filter(|(at, _)| taken >> at & 1 != 0) {
            records::give_event(request.descriptor);
            table::wake(key(request.descriptor), usize::MAX);
        }
    }
    ready
}

/// Waits until one of the descriptors is ready.
fn wait(thread: &Thread, requests: &[Request], deadline: Option<u64>) -> Ready {
    let mut nodes = [const { MaybeUninit::<Node>::uninit() }; MAX_DESCRIPTORS];
    let mut inserted = 0;
    for request in requests {
        let at = key(request.descriptor);
        let node = nodes[inserted].write(Node::new(thread, at, u32::from(request.events)));
        let mut armed = Armed::Refused;
        let arm = |union| {
            armed = watch::arm(request.descriptor, union, true);
            armed == Armed::Waits
        };
        if !unsafe { table::insert_node(node, arm) } {
            remove(&mut nodes[..inserted]);
            return if armed == Armed::Ready { Ready::Retry } else { Ready::Unsupported };
        }
        inserted += 1;
    }
    monitor::wake_up();
    let nodes = &mut nodes[..inserted];
    let mut woken = Woken::Normally;
    let mut wait = Wait::begin(thread);
    while !nodes.iter().any(|node| unsafe { node.assume_init_ref() }.is_woken())
        && woken == Woken::Normally
        && deadline.is_none_or(|at| sys::now() < at)
    {
        woken = park(thread, wait, deadline);
        wait = Wait::begin(thread);
    }
    let ready = remove(nodes);
    match woken {
        // Signal handlers interrupt these calls even with SA_RESTART.
        Woken::Requested if must_return(thread, false) => Ready::Interrupted,
        Woken::Requested => Ready::Natively,
        Woken::Normally | Woken::BySignal if ready => Ready::Retry,
        Woken::BySignal => Ready::Interrupted,
        Woken::Normally => Ready::TimedOut,
    }
}

/// Removes all nodes. Returns whether one has been woken.
fn remove(nodes: &mut [MaybeUninit<Node>]) -> bool {
    nodes
        .iter_mut()
        .fold(false, |ready, node| unsafe { table::remove_node(node.as_mut_ptr()) } | ready)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(super) unsafe extern "C" fn poll(requests: *mut u8, count: u64, timeout: i32) -> i32 {
    let Some(thread) = convertible().filter(|_| timeout != 0) else {
        return unsafe { real::poll(requests, count, timeout) };
    };
    unsafe { poll_until(thread, (requests, count), after_milliseconds(timeout)) }
}

unsafe fn poll_until(
    thread: &Thread,
    (requests, count): (*mut u8, u64),
    deadline: Option<u64>,
) -> i32 {
    let native =
        || continue_until(deadline, |timeout| unsafe { real::poll(requests, count, timeout) });
    let mut used = [Request { descriptor: 0, events: 0, returned: 0 }; MAX_DESCRIPTORS];
    let mut length = 0;
    for at in 0..count as usize {
        let request = unsafe { requests.cast::<Request>().add(at).read() };
        if request.descriptor >= 0 && length < MAX_DESCRIPTORS {
            used[length] = request;
            length += 1;
        } else if request.descriptor >= 0 {
            go_home(thread);
            return native();
        }
    }
    let mut attempt = || unsafe { real::poll(requests, count, 0) };
    let report = || {
        for at in 0..count as usize {
            let request = unsafe { &mut *requests.cast::<Request>().add(at) };
            request.returned = if request.descriptor < 0 { 0 } else { IN as u16 };
        }
    };
    repeat(thread, &used[..length], deadline, &mut attempt, Some(&report)).unwrap_or_else(native)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
pub(super) unsafe extern "C" fn ppoll(
    requests: *mut u8,
    count: u64,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    let native = || unsafe { real::ppoll(requests, count, timeout, mask) };
    let Some(thread) = convertible() else { return native() };
    match after(timeout) {
        // The call does not block.
        Ok(Some(at)) if mask.is_null() && at <= sys::now() => native(),
        Ok(deadline) if mask.is_null() => unsafe {
            poll_until(thread, (requests, count), deadline)
        },
        _ => unsafe { under_mask(thread, mask, native) },
    }
}

/// Makes a call at home, during which another signal mask applies to the kernel thread, if one is given. The mask
/// distinguishes the thread from a handler that runs during the call.
unsafe fn under_mask(thread: &Thread, mask: *const u8, call: impl FnOnce() -> i32) -> i32 {
    go_home(thread);
    let during = unsafe { mask.cast::<u64>().as_ref() };
    let own = thread.own_mask.get();
    thread.own_mask.set(*during.unwrap_or(&own));
    let result = call();
    thread.own_mask.set(own);
    result
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pselect(
    count: i32,
    read: *mut Set,
    write: *mut Set,
    except: *mut Set,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    let native = || unsafe { real::pselect(count, read, write, except, timeout, mask) };
    let Some(thread) = convertible() else { return native() };
    unsafe { under_mask(thread, mask, native) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn select(
    count: i32,
    read: *mut Set,
    write: *mut Set,
    except: *mut Set,
    timeout: *mut Timespec,
) -> i32 {
    let native = || unsafe { real::select(count, read, write, except, timeout) };
    let Some(thread) = convertible() else { return native() };
    let deadline = match unsafe { timeout.as_ref() } {
        None => None,
        Some(time) if time.seconds < 0 || time.nanoseconds < 0 => return native(),
        Some(Timespec { seconds: 0, nanoseconds: 0 }) => return native(),
        // The second field of a `timeval` is in microseconds.
        Some(time) => Some(
            (time.seconds as u64)
                .saturating_mul(1_000_000_000)
                .saturating_add((time.nanoseconds as u64).saturating_mul(1000))
                .saturating_add(sys::now()),
        ),
    };
    let sets = [read, write, except];
    let wanted = sets.map(|set| copy(set, count));
    let mut used = [Request { descriptor: 0, events: 0, returned: 0 }; MAX_DESCRIPTORS];
    let Some(length) = requests(&wanted, count, &mut used) else {
        go_home(thread);
        return native();
    };
    let mut attempt = || {
        for (set, wanted) in sets.iter().zip(&wanted) {
            restore(*set, wanted, count);
        }
        let mut now = Timespec { seconds: 0, nanoseconds: 0 };
        unsafe { real::select(count, read, write, except, &raw mut now) }
    };
    let result = repeat(thread, &used[..length], deadline, &mut attempt, None);
    // As in the kernel, the remaining time is reported.
    if let (Some(time), Some(deadline)) = (unsafe { timeout.as_mut() }, deadline) {
        *time = sys::timespec(deadline.saturating_sub(sys::now()));
        time.nanoseconds /= 1000;
    }
    // On failure the sets are unchanged.
    if result.is_none_or(|result| result < 0) {
        for (set, wanted) in sets.iter().zip(&wanted) {
            restore(*set, wanted, count);
        }
    }
    result.unwrap_or_else(native)
}

/// The words of a set that `select` reads.
fn words(count: i32) -> usize {
    (count.max(0) as usize).min(SET_BITS).div_ceil(64)
}

fn copy(set: *mut Set, count: i32) -> Set {
    let mut copy = [0; SET_BITS / 64];
    if !set.is_null() {
        for (at, word) in copy[..words(count)].iter_mut().enumerate() {
            *word = unsafe { set.cast::<u64>().add(at).read() };
        }
    }
    copy
}

fn restore(set: *mut Set, from: &Set, count: i32) {
    if !set.is_null() {
        for (at, word) in from[..words(count)].iter().enumerate() {
            unsafe { set.cast::<u64>().add(at).write(*word) };
        }
    }
}

/// Converts the sets to requests of `poll`, and returns their number; `None` if there are too many descriptors.
fn requests(sets: &[Set; 3], count: i32, used: &mut [Request; MAX_DESCRIPTORS]) -> Option<usize> {
    let mut length = 0;
    if count as usize > SET_BITS {
        return None;
    }
    for descriptor in 0..count {
        let (word, bit) = (descriptor as usize / 64, descriptor as usize % 64);
        let events = [IN, OUT, PRI].iter().zip(sets);
        let events = events.fold(
            0,
            |all, (event, set)| {
                if set[word] >> bit & 1 == 0 { all } else { all | event }
            },
        );
        if events != 0 {
            *used.get_mut(length)? = Request { descriptor, events: events as u16, returned: 0 };
            length += 1;
        }
    }
    Some(length)
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn epoll_wait(epoll: i32, events: *mut u8, count: i32, timeout: i32) -> i32 {
    let Some(thread) = convertible().filter(|_| timeout != 0) else {
        return unsafe { real::epoll_wait(epoll, events, count, timeout) };
    };
    unsafe { wait_for_epoll(thread, (epoll, events, count), after_milliseconds(timeout)) }
}

unsafe fn wait_for_epoll(
    thread: &Thread,
    (epoll, events, count): (i32, *mut u8, i32),
    deadline: Option<u64>,
) -> i32 {
    let request = Request { descriptor: epoll, events: IN as u16, returned: 0 };
    let mut attempt = || unsafe { real::epoll_wait(epoll, events, count, 0) };
    repeat(thread, &[request], deadline, &mut attempt, None).unwrap_or_else(|| {
        continue_until(deadline, |timeout| unsafe {
            real::epoll_wait(epoll, events, count, timeout)
        })
    })
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn epoll_pwait(
    epoll: i32,
    events: *mut u8,
    count: i32,
    timeout: i32,
    mask: *const u8,
) -> i32 {
    if mask.is_null() {
        return unsafe { epoll_wait(epoll, events, count, timeout) };
    }
    let native = || unsafe { real::epoll_pwait(epoll, events, count, timeout, mask) };
    let Some(thread) = convertible() else { return native() };
    unsafe { under_mask(thread, mask, native) }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn epoll_pwait2(
    epoll: i32,
    events: *mut u8,
    count: i32,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    let native = || unsafe { real::epoll_pwait2(epoll, events, count, timeout, mask) };
    let Some(thread) = convertible() else { return native() };
    match after(timeout) {
        // The call does not block.
        Ok(Some(at)) if mask.is_null() && at <= sys::now() => native(),
        Ok(deadline) if mask.is_null() => unsafe {
            wait_for_epoll(thread, (epoll, events, count), deadline)
        },
        _ => unsafe { under_mask(thread, mask, native) },
    }
}

/// The deadline of a timeout in milliseconds; negative ones are infinite.
fn after_milliseconds(timeout: i32) -> Option<u64> {
    let timeout = u64::try_from(timeout).ok()?;
    Some(sys::now().saturating_add(timeout * 1_000_000))
}

/// The deadline of a time; an error if it is malformed.
fn after(time: *const Timespec) -> Result<Option<u64>, ()> {
    let Some(time) = (unsafe { time.as_ref() }) else { return Ok(None) };
    if time.seconds < 0 || !(0..1_000_000_000).contains(&time.nanoseconds) {
        return Err(());
    }
    let length =
        (time.seconds as u64).saturating_mul(1_000_000_000).saturating_add(time.nanoseconds as u64);
    Ok(Some(sys::now().saturating_add(length)))
}

/// Continues a call at home until its deadline. The kernel's longest timeout is some 24 days.
fn continue_until(deadline: Option<u64>, call: impl Fn(i32) -> i32) -> i32 {
    loop {
        let left = deadline.map(|at| at.saturating_sub(sys::now()).div_ceil(1_000_000));
        let result = call(left.map_or(-1, |left| i32::try_from(left).unwrap_or(i32::MAX)));
        if result != 0 || left.is_none_or(|left| left <= i32::MAX as u64) {
            return result;
        }
    }
}

aliases! { __poll = poll; __select = select; }
