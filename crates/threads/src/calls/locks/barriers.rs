//! Barriers of one process. The number of threads that have arrived is in glibc's memory; the others wait in the table.
//!
//! # Safety
//!
//! A barrier has the layout of glibc for x86-64: arrived threads at byte 0, all of them at byte 8, whether processes share
//! it at byte 12. All threads of the process arrive here, so glibc does not see an incomplete round. The node of a wait is
//! in the record of the thread, and is removed before the function returns, or when the thread is cancelled meanwhile. Within
//! a handler that has interrupted such a wait it is on the stack.

use crate::schedule::home::go_home;
use crate::system::lock::Lock;
use crate::system::real::{self, Object};
use crate::thread::masked::Masked;
use crate::thread::wait::Wait;
use crate::thread::{Node, Thread, current};
use crate::waiting::park::park;
use crate::waiting::table;

const SERIAL_THREAD: i32 = -1;

/// Held while a thread arrives. Nothing else reads a barrier, which may be destroyed by the first thread that leaves.
static ARRIVAL: Lock<()> = Lock::new(());

/// The key of a barrier, which differs from the keys of other objects: a stale release of another object at the same
/// address must not end the wait.
fn key(barrier: Object) -> usize {
    barrier as usize | 1
}

/// A number in the memory of a barrier.
fn number(barrier: Object, at: usize) -> u32 {
    unsafe { barrier.add(at).cast::<u32>().read_volatile() }
}

#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_barrier_wait(barrier: Object) -> i32 {
    let thread = current();
    if number(barrier, 12) != 0 {
        go_home(thread);
        return unsafe { real::pthread_barrier_wait(barrier) };
    }
    let masked = Masked::new();
    let arrival = ARRIVAL.lock();
    let arrived = number(barrier, 0) + 1;
    let is_last = arrived >= number(barrier, 8);
    unsafe { barrier.cast::<u32>().write_volatile(if is_last { 0 } else { arrived }) };
    if is_last {
        table::wake(key(barrier), usize::MAX);
        return SERIAL_THREAD;
    }
    wait(thread, key(barrier), || {
        drop(arrival);
        drop(masked);
    });
    0
}

/// Waits for the end of the round, after `inserted`. The wait is not a cancellation point, and handlers do not end it,
/// because their waits use the thread's main node.
fn wait(thread: &Thread, key: usize, inserted: impl FnOnce()) {
    let mut nested = Node::new(thread, 0, 0);
    let own = thread.barrier_node.get();
    let own = if unsafe { &*own }.key == 0 { own } else { &raw mut nested };
    unsafe { own.write(Node::new(thread, key, 0)) };
    unsafe { table::insert_node(own, |_| true) };
    inserted();
    let mut wait = Wait::begin(thread);
    while !unsafe { &*own }.is_woken() {
        park(thread, wait, None);
        wait = Wait::begin(thread);
    }
    unsafe { table::remove_node(own) };
}

/// As in the C library, the destruction of a barrier waits for the threads that have arrived.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pthread_barrier_destroy(barrier: Object) -> i32 {
    if number(barrier, 12) == 0 {
        let thread = current();
        let masked = Masked::new();
        let arrival = ARRIVAL.lock();
        if number(barrier, 0) != 0 {
            wait(thread, key(barrier), || {
                drop(arrival);
                drop(masked);
            });
        }
    }
    unsafe { real::pthread_barrier_destroy(barrier) }
}

/// Makes the lock free in a child process.
pub(crate) unsafe fn reset() {
    unsafe { ARRIVAL.reset_with(|()| ()) };
}
