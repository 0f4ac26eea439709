//! The functions of the C library that this library replaces or needs.
//!
//! # Safety
//!
//! Each symbol has the signature that POSIX or glibc declares for it.

use core::arch::asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::system::sys::{self, Timespec};

/// A memory location of an object of the C library.
pub(crate) type Object = *mut u8;
pub(crate) type Start = extern "C" fn(*mut u8) -> *mut u8;

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> usize;
}

/// Declares functions that are looked up after this library (`RTLD_NEXT`).
macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[inline]
            #[allow(non_snake_case, reason = "the name of the C library")]
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                let found = &addresses::$name;
                let address = match found.load(Ordering::Relaxed) {
                    0 => look_up(found, concat!(stringify!($name), "\0")),
                    address => address,
                };
                unsafe {
                    let function: extern "C" fn($($type),*) -> $result = core::mem::transmute(address);
                    function($($argument),*)
                }
            }
        )*

        #[allow(non_upper_case_globals, reason = "the names of the C library")]
        mod addresses {
            use core::sync::atomic::AtomicUsize;
            $(pub(super) static $name: AtomicUsize = AtomicUsize::new(0);)*
        }

        /// Looks up all functions, while no lock of the dynamic linker or of an allocator can be held.
        pub(crate) fn look_up_all() {
            $(look_up(&addresses::$name, concat!(stringify!($name), "\0"));)*
        }
    };
}

#[cold]
fn look_up(address: &AtomicUsize, name: &str) -> usize {
    let found = unsafe { dlsym(usize::MAX as *mut u8, name.as_ptr()) };
    if found == 0 {
        fatal(name);
    }
    address.store(found, Ordering::Relaxed);
    found
}

/// Ends the process with a message.
pub(crate) fn fatal(what: &str) -> ! {
    for part in ["phalanx threads: missing or failed: ", what.trim_end_matches('\0'), "\n"] {
        sys::call(sys::SYS_WRITE, [2, part.as_ptr() as usize, part.len(), 0, 0, 0]);
    }
    unsafe { abort() }
}

