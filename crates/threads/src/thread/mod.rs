//! The record of a thread. It is in the thread's static thread-local storage, so it lives as long as the thread, needs
//! no allocation, and is found from any `pthread_t` by a constant offset.
//!
//! # Safety
//!
//! The record is zero at the start of a thread, which is a valid record. Fields that other threads reach are atomic, or
//! are accessed under the lock that their comment names, or are handed over with the thread's state.

pub(crate) mod masked;
pub(crate) mod site;
pub(crate) mod state;
pub(crate) mod switch;
pub(crate) mod wait;

use core::arch::{asm, global_asm};
use core::cell::{Cell, UnsafeCell};
use core::mem::offset_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::system::lock::Lock;
use crate::thread::state::RUNNING;

/// Bits of [`Thread::requests`].
pub(crate) const CANCEL: u32 = 1;
pub(crate) const SIGNAL: u32 = 2;
/// The thread stays at home; it need not handle later requests.
pub(crate) const STAYS_HOME: u32 = 4;
/// The thread runs at home, where the C library can cancel it. A thread with a request does not leave its home.
pub(crate) const AT_HOME: u32 = 8;

/// Number of captures after which a thread stays at home.
const MAX_CAPTURES: u32 = 16;
/// Number of runs without a capture that make up for one.
const RUNS_PER_CAPTURE: u32 = 16;

/// A kernel thread of this library: the data that a thread needs to leave it.
pub(crate) struct Carrier {
    pub(crate) sp: Cell<usize>,
    pub(crate) fs: Cell<usize>,
    /// The number of its lane, plus one.
    pub(crate) lane: u16,
}

/// The rest of a large message. The data is null if there is none, or the transfer has been stopped.
pub(crate) struct Transfer {
    pub(crate) data: *const u8,
    pub(crate) left: usize,
    pub(crate) flags: usize,
}

/// An entry of the parking table.
pub(crate) struct Node {
    pub(crate) key: usize,
    pub(crate) next: *mut Node,
    pub(crate) thread: *const Thread,
    /// Events for which the thread waits, if the key is a descriptor.
    pub(crate) interest: u32,
    pub(crate) woken: AtomicBool,
    /// Whether another thread has closed the descriptor.
    pub(crate) is_closed: AtomicBool,
}

impl Node {
    pub(crate) fn new(thread: &Thread, key: usize, interest: u32) -> Node {
        let (woken, is_closed) = (AtomicBool::new(false), AtomicBool::new(false));
        Node { key, next: null_mut(), thread, interest, woken, is_closed }
    }

    /// Whether the node has been taken out of the table, after which the thread is notified.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }
}

