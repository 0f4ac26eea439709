//! System calls without the C library, and its constants. Nothing here uses thread-local storage, so it works on every
//! stack and with every FS base.
//!
//! # Safety
//!
//! The kernel checks the arguments; callers pass memory that the call may write.

use core::arch::asm;
use core::sync::atomic::AtomicU32;

pub(crate) const SYS_WRITE: usize = 1;
pub(crate) const SYS_CLOSE: usize = 3;
pub(crate) const SYS_FSTAT: usize = 5;
pub(crate) const SYS_POLL: usize = 7;
pub(crate) const SYS_MMAP: usize = 9;
pub(crate) const SYS_MUNMAP: usize = 11;
pub(crate) const SYS_IOCTL: usize = 16;
pub(crate) const SYS_RT_SIGACTION: usize = 13;
pub(crate) const SYS_RT_SIGPROCMASK: usize = 14;
pub(crate) const SYS_SCHED_YIELD: usize = 24;
pub(crate) const SYS_ACCEPT: usize = 43;
pub(crate) const SYS_GETPID: usize = 39;
pub(crate) const SYS_SENDMSG: usize = 46;
pub(crate) const SYS_SENDTO: usize = 44;
pub(crate) const SYS_RECVFROM: usize = 45;
pub(crate) const SYS_RECVMSG: usize = 47;
pub(crate) const SYS_SETSOCKOPT: usize = 54;
pub(crate) const SYS_GETSOCKOPT: usize = 55;
pub(crate) const SYS_FCNTL: usize = 72;
pub(crate) const SYS_RT_SIGPENDING: usize = 127;
pub(crate) const SYS_RT_SIGTIMEDWAIT: usize = 128;
pub(crate) const SYS_SIGALTSTACK: usize = 131;
pub(crate) const SYS_SCHED_GETSCHEDULER: usize = 145;
pub(crate) const SYS_GETTID: usize = 186;
pub(crate) const SYS_FUTEX: usize = 202;
pub(crate) const SYS_EXIT_GROUP: usize = 231;
pub(crate) const SYS_EPOLL_WAIT: usize = 232;
pub(crate) const SYS_EPOLL_CTL: usize = 233;
pub(crate) const SYS_SCHED_SETATTR: usize = 314;
pub(crate) const SYS_RT_TGSIGQUEUEINFO: usize = 297;
pub(crate) const SYS_EVENTFD2: usize = 290;
pub(crate) const SYS_EPOLL_CREATE1: usize = 291;
pub(crate) const SYS_PREADV2: usize = 327;
pub(crate) const SYS_PWRITEV2: usize = 328;

pub(crate) const ENOENT: i32 = 2;
pub(crate) const EINTR: i32 = 4;
pub(crate) const EBADF: i32 = 9;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const ENOMEM: i32 = 12;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ENOSYS: i32 = 38;
pub(crate) const EPIPE: i32 = 32;
pub(crate) const EINPROGRESS: i32 = 115;
pub(crate) const EDEADLK: i32 = 35;
pub(crate) const ENOTSOCK: i32 = 88;
pub(crate) const EOPNOTSUPP: i32 = 95;
pub(crate) const ETIMEDOUT: i32 = 110;

/// A time of the C library: seconds and nanoseconds.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Timespec {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
}

/// A system call with up to six arguments; a negative result is an error number.
pub(crate) fn call(number: usize, a: [usize; 6]) -> isize {
    let result: isize;
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result, in("rdi") a[0], in("rsi") a[1], in("rdx") a[2],
            in("r10") a[3], in("r8") a[4], in("r9") a[5], lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Waits while `word` has the value `expected`, at most until `deadline` (monotonic nanoseconds). Returns 0 or an
/// error number: `EAGAIN`, `EINTR`, `ETIMEDOUT`.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, deadline: Option<u64>) -> i32 {
    // FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG: its deadline is absolute.
    let time = deadline.map(timespec);
    let time = time.as_ref().map_or(0, |time| core::ptr::from_ref(time) as usize);
    let word = core::ptr::from_ref(word) as usize;
    -call(SYS_FUTEX, [word, 9 | 128, expected as usize, time, 0, u32::MAX as usize]) as i32
}

/// Wakes up to `count` waiters of `word`, which may have been unmapped.
pub(crate) fn futex_wake(word: *const AtomicU32, count: usize) {
    call(SYS_FUTEX, [word as usize, 1 | 128, count, 0, 0, 0]);
}

pub(crate) fn timespec(nanoseconds: u64) -> Timespec {
    let (seconds, rest) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    Timespec { seconds: seconds as i64, nanoseconds: rest as i64 }
}

unsafe extern "C" {
    fn clock_gettime(clock: i32, time: *mut Timespec) -> i32;
    fn __errno_location() -> *mut i32;
}

