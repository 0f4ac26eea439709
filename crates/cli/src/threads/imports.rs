//! The treatment of imported functions. Each thread has its own kernel thread, its *home*. It runs either there or on a
//! *carrier*, a kernel thread that runs many threads.

/// The effect of a function when a thread calls it on a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Treatment {
    /// Only the thread waits; its carrier runs others.
    Converted,
    /// The thread returns to its home, for the call or for good.
    Home,
    /// The call may block the carrier, which is then replaced.
    Blocks,
    /// The call does not block, or is not of the C library.
    Untouched,
}

impl Treatment {
    /// The treatment of a function.
    pub(super) fn of(name: &str) -> Treatment {
        let contains = |names: &str| names.split_whitespace().any(|other| other == name);
        // Variants for large files, and those that _FORTIFY_SOURCE generates.
        let base = name.strip_prefix("__").and_then(|name| name.strip_suffix("_chk"));
        let base = base.or(name.strip_suffix("64"));
        match base {
            _ if contains(CONVERTED) => Treatment::Converted,
            _ if contains(HOME) => Treatment::Home,
            _ if contains(BLOCKS) => Treatment::Blocks,
            Some(base) => Treatment::of(base),
            None => Treatment::Untouched,
        }
    }

    /// The word in reports.
    pub(super) fn word(self) -> &'static str {
        match self {
            Treatment::Converted => "converted",
            Treatment::Home => "home",
            Treatment::Blocks => "blocks",
            Treatment::Untouched => "untouched",
        }
    }
}

const CONVERTED: &str = "
    __nanosleep __poll __poll_chk __ppoll_chk __pthread_mutex_lock __pthread_mutex_trylock
    __pthread_mutex_unlock __pthread_rwlock_rdlock __pthread_rwlock_tryrdlock __pthread_rwlock_unlock
    __pthread_rwlock_wrlock __read __read_chk __recv_chk __recvfrom_chk __sched_yield __select __send __write
    accept accept4 clock_nanosleep cnd_broadcast cnd_signal cnd_timedwait cnd_wait epoll_pwait epoll_pwait2
    epoll_wait gettid mtx_lock mtx_timedlock mtx_trylock mtx_unlock nanosleep poll ppoll pthread_barrier_destroy
    pthread_barrier_wait pthread_clockjoin_np pthread_cond_broadcast pthread_cond_clockwait pthread_cond_signal
    pthread_cond_timedwait pthread_cond_wait pthread_create pthread_detach pthread_join pthread_mutex_clocklock
    pthread_mutex_lock pthread_mutex_timedlock pthread_mutex_trylock pthread_mutex_unlock
    pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock pthread_rwlock_rdlock pthread_rwlock_timedrdlock
    pthread_rwlock_timedwrlock pthread_rwlock_tryrdlock pthread_rwlock_unlock pthread_rwlock_wrlock
    pthread_timedjoin_np read readv recv recvfrom recvmsg sched_yield select sem_clockwait sem_post
    sem_timedwait sem_wait send sendmsg sendto sleep thrd_create thrd_detach thrd_join thrd_sleep thrd_yield
    usleep write writev";

const HOME: &str = "
    _Fork abort __clone __connect __fork __sigpause __sigsetjmp __sigsuspend __vfork __wait __waitpid __xpg_sigpause
    arch_prctl capget capset clone connect daemon execl execle execlp execv execve execvp execvpe fdatasync
    fexecve flock fork forkpty fsync getaddrinfo getcontext gethostbyname gethostbyname_r getnameinfo gsignal
    initgroups ioperm iopl lockf lockf64 mq_receive mq_send mq_timedreceive mq_timedsend msgrcv msgsnd nice
    pause pclose personality pkey_alloc pkey_set popen posix_spawn posix_spawnp prctl pselect pthread_cancel
    pthread_exit pthread_getcpuclockid pthread_getname_np pthread_kill pthread_setaffinity_np
    pthread_setcanceltype pthread_setname_np pthread_setschedparam pthread_setschedprio pthread_sigmask
    pthread_sigqueue pthread_testcancel ptrace raise recvmmsg sched_setaffinity sched_setattr sched_setparam
    sched_setscheduler semop semtimedop sendfile sendfile64 sendmmsg setcontext setegid seteuid setfsgid
    setfsuid setgid setgroups setjmp setns setpriority setregid setresgid setresuid setreuid setuid sigaltstack
    sigblock sighold sigpause sigpending sigprocmask sigrelse sigset sigsetmask sigsuspend sigtimedwait sigwait
    sigwaitinfo swapcontext sync syncfs syscall system tgkill thrd_exit timer_create unshare vfork wait wait3
    wait4 waitid waitpid";