/// A thread of the program.
#[repr(C, align(64))]
pub(crate) struct Thread {
    /// The stack pointer while the thread runs nowhere.
    pub(crate) sp: Cell<usize>,
    pub(crate) fs: Cell<usize>,
    /// The carrier that runs the thread; null at home.
    pub(crate) carrier: Cell<*mut Carrier>,
    /// The action of the kernel thread that the thread leaves.
    pub(crate) action: Cell<Action>,
    /// Whether the thread runs at home until its end.
    pub(crate) stays_home: Cell<bool>,
    /// The value of `stays_home` before the current call of `vfork`.
    pub(crate) stayed_home_before_vfork: Cell<bool>,
    /// Whether the kernel thread has attributes, such as a priority, that threads created by this one inherit. Such a
    /// thread waits for locks in the kernel, which respects priorities.
    pub(crate) is_separate: AtomicBool,
    /// The top of the stack on which the home waits; 0 if the thread cannot leave its home.
    pub(crate) home_stack: Cell<usize>,
    /// The signal mask of the program for this thread, while it is not at home.
    pub(crate) mask: Cell<u64>,
    /// Signals of the process that the thread accepts, if recorded.
    pub(crate) accepts: AtomicU64,
    /// Whether the running kernel thread blocks the signals whose handlers might call this library.
    pub(crate) is_masked: Cell<bool>,
    /// A score: each time that the thread occupies a carrier, or waits for one, while all carriers are blocked adds
    /// `RUNS_PER_CAPTURE`, and each run without this subtracts 1.
    pub(crate) captures: AtomicU32,
    pub(crate) tid: Cell<u32>,
    /// See `state.rs`.
    pub(crate) state: AtomicU32,
    /// 1 asks the home to continue the thread.
    pub(crate) home: AtomicU32,
    pub(crate) requests: AtomicU32,
    /// Signals of `pthread_kill` that the thread must handle at home.
    pub(crate) signals: AtomicU64,
    /// The next thread of the run queue, under its lock.
    pub(crate) next: AtomicPtr<Thread>,
    /// Position in the heap of timers plus one, and the time, under its lock.
    pub(crate) timer: Cell<usize>,
    pub(crate) deadline: AtomicU64,
    /// The thread that this one joins.
    pub(crate) joins: AtomicPtr<Thread>,
    pub(crate) is_cancelled: AtomicBool,
    pub(crate) is_detached: AtomicBool,
    /// Whether the thread announces its end. The first thread does, and threads created through this library.
    pub(crate) announces_end: AtomicBool,
    /// Whether the destructors of thread-specific data have run.
    pub(crate) has_ended: AtomicBool,
    /// Under the lock of the bucket in which the node is.
    pub(crate) node: UnsafeCell<Node>,
    /// The node of a wait for a barrier. Such a wait is not a cancellation point, so an asynchronous cancellation
    /// leaves the node in the table.
    pub(crate) barrier_node: UnsafeCell<Node>,
    /// The site at which it waits, or waited last.
    pub(crate) site: Cell<u8>,
    /// The lane of the carrier that ran it last, plus one; 0 if none has.
    pub(crate) last_lane: Cell<u16>,
    /// The lane of a carrier's own thread, plus one; 0 for threads of the program.
    pub(crate) own_lane: Cell<u16>,
    /// The time at which it became runnable, if times are measured.
    pub(crate) ready_at: Cell<u64>,
    /// The transfer that the polling thread continues.
    pub(crate) transfer: Lock<Transfer>,
    /// Whether the thread's current call has begun a transfer.
    pub(crate) has_transfer: Cell<bool>,
    /// The signal mask that the thread has set. Within a handler the kernel blocks more.
    pub(crate) own_mask: Cell<u64>,
    /// Whether the stack on which the home waits is a separate mapping.
    pub(crate) has_mapped_stack: Cell<bool>,
    /// Signals of the process that it accepts at home for others (`acceptors.rs`).
    pub(crate) represents: Cell<u64>,
    /// Changes when the thread's own node or a notification is taken (`wait.rs`).
    pub(crate) disturbances: Cell<u32>,
    /// Number of critical sections of this library that the thread is in.
    pub(crate) locks: Cell<u32>,
    /// The neighbours in the list of threads, under its lock (`all.rs`).
    pub(crate) neighbours: Cell<[*mut Thread; 2]>,
}

/// See [`Thread::action`].
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub(crate) enum Action {
    /// The thread is parked, unless it has been notified.
    Park = 0,
    /// The thread is runnable.
    Yield = 1,
    /// The thread continues at home.
    GoHome = 2,
}

global_asm!(
    ".section .tbss,\"awT\",@nobits",
    ".p2align 6",
    ".hidden phalanx_thread",
    ".globl phalanx_thread",
    "phalanx_thread: .zero 512",
    ".size phalanx_thread, 512",
    ".type phalanx_thread, @tls_object",
    ".text",
);

const _: () = assert!(size_of::<Thread>() <= 512);
// packaging/gdb/phalanx-threads.py contains these numbers.
const _: () = assert!(
    offset_of!(Thread, sp) == 0
        && offset_of!(Thread, fs) == 8
        && offset_of!(Thread, state) == 68
        && offset_of!(Thread, home) == 72
);

