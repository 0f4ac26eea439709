//! Requests for readiness: if the record of the descriptor is trusted, by a permanent edge-triggered registration,
//! otherwise by one event at a time.

use core::ops::RangeInclusive;

use crate::readiness::poller;
use crate::readiness::records::{self, Cleared};
use crate::system::flags;
use crate::waiting::key::{IN, key};
use crate::waiting::table;

/// The result of a request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Armed {
    /// An event will come.
    Waits,
    /// An event has come already.
    Ready,
    /// The file has no readiness.
    Refused,
}

/// Requests an event for a thread that is about to wait, under the lock of the descriptor's bucket. `interest` is the
/// union of all waiters' interests. `is_poll` means that the thread calls `poll` and does not receive.
pub(crate) fn arm(descriptor: i32, interest: u32, is_poll: bool) -> Armed {
    let is_armed = match records::begin_wait(descriptor, interest, is_poll) {
        records::Wait::Registered => true,
        records::Wait::Ready => return Armed::Ready,
        records::Wait::Unregistered => {
            let is_registered = poller::register(descriptor);
            if is_registered {
                records::set_registered(descriptor);
            }
            is_registered
        }
        records::Wait::Untrusted => poller::arm(descriptor, interest),
    };
    if is_armed { Armed::Waits } else { Armed::Refused }
}

/// Distrusts a descriptor that is about to be closed.
pub(crate) fn close(descriptor: i32) {
    if records::clear(descriptor) == Cleared::Shared {
        poller::remove(descriptor);
    }
}

/// As [`close`], for all descriptors from `first` to `last`.
pub(crate) fn close_range(first: u32, last: u32) {
    let end = last.saturating_add(1).min(records::used() as u32);
    (first..end).for_each(|descriptor| close(descriptor as i32));
}

/// Ends the waits for a descriptor that is about to be closed, because its number may soon refer to another file. A
/// child of `vfork` shares the memory but closes only its own descriptor.
pub(crate) fn end_waits(descriptor: i32) {
    let at = key(descriptor);
    if table::may_have_waiters(at) && poller::is_owner() {
        table::mark_closed(at);
    }
}

/// As [`end_waits`], for all descriptors of a range.
pub(crate) fn end_all_waits(descriptors: &RangeInclusive<u32>) {
    if poller::is_owner() {
        table::mark_all_closed(descriptors);
    }
}

/// Distrusts a descriptor whose file gets a second descriptor, which may outlive it.
pub(crate) fn share(descriptor: i32) {
    if records::own(descriptor).is_some() {
        table::under_lock(key(descriptor), || {
            if records::clear(descriptor) != Cleared::Unregistered {
                poller::arm(descriptor, IN);
            }
        });
    }
}

/// Confirms the waits that have lasted since the last call. Returns whether there are other unconfirmed ones.
pub(crate) fn confirm() -> bool {
    records::confirm_old(|descriptor| {
        let at = key(descriptor);
        let is_valid =
            table::under_lock(at, || !records::is_old_wait(descriptor) || confirm_one(descriptor));
        if !is_valid {
            records::clear(descriptor);
            table::wake(at, usize::MAX);
        }
    })
}

/// Whether there are unconfirmed waits.
pub(crate) fn has_waits() -> bool {
    records::has_waits()
}

/// Whether a descriptor matches its record. Lost edges are reported again.
fn confirm_one(descriptor: i32) -> bool {
    // A descriptor that is still registered refers to the same socket, whose type does not change.
    let is_plain = || !flags::is_nonblocking(descriptor) && !flags::has_timeouts(descriptor);
    let is_valid = poller::renew(descriptor) && (!records::is_plain(descriptor) || is_plain());
    if is_valid {
        records::confirmed(descriptor);
    }
    is_valid
}