const BLOCKS: &str = "
    __close __fcntl __io_uring_get_cqe __open access aio_suspend call_once close copy_file_range creat dlclose
    dlmopen dlopen eventfd_read eventfd_write faccessat fallocate fclose fcntl fdopen fflush fgetc fgets
    flockfile fopen fprintf fputc fputs fread freopen fscanf fseek fseeko fstat fstatat ftruncate fwrite
    gai_suspend getc getchar getdelim getentropy getgrgid getgrgid_r getgrnam getgrnam_r gethostbyaddr
    gethostbyaddr_r gethostbyname2 gethostbyname2_r getline getprotobyname getpwnam getpwnam_r getpwuid
    getpwuid_r getrandom getservbyname getservbyname_r getservbyport io_getevents io_uring_queue_init
    io_uring_queue_init_mem io_uring_queue_init_params io_uring_submit_and_wait io_uring_wait_cqe
    io_uring_wait_cqe_timeout ioctl link lio_listio lstat mkdir mount msync open openat opendir posix_fadvise
    posix_fallocate pread preadv preadv2 printf pthread_once putc putchar puts pwrite pwritev pwritev2 readahead
    readdir readdir_r readlink realpath rename renameat renameat2 res_init res_query res_search res_send rmdir
    scandir scanf sem_open splice stat statx symlink sync_file_range syslog tcdrain tee truncate umount umount2
    unlink unlinkat vfprintf vmsplice vprintf vsyslog";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_and_their_variants_have_one_treatment() {
        let table = [
            ("pthread_cond_wait", Treatment::Converted),
            ("read", Treatment::Converted),
            ("__read_chk", Treatment::Converted),
            ("__poll_chk", Treatment::Converted),
            ("fork", Treatment::Home),
            ("__fork", Treatment::Home),
            ("fopen64", Treatment::Blocks),
            ("eventfd_read", Treatment::Blocks),
            ("__printf_chk", Treatment::Blocks),
            ("__pread64_chk", Treatment::Blocks),
            ("strlen", Treatment::Untouched),
            ("apr_thread_create", Treatment::Untouched),
            ("", Treatment::Untouched),
        ];
        for (name, expected) in table {
            assert_eq!(Treatment::of(name), expected, "{name}");
        }
    }

    const SIDE_EFFECTS: [&str; 15] = [
        "__close",
        "__dup2",
        "__fcntl",
        "close",
        "close_range",
        "closefrom",
        "dup",
        "dup2",
        "dup3",
        "fcntl",
        "fcntl64",
        "fdopen",
        "ioctl",
        "setsockopt",
        "socket",
    ];

    /// The lists are those of the preloaded library.
    #[test]
    fn the_library_replaces_the_listed_functions() {
        let library = super::super::launch::LIBRARY;
        if library.is_empty() {
            return eprintln!("SKIPPED: this build contains no library");
        }
        let mut exports = super::super::elf::parse(library).unwrap().exports;
        // Replaced only for their side effects on waiting threads and records of descriptors; they may still block.
        exports.retain(|name| !SIDE_EFFECTS.contains(&name.as_str()));
        exports.sort_unstable();
        let mut listed: Vec<_> =
            [CONVERTED, HOME].iter().flat_map(|list| list.split_whitespace()).collect();
        listed.sort_unstable();
        assert_eq!(exports, listed);
    }

    #[test]
    fn no_function_is_listed_twice() {
        let mut names: Vec<_> =
            [CONVERTED, HOME, BLOCKS].iter().flat_map(|list| list.split_whitespace()).collect();
        names.sort_unstable();
        assert_eq!(names.windows(2).find(|pair| pair[0] == pair[1]), None);
    }
}