/// The offset of the record from the FS base, which is negative.
fn offset() -> usize {
    let offset: usize;
    unsafe {
        asm!("mov {}, qword ptr [rip + phalanx_thread@GOTTPOFF]", out(reg) offset, options(nostack, preserves_flags, readonly));
    }
    offset
}

/// The record of the thread whose FS base is loaded.
#[inline]
pub(crate) fn current() -> &'static Thread {
    let base: usize;
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) base, options(nostack, preserves_flags, readonly));
    }
    of(base)
}

/// The record of a thread by its `pthread_t`, which in glibc is the FS base.
#[inline]
pub(crate) fn of(pthread: usize) -> &'static Thread {
    unsafe { &*(pthread.wrapping_add(offset()) as *const Thread) }
}

impl Thread {
    /// Records a capture.
    pub(crate) fn count_capture(&self) {
        self.captures.fetch_add(RUNS_PER_CAPTURE, Ordering::Relaxed);
    }

    /// Records a run without a capture. Earlier captures may have been preemptions by other processes.
    #[inline]
    pub(crate) fn forgive_captures(&self) {
        if self.captures.load(Ordering::Relaxed) != 0 {
            self.captures.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether the thread computes or spins too often for too long to share a carrier.
    #[inline]
    pub(crate) fn is_captured_often(&self) -> bool {
        self.captures.load(Ordering::Relaxed) >= MAX_CAPTURES * RUNS_PER_CAPTURE
    }

    /// Whether the thread's blocking calls are converted.
    #[inline]
    pub(crate) fn is_convertible(&self) -> bool {
        self.home_stack.get() != 0 && !self.stays_home.get()
    }

    /// Whether the thread's own node has been woken, or was used by a handler that has waited in the meantime.
    pub(crate) fn is_woken(&self, key: usize) -> bool {
        !self.has_node(key) || unsafe { &*self.node.get() }.is_woken()
    }

    /// Whether the descriptor for which the thread last waited was closed during the wait.
    pub(crate) fn found_closed(&self) -> bool {
        unsafe { &*self.node.get() }.is_closed.load(Ordering::Relaxed)
    }

    /// Whether the thread's own node was inserted for `key` and has not been removed since. It may have been woken.
    pub(crate) fn has_node(&self, key: usize) -> bool {
        self.node_key() == key
    }

    /// The key for which the thread's own node was inserted; 0 if it has been removed since.
    pub(crate) fn node_key(&self) -> usize {
        // Other threads do not write the key.
        unsafe { &*self.node.get() }.key
    }

    /// Whether the thread runs on a carrier.
    #[inline]
    pub(crate) fn is_hollow(&self) -> bool {
        !self.carrier.get().is_null()
    }

    pub(crate) fn as_ptr(&self) -> *mut Thread {
        core::ptr::from_ref(self).cast_mut()
    }

    /// The kernel's identity of the home.
    #[inline]
    pub(crate) fn home_tid(&self) -> u32 {
        if self.tid.get() == 0 && !self.is_hollow() {
            self.find_tid();
        }
        self.tid.get()
    }

    #[cold]
    fn find_tid(&self) {
        self.tid.set(crate::system::sys::call(crate::system::sys::SYS_GETTID, [0; 6]) as u32);
    }

    /// Makes the thread stay at home, in a child process in which it is the only thread.
    pub(crate) fn reset_in_child(&self) {
        self.stays_home.set(true);
        self.requests.store(STAYS_HOME | AT_HOME, Ordering::Relaxed);
        self.carrier.set(null_mut());
        self.tid.set(0);
        self.state.store(RUNNING, Ordering::Relaxed);
        // A handler that has interrupted a wait may have created the child.
        self.timer.set(0);
        unsafe { &mut *self.node.get() }.key = 0;
        unsafe { &mut *self.barrier_node.get() }.key = 0;
    }
}
