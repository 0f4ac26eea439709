//! Blocking sites: where a thread blocks. Threads that block at the same site run in cohorts.
//!
//! A site is the return address of the program's call, the depth of its stack, and the kind of the wait. The depth
//! distinguishes callers of a common function, such as a library's wrapper of a lock.
//!
//! # Safety
//!
//! The library is compiled with frame pointers, so the chain of frames from a function of this crate to the function that
//! the program called is intact. The walk ends at the first return address outside of the library, reads no frame of the
//! program, and reads only the stack of the calling thread, above its stack pointer.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::limits::SITES;
use crate::thread::Thread;

/// The site of threads that have called `sched_yield`.
pub(crate) const YIELDED: u8 = 0;
/// The catch-all site: unknown callers, and all new callers once the table is full.
pub(crate) const OTHER: u8 = SITES as u8 - 1;

/// The kinds of waits.
#[derive(Clone, Copy, PartialEq)]
#[repr(u8)]
pub(crate) enum Kind {
    Time = 0,
    /// A lock, a condition or a semaphore.
    Object = 1,
    Readable = 2,
    Writable = 3,
}

/// Bits of a key: the address, which is below 2⁴⁷, then the kind, then the depth.
const ADDRESS_BITS: u32 = 47;
const DEPTH_BITS: u32 = 15;
/// Maximum number of this library's frames between a wait and the program.
const MAX_FRAMES: usize = 16;
/// Maximum size of one of this library's frames; a larger step means a broken chain.
const MAX_FRAME_BYTES: usize = 16 * 1024;

/// The keys of sites, in the order of their first use.
static KEYS: [AtomicU64; SITES] = [const { AtomicU64::new(0) }; SITES];

/// A site for a report.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub(crate) address: usize,
    pub(crate) depth: usize,
    pub(crate) kind: Kind,
}

unsafe extern "C" {
    static __ehdr_start: u8;
    static etext: u8;
}

/// Whether an address is in this library.
pub(crate) fn is_own(address: usize) -> bool {
    (&raw const __ehdr_start as usize..&raw const etext as usize).contains(&address)
}

/// The site at which the calling thread is about to wait.
pub(crate) fn here(thread: &Thread, kind: Kind) -> u8 {
    let mut frame: usize;
    unsafe { asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    for _ in 0..MAX_FRAMES {
        let [next, address] = unsafe { (frame as *const [usize; 2]).read() };
        if !is_own(address) {
            return number(address, thread.home_stack.get().wrapping_sub(frame), kind);
        }
        if next <= frame || next - frame > MAX_FRAME_BYTES {
            break;
        }
        frame = next;
    }
    OTHER
}

/// Returns the number of a site, assigning a free one on first use.
fn number(address: usize, depth: usize, kind: Kind) -> u8 {
    let depth = (depth as u64 >> 4) & ((1 << DEPTH_BITS) - 1);
    let address = address as u64 & ((1 << ADDRESS_BITS) - 1);
    let key = address | (kind as u64) << ADDRESS_BITS | depth << (ADDRESS_BITS + 2);
    for site in YIELDED + 1..OTHER {
        let known = &KEYS[usize::from(site)];
        let found = match known.load(Ordering::Relaxed) {
            0 => known.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed),
            found => Err(found),
        };
        if found.is_ok_and(|old| old == 0) || found == Err(key) {
            return site;
        }
    }
    OTHER
}

/// The site with this number; none if the number is unused, `YIELDED` or `OTHER`.
pub(crate) fn of(site: usize) -> Option<Site> {
    let key = KEYS[site].load(Ordering::Relaxed);
    let kinds = [Kind::Time, Kind::Object, Kind::Readable, Kind::Writable];
    let site = Site {
        address: (key & ((1 << ADDRESS_BITS) - 1)) as usize,
        depth: (key >> (ADDRESS_BITS + 2) << 4) as usize,
        kind: kinds[(key >> ADDRESS_BITS & 3) as usize],
    };
    (key != 0).then_some(site)
}