functions! {
    pthread_create(thread: *mut usize, attributes: *const u8, start: Start, argument: *mut u8) -> i32;
    pthread_cancel(thread: usize) -> i32;
    pthread_kill(thread: usize, signal: i32) -> i32;
    pthread_sigqueue(thread: usize, signal: i32, value: usize) -> i32;
    tgkill(process: i32, tid: i32, signal: i32) -> i32;
    pthread_sigmask(how: i32, set: *const u64, old: *mut u64) -> i32;
    pthread_exit(value: *mut u8) -> ();
    pthread_mutex_lock(mutex: Object) -> i32;
    pthread_mutex_trylock(mutex: Object) -> i32;
    pthread_mutex_unlock(mutex: Object) -> i32;
    pthread_cond_wait(condition: Object, mutex: Object) -> i32;
    pthread_cond_clockwait(condition: Object, mutex: Object, clock: i32, deadline: *const Timespec) -> i32;
    pthread_cond_signal(condition: Object) -> i32;
    pthread_cond_broadcast(condition: Object) -> i32;
    pthread_rwlock_rdlock(lock: Object) -> i32;
    pthread_rwlock_wrlock(lock: Object) -> i32;
    pthread_rwlock_tryrdlock(lock: Object) -> i32;
    pthread_rwlock_trywrlock(lock: Object) -> i32;
    pthread_rwlock_unlock(lock: Object) -> i32;
    sem_wait(semaphore: Object) -> i32;
    sem_trywait(semaphore: Object) -> i32;
    sem_post(semaphore: Object) -> i32;
    clock_nanosleep(clock: i32, flags: i32, time: *const Timespec, rest: *mut Timespec) -> i32;
    poll(descriptors: *mut u8, count: u64, timeout: i32) -> i32;
    epoll_wait(epoll: i32, events: *mut u8, count: i32, timeout: i32) -> i32;
    ppoll(descriptors: *mut u8, count: u64, timeout: *const Timespec, mask: *const u8) -> i32;
    select(count: i32, read: *mut [u64; 16], write: *mut [u64; 16], except: *mut [u64; 16], timeout: *mut Timespec) -> i32;
    pselect(count: i32, read: *mut [u64; 16], write: *mut [u64; 16], except: *mut [u64; 16], timeout: *const Timespec, mask: *const u8) -> i32;
    epoll_pwait(epoll: i32, events: *mut u8, count: i32, timeout: i32, mask: *const u8) -> i32;
    read(descriptor: i32, buffer: *mut u8, length: usize) -> isize;
    write(descriptor: i32, buffer: *const u8, length: usize) -> isize;
    recvfrom(descriptor: i32, buffer: *mut u8, length: usize, flags: i32, from: *mut u8, size: *mut u32) -> isize;
    recvmsg(descriptor: i32, message: *mut u8, flags: i32) -> isize;
    sendto(descriptor: i32, buffer: *const u8, length: usize, flags: i32, to: *const u8, size: u32) -> isize;
    sendmsg(descriptor: i32, message: *const u8, flags: i32) -> isize;
    accept4(descriptor: i32, address: *mut u8, size: *mut u32, flags: i32) -> i32;
    close(descriptor: i32) -> i32;
    socket(family: i32, kind: i32, protocol: i32) -> i32;
    dup(descriptor: i32) -> i32;
    dup2(descriptor: i32, new: i32) -> i32;
    dup3(descriptor: i32, new: i32, flags: i32) -> i32;
    fdopen(descriptor: i32, mode: *const u8) -> *mut u8;
    ioctl(descriptor: i32, request: usize, argument: usize) -> i32;
    setsockopt(descriptor: i32, level: i32, option: i32, value: *const u8, size: u32) -> i32;
    close_range(first: u32, last: u32, flags: i32) -> i32;
    closefrom(first: i32) -> ();
    fcntl(descriptor: i32, command: i32, argument: usize) -> i32;
    prctl(option: i32, a: usize, b: usize, c: usize, d: usize) -> i32;
    pkey_alloc(flags: u32, rights: u32) -> i32;
    sendfile(socket: i32, file: i32, offset: *mut i64, length: usize) -> isize;
    pthread_barrier_destroy(barrier: Object) -> i32;
    pthread_barrier_wait(barrier: Object) -> i32;
    pthread_join(thread: usize, value: *mut *mut u8) -> i32;
    pthread_clockjoin_np(thread: usize, value: *mut *mut u8, clock: i32, deadline: *const Timespec) -> i32;
    pthread_detach(thread: usize) -> i32;
    pthread_mutex_clocklock(mutex: Object, clock: i32, deadline: *const Timespec) -> i32;
    pthread_rwlock_clockrdlock(lock: Object, clock: i32, deadline: *const Timespec) -> i32;
    pthread_rwlock_clockwrlock(lock: Object, clock: i32, deadline: *const Timespec) -> i32;
    sem_clockwait(semaphore: Object, clock: i32, deadline: *const Timespec) -> i32;
    connect(descriptor: i32, address: *const u8, size: u32) -> i32;
    readv(descriptor: i32, vectors: *const u8, count: i32) -> isize;
    writev(descriptor: i32, vectors: *const u8, count: i32) -> isize;
    syscall(number: isize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize;
    gettid() -> i32;
    _Fork() -> i32;
    clone(run: unsafe extern "C" fn(*mut u8) -> i32, stack: *mut u8, flags: i32, argument: *mut u8, parent: usize, storage: usize, child: usize) -> i32;
    sched_yield() -> i32;
}

unsafe extern "C" {
    pub(crate) fn abort() -> !;
    pub(crate) fn exit(code: i32) -> !;
    pub(crate) fn getauxval(kind: u64) -> u64;
    pub(crate) fn pthread_attr_getstacksize(attributes: *const u8, size: *mut usize) -> i32;
    pub(crate) fn pthread_attr_getdetachstate(attributes: *const u8, state: *mut i32) -> i32;
    pub(crate) fn pthread_key_create(key: *mut u32, destructor: extern "C" fn(*mut u8)) -> i32;
    pub(crate) fn pthread_setspecific(key: u32, value: *const u8) -> i32;
    pub(crate) fn pthread_testcancel();
    pub(crate) fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
    fn backtrace(frames: *mut *mut u8, count: i32) -> i32;
}

/// glibc 2.34 lacks this function, so it is looked up at its first call.
pub(crate) unsafe fn epoll_pwait2(
    epoll: i32,
    events: *mut u8,
    count: i32,
    timeout: *const Timespec,
    mask: *const u8,
) -> i32 {
    static FOUND: AtomicUsize = AtomicUsize::new(0);
    let address = match FOUND.load(Ordering::Relaxed) {
        0 => look_up(&FOUND, "epoll_pwait2\0"),
        address => address,
    };
    type Function = extern "C" fn(i32, *mut u8, i32, *const Timespec, *const u8) -> i32;
    let function: Function = unsafe { core::mem::transmute(address) };
    function(epoll, events, count, timeout, mask)
}

/// Makes the C library load the unwinder, which it needs to cancel threads.
pub(crate) fn load_unwinder() {
    let mut frame = core::ptr::null_mut();
    unsafe { backtrace(&raw mut frame, 1) };
}

/// Starts a kernel thread of this library with all signals blocked.
pub(crate) fn start_thread(run: Start, argument: *mut u8) -> bool {
    let mask = sys::set_signal_mask(sys::HOME_MASK);
    let mut thread = 0;
    let error = unsafe { pthread_create(&raw mut thread, core::ptr::null(), run, argument) };
    sys::set_signal_mask(mask);
    if error == 0 {
        unsafe { pthread_detach(thread) };
    }
    error == 0
}

/// The FS base of the calling kernel thread.
pub(crate) fn fs_base() -> usize {
    let base: usize;
    unsafe { asm!("rdfsbase {}", out(reg) base, options(nostack, preserves_flags)) };
    base
}

/// Sets the FS base. The caller must restore it before it uses the program's thread-local storage.
pub(crate) unsafe fn set_fs_base(base: usize) {
    unsafe { asm!("wrfsbase {}", in(reg) base, options(nostack, preserves_flags)) };
}