/// The process ID.
pub(crate) fn process() -> u32 {
    call(SYS_GETPID, [0; 6]) as u32
}

/// The time of a clock in nanoseconds: 0 is real time, 1 monotonic time. The vDSO needs no thread-local storage.
pub(crate) fn clock(clock: i32) -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    unsafe { clock_gettime(clock, &raw mut time) };
    time.seconds as u64 * 1_000_000_000 + time.nanoseconds as u64
}

/// Monotonic time in nanoseconds.
pub(crate) fn now() -> u64 {
    clock(1)
}

/// Sets `errno` of the thread whose FS base is loaded, and returns -1.
pub(crate) fn fail(error: i32) -> isize {
    unsafe { *__errno_location() = error };
    -1
}

/// The result of a system call in the convention of the C library.
pub(crate) fn result(result: isize) -> isize {
    if (-4095..0).contains(&result) { fail(-result as i32) } else { result }
}

/// The kind of a file.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum FileKind {
    /// A regular file, a block device, or a directory, which have no readiness.
    Stored,
    /// A named or unnamed pipe.
    Pipe,
    /// A terminal or another device.
    Device,
    /// Sockets, files of the kernel for events, and descriptors that are not open.
    Other,
}

/// The kind of the file of a descriptor.
pub(crate) fn kind_of_file(descriptor: i32) -> FileKind {
    // The mode is at byte 24 of the 144 bytes of `struct stat`.
    let mut stat = [0_u32; 36];
    let result = call(SYS_FSTAT, [descriptor as usize, stat.as_mut_ptr() as usize, 0, 0, 0, 0]);
    match stat[6] & 0o170_000 {
        _ if result != 0 => FileKind::Other,
        0o100_000 | 0o060_000 | 0o040_000 => FileKind::Stored,
        0o010_000 => FileKind::Pipe,
        0o020_000 => FileKind::Device,
        _ => FileKind::Other,
    }
}

/// Whether a descriptor refers to a file without readiness.
pub(crate) fn is_stored(descriptor: i32) -> bool {
    kind_of_file(descriptor) == FileKind::Stored
}

/// Whether the process may open another descriptor.
pub(crate) fn has_free_descriptor() -> bool {
    const CLOEXEC: usize = 0x80000;
    let opened = call(SYS_EVENTFD2, [0, CLOEXEC, 0, 0, 0, 0]);
    if opened >= 0 {
        call(SYS_CLOSE, [opened as usize, 0, 0, 0, 0, 0]);
    }
    opened >= 0
}

/// Whether a descriptor refers to a pipe.
pub(crate) fn is_pipe(descriptor: i32) -> bool {
    kind_of_file(descriptor) == FileKind::Pipe
}

/// Sets the calling kernel thread's signal mask and returns the old one.
pub(crate) fn set_signal_mask(mask: u64) -> u64 {
    let mut old = 0_u64;
    call(SYS_RT_SIGPROCMASK, [2, &raw const mask as usize, &raw mut old as usize, 8, 0, 0]);
    old
}

/// The calling kernel thread's signal mask.
pub(crate) fn signal_mask() -> u64 {
    let mut mask = 0_u64;
    call(SYS_RT_SIGPROCMASK, [0, 0, &raw mut mask as usize, 8, 0, 0]);
    mask
}

/// The signals that are pending for the process or the calling kernel thread.
pub(crate) fn pending_signals() -> u64 {
    let mut set = 0_u64;
    call(SYS_RT_SIGPENDING, [&raw mut set as usize, 8, 0, 0, 0, 0]);
    set
}

/// Sets the stack of the calling kernel thread for handlers with `SA_ONSTACK`.
pub(crate) fn set_signal_stack(stack: *mut u8, bytes: usize) {
    // Address, flags, size.
    let stack = [stack as usize, 0, bytes];
    call(SYS_SIGALTSTACK, [stack.as_ptr() as usize, 0, 0, 0, 0, 0]);
}

/// Reads the stack of the calling kernel thread for handlers, as [`set_signal_stack`] sets it.
pub(crate) fn signal_stack(stack: &mut [usize; 3]) {
    call(SYS_SIGALTSTACK, [0, stack.as_mut_ptr() as usize, 0, 0, 0, 0]);
}

/// Signals that threads block while their code is, or may be, on a carrier: all but faults and SIGPIPE, which belong
/// to the running code, and glibc's signal 33, to which every kernel thread must react.
pub(crate) const CARRIER_MASK: u64 =
    !(bit(4) | bit(5) | bit(7) | bit(8) | bit(11) | bit(13) | bit(31) | bit(33));

/// Signals that a parked home blocks: faults as well, as far as the kernel permits.
pub(crate) const HOME_MASK: u64 = !bit(33);

pub(crate) const fn bit(signal: u32) -> u64 {
    1 << (signal - 1)
}
