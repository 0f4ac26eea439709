//! Functions that run at home, for the call or from then on: their effect depends on the kernel thread or its signal
//! mask, or they wait for something that is not converted.
//!
//! # Safety
//!
//! A stub preserves all argument registers, brings the thread home, and jumps to the function of the C library on the
//! same stack. The stack is aligned for the calls. `al` counts vector registers of variadic calls and is preserved.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::calls::threads::attributes;
use crate::calls::threads::signals::keep_pending;
use crate::lifecycle::activation;
use crate::readiness::records;
use crate::schedule::home::{go_home, handle_requests, stay_home};
use crate::system::{real, sys};
use crate::thread::{current, of};

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> usize;
}

/// Brings the thread home for a call, and returns the address of the function.
unsafe extern "C" fn go_home_then(address: &AtomicUsize, name: *const u8) -> usize {
    let thread = current();
    handle_requests(thread);
    go_home(thread);
    unsafe { look_up(address, name) }
}

/// As [`go_home_then`], before a call that may share descriptors with another process.
unsafe extern "C" fn share_then(address: &AtomicUsize, name: *const u8) -> usize {
    records::share_all();
    unsafe { go_home_then(address, name) }
}

/// Brings the thread home for good, and returns the address of the function.
unsafe extern "C" fn stay_home_then(address: &AtomicUsize, name: *const u8) -> usize {
    let thread = current();
    handle_requests(thread);
    stay_home(thread);
    unsafe { look_up(address, name) }
}

/// As [`stay_home_then`], before a call that sets attributes of the kernel thread, which threads created by it inherit.
unsafe extern "C" fn separate_then(address: &AtomicUsize, name: *const u8) -> usize {
    current().is_separate.store(true, Ordering::Relaxed);
    unsafe { stay_home_then(address, name) }
}

/// As [`separate_then`], before a call that sets attributes of the thread in its first argument.
unsafe extern "C" fn separate_thread_then(
    address: &AtomicUsize,
    name: *const u8,
    _: usize,
    pthread: usize,
) -> usize {
    handle_requests(current());
    attributes::separate_other(of(pthread));
    unsafe { look_up(address, name) }
}

/// As [`separate_thread_then`], for the identity of a kernel thread.
unsafe extern "C" fn separate_tid_then(
    address: &AtomicUsize,
    name: *const u8,
    _: usize,
    tid: u32,
) -> usize {
    handle_requests(current());
    attributes::separate_tid(tid);
    unsafe { look_up(address, name) }
}

/// `setpriority`, whose arguments are a kind and an identity.
unsafe extern "C" fn separate_prioritized_then(
    address: &AtomicUsize,
    name: *const u8,
    who: u32,
    kind: u32,
) -> usize {
    handle_requests(current());
    attributes::separate_prioritized(kind, who);
    unsafe { look_up(address, name) }
}

/// `pthread_setname_np`: the thread's name.
unsafe extern "C" fn name_then(address: &AtomicUsize, name: *const u8) -> usize {
    HAS_NAMES.store(true, Ordering::Relaxed);
    unsafe { go_home_then(address, name) }
}

/// As [`go_home_then`], before the thread sends itself a signal. If it blocks the signal, it stays at home, where the signal
/// is pending.
unsafe extern "C" fn keep_pending_then(
    address: &AtomicUsize,
    name: *const u8,
    _: usize,
    signal: u32,
) -> usize {
    let thread = current();
    handle_requests(thread);
    go_home(thread);
    keep_pending(thread, signal);
    unsafe { look_up(address, name) }
}

/// As [`stay_home_then`], before `sigsetjmp` if it saves the signal mask, which belongs to the kernel thread.
unsafe extern "C" fn stay_home_if_mask_is_saved(
    address: &AtomicUsize,
    name: *const u8,
    saves_mask: i32,
) -> usize {
    if saves_mask != 0 {
        stay_home(current());
    }
    unsafe { look_up(address, name) }
}

/// `arch_prctl`: most of its codes do not set an attribute of the kernel thread.
unsafe extern "C" fn separate_if_attribute(
    address: &AtomicUsize,
    name: *const u8,
    _: usize,
    code: u32,
) -> usize {
    match is_attribute(code) {
        true => unsafe { separate_then(address, name) },
        false => unsafe { go_home_then(address, name) },
    }
}

/// Whether `arch_prctl` sets an attribute of the kernel thread: the base of a segment, or whether `cpuid` traps.
pub(crate) fn is_attribute(code: u32) -> bool {
    const ARCH_SET_GS: u32 = 0x1001;
    const ARCH_SET_FS: u32 = 0x1002;
    const ARCH_SET_CPUID: u32 = 0x1012;
    matches!(code, ARCH_SET_GS | ARCH_SET_FS | ARCH_SET_CPUID)
}

unsafe fn look_up(address: &AtomicUsize, name: *const u8) -> usize {
    let found = address.load(Ordering::Relaxed);
    if found != 0 {
        return found;
    }
    let found = unsafe { dlsym(usize::MAX as *mut u8, name) };
    if found == 0 {
        real::fatal("a function of the C library");
    }
    address.store(found, Ordering::Relaxed);
    found
}

