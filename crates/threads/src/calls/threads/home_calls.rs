//! Functions that run at home, for the call or from then on: their effect depends on the kernel thread or its signal
//! mask, or they wait for something that is not converted.
//!
//! # Safety
//!
//! A stub preserves all argument registers, brings the thread home, and jumps to the function of the C library on the
//! same stack. The stack is aligned for the calls. `al` counts vector registers of variadic calls and is preserved.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::readiness::records;
use crate::schedule::home::{go_home, obey, stay_home};
use crate::system::real;
use crate::thread::{Thread, current};

unsafe extern "C" {
    fn dlsym(handle: *mut u8, name: *const u8) -> usize;
}

/// Brings the thread home for a call, and returns the address of the function.
unsafe extern "C" fn go_home_then(address: &AtomicUsize, name: *const u8) -> usize {
    let thread = current();
    obey(thread);
    go_home(thread);
    unsafe { look_up(address, name) }
}

/// Likewise before a call that may share descriptors with another process.
unsafe extern "C" fn share_then(address: &AtomicUsize, name: *const u8) -> usize {
    records::share_all();
    unsafe { go_home_then(address, name) }
}

/// Brings the thread home for good, and returns the address of the function.
unsafe extern "C" fn stay_home_then(address: &AtomicUsize, name: *const u8) -> usize {
    let thread = current();
    obey(thread);
    stay_home(thread);
    unsafe { look_up(address, name) }
}

/// Likewise before a call that gives the kernel thread attributes, which threads created by it inherit.
unsafe extern "C" fn separate_then(address: &AtomicUsize, name: *const u8) -> usize {
    current().is_separate.set(true);
    unsafe { stay_home_then(address, name) }
}

/// Likewise before `sigsetjmp`, if it saves the signal mask, which is that of the kernel thread.
unsafe extern "C" fn stay_home_if_mask_is_saved(
    address: &AtomicUsize,
    name: *const u8,
    saves: i32,
) -> usize {
    if saves != 0 {
        stay_home(current());
    }
    unsafe { look_up(address, name) }
}

/// `arch_prctl`: most of its codes read or set something else than an attribute of the kernel thread.
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
    ($prepare:ident: $($name:ident)*) => {
        $(
            #[unsafe(naked)]
            #[allow(non_snake_case, reason = "the name of the C library")]
            #[cfg_attr(phalanx_shim, unsafe(no_mangle))]
            unsafe extern "C" fn $name() {
                static ADDRESS: AtomicUsize = AtomicUsize::new(0);
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
                    address = sym ADDRESS, name = sym NAME, prepare = sym $prepare,
                )
            }
        )*
    };
}

stubs! { share_then:
    fork posix_spawn posix_spawnp daemon forkpty system popen sendmmsg
}

stubs! { go_home_then:
    raise
    execl execle execlp execv execve execvp execvpe fexecve
    setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups initgroups
    pthread_setname_np pthread_getcpuclockid pthread_testcancel
    pclose wait wait3 wait4 waitid waitpid
    pselect recvmmsg
    fsync fdatasync sync syncfs flock lockf lockf64
    msgrcv msgsnd semop semtimedop mq_receive mq_send mq_timedreceive mq_timedsend
    sigaltstack getaddrinfo getnameinfo gethostbyname gethostbyname_r
}

stubs! { stay_home_then:
    sigwait sigwaitinfo sigtimedwait sigsuspend pause
    sigpause __sigpause __xpg_sigpause sighold sigrelse sigset sigblock sigsetmask getcontext setcontext swapcontext
    pthread_setcanceltype timer_create
}

stubs! { separate_then:
    pthread_setaffinity_np sched_setaffinity pthread_setschedparam sched_setscheduler pthread_setschedprio
    sched_setparam setpriority nice unshare setns setfsuid setfsgid
    pkey_set
}

stubs! { separate_if_attribute:
    arch_prctl
}

stubs! { stay_home_if_mask_is_saved:
    __sigsetjmp
}

/// Options of a process: those that are read or set by a debugger, or name memory.
const OF_PROCESS: [i32; 6] = [3, 4, 36, 37, 0x5356_4d41, 0x5961_6d61];
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
        PR_SET_NAME | PR_GET_NAME => go_home(current()),
        PR_CAP_AMBIENT if a == PR_CAP_AMBIENT_IS_SET => go_home(current()),
        option if READ.contains(&option) => go_home(current()),
        option if OF_PROCESS.contains(&option) => {}
        _ => separate(current()),
    }
    unsafe { real::prctl(option, a, b, c, d) }
}

/// A key has rights that are those of the kernel thread. Many processors have no keys.
#[cfg_attr(phalanx_shim, unsafe(no_mangle))]
unsafe extern "C" fn pkey_alloc(flags: u32, rights: u32) -> i32 {
    let thread = current();
    obey(thread);
    go_home(thread);
    let key = unsafe { real::pkey_alloc(flags, rights) };
    if key >= 0 {
        separate(thread);
    }
    key
}

/// Keeps a thread at home whose kernel thread gets attributes.
pub(crate) fn separate(thread: &Thread) {
    thread.is_separate.set(true);
    stay_home(thread);
}