macro_rules! stubs {
    ($($prepare:ident: $($name:ident)*;)*) => {
        $($(
            #[unsafe(naked)]
            #[allow(non_snake_case, reason = "the name of the C library")]
            #[cfg_attr(phalanx_shim, unsafe(no_mangle))]
            pub(super) unsafe extern "C" fn $name() {
                static NAME: &[u8; concat!(stringify!($name), "\0").len()] =
                    unsafe { &*concat!(stringify!($name), "\0").as_ptr().cast() };
                naked_asm!(
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                    "mov rcx, rdi",
                    "lea rdi, [rip + {address}]",
                    "mov rdx, rsi",
                    "mov rsi, [rip + {name}]",
                    "call {prepare}",
                    "mov r11, rax",
                    "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "jmp r11",
                    address = sym addresses::$name, name = sym NAME, prepare = sym $prepare,
                )
            }
        )*)*

        #[allow(non_upper_case_globals, reason = "the names of the C library")]
        mod addresses {
            use core::sync::atomic::AtomicUsize;
            $($(pub(super) static $name: AtomicUsize = AtomicUsize::new(0);)*)*
        }

        /// Looks up all functions, while no lock of the dynamic linker can be held. Handlers of signals call some of them.
        pub(crate) fn look_up_all() {
            for (address, name) in
                [$($((&addresses::$name, concat!(stringify!($name), "\0")),)*)*]
            {
                // If the C library lacks a function, calling it is an error.
                let found = unsafe { dlsym(usize::MAX as *mut u8, name.as_ptr()) };
                address.store(found, Ordering::Relaxed);
            }
        }
    };
}

stubs! { share_then:
    fork posix_spawn posix_spawnp daemon forkpty system popen sendmmsg;

go_home_then:
    sigpending capget
    execl execle execlp execv execve execvp execvpe fexecve
    setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups initgroups
    pthread_getname_np pthread_getcpuclockid pthread_testcancel
    pclose wait wait3 wait4 waitid waitpid
    recvmmsg
    fsync fdatasync sync syncfs flock lockf lockf64
    msgrcv msgsnd semop semtimedop mq_receive mq_send mq_timedreceive mq_timedsend
    sigaltstack getaddrinfo getnameinfo gethostbyname gethostbyname_r;

keep_pending_then:
    raise gsignal;

name_then:
    pthread_setname_np;

stay_home_then:
    sigwait sigwaitinfo sigtimedwait sigsuspend pause
    sigpause __sigpause __xpg_sigpause sighold sigrelse sigset sigblock sigsetmask getcontext setcontext swapcontext
    pthread_setcanceltype timer_create ptrace setjmp abort;

separate_then:
    nice unshare setns setfsuid setfsgid capset personality ioperm iopl pkey_set;

separate_thread_then:
    pthread_setaffinity_np pthread_setschedparam pthread_setschedprio;

separate_tid_then:
    sched_setaffinity sched_setscheduler sched_setparam;

separate_prioritized_then:
    setpriority;

separate_if_attribute:
    arch_prctl;

stay_home_if_mask_is_saved:
    __sigsetjmp;
}

/// glibc before 2.41 lacks this function.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn sched_setattr(tid: i32, value: *const u8, flags: u32) -> i32 {
    handle_requests(current());
    attributes::separate_tid(tid as u32);
    let arguments = [tid as usize, value as usize, flags as usize, 0, 0, 0];
    sys::result(sys::call(sys::SYS_SCHED_SETATTR, arguments)) as i32
}

/// Whether the program has named a thread.
static HAS_NAMES: AtomicBool = AtomicBool::new(false);

/// Whether kernel threads may have different names.
pub(super) fn may_have_names() -> bool {
    HAS_NAMES.load(Ordering::Relaxed)
}

/// Options that apply to the whole process, name memory, or are read or set by debuggers.
const PROCESS_OPTIONS: [i32; 8] = [3, 4, 36, 37, 41, 42, 0x5356_4d41, 0x5961_6d61];
/// Options that apply to the first or the calling thread, and that threads do not inherit: `PR_SET_PDEATHSIG`,
/// `PR_SET_MM`.
const HOME_OPTIONS: [i32; 2] = [1, 35];
const PR_SET_NAME: i32 = 15;
const PR_GET_NAME: i32 = 16;
/// Options that read an attribute of the kernel thread. libcap calls one when it is loaded.
const READ: [i32; 14] = [2, 5, 7, 9, 11, 13, 19, 21, 23, 25, 27, 30, 34, 39];
/// `PR_CAP_AMBIENT`, and its suboption that reads.
const PR_CAP_AMBIENT: i32 = 47;
const PR_CAP_AMBIENT_IS_SET: usize = 1;

/// Attributes of a kernel thread are attributes of the home.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn prctl(option: i32, a: usize, b: usize, c: usize, d: usize) -> i32 {
    match option {
        PR_SET_NAME => {
            HAS_NAMES.store(true, Ordering::Relaxed);
            go_home(current());
        }
        PR_GET_NAME => go_home(current()),
        PR_CAP_AMBIENT if a == PR_CAP_AMBIENT_IS_SET => go_home(current()),
        option if READ.contains(&option) || HOME_OPTIONS.contains(&option) => go_home(current()),
        option if PROCESS_OPTIONS.contains(&option) => {}
        // The carriers inherit the other attributes of the thread that creates them.
        _ if !activation::is_active() => {}
        _ => attributes::separate(current()),
    }
    unsafe { real::prctl(option, a, b, c, d) }
}

/// The rights of a protection key belong to the kernel thread. Many processors have no protection keys.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pkey_alloc(flags: u32, rights: u32) -> i32 {
    let thread = current();
    handle_requests(thread);
    go_home(thread);
    let key = unsafe { real::pkey_alloc(flags, rights) };
    if key >= 0 {
        attributes::separate(thread);
    }
    key
}

aliases! { __wait = wait; __waitpid = waitpid; __fork = fork; __sigsuspend = sigsuspend; }
