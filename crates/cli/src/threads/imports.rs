//! The treatment of imported functions. A thread has a kernel thread of its own, its *home*; otherwise it runs on a
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
        let plain = name.strip_prefix("__").and_then(|name| name.strip_suffix("_chk"));
        let plain = plain.or(name.strip_suffix("64"));
        match plain {
            _ if contains(CONVERTED) => Treatment::Converted,
            _ if contains(HOME) => Treatment::Home,
            _ if contains(BLOCKS) => Treatment::Blocks,
            Some(plain) => Treatment::of(plain),
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
    accept accept4 clock_nanosleep epoll_wait gettid nanosleep poll pthread_cond_broadcast
    pthread_cond_clockwait pthread_cond_signal pthread_cond_timedwait pthread_cond_wait pthread_create
    pthread_mutex_lock pthread_mutex_unlock pthread_rwlock_rdlock pthread_rwlock_unlock pthread_rwlock_wrlock
    read recv recvfrom recvmsg sched_yield sem_post sem_timedwait sem_wait send sendto sleep usleep write";

const HOME: &str = "
    __sigpause __sigsetjmp __xpg_sigpause getcontext setcontext setfsgid setfsuid sigblock sighold sigpause sigrelse
    sigset sigsetmask swapcontext
    _Fork clone cnd_timedwait cnd_wait connect daemon epoll_pwait epoll_pwait2 execl execle execlp execv
    execve execvp execvpe fexecve flock fork forkpty getaddrinfo gethostbyname gethostbyname_r getnameinfo
    initgroups lockf lockf64 mq_receive mq_send mq_timedreceive mq_timedsend msgrcv msgsnd mtx_lock
    mtx_timedlock nice pause pclose popen posix_spawn posix_spawnp ppoll prctl pselect pthread_barrier_wait
    pthread_cancel pthread_clockjoin_np pthread_exit pthread_getcpuclockid pthread_join pthread_kill
    pthread_mutex_clocklock pthread_mutex_timedlock pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock
    pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock pthread_setaffinity_np pthread_setcanceltype
    pthread_setname_np pthread_setschedparam pthread_setschedprio pthread_sigmask pthread_sigqueue
    pthread_testcancel pthread_timedjoin_np raise readv recvmmsg sched_setaffinity sched_setparam
    sched_setscheduler select sem_clockwait semop semtimedop sendmmsg sendmsg setegid seteuid setgid setgroups
    setns setpriority setregid setresgid setresuid setreuid setuid sigaltstack sigprocmask sigsuspend
    sigtimedwait sigwait sigwaitinfo syscall system tgkill thrd_exit thrd_join unshare vfork wait wait3 wait4
    waitid waitpid writev";

const BLOCKS: &str = "
    open openat creat fopen freopen fdopen fclose fflush fread fwrite fgets fgetc getc fputs fputc putc puts
    printf fprintf vprintf vfprintf getline getdelim scanf fscanf fseek fseeko flockfile pread pwrite preadv
    pwritev preadv2 pwritev2 fsync fdatasync sync syncfs sync_file_range msync ftruncate truncate fallocate
    posix_fallocate posix_fadvise readahead copy_file_range sendfile splice tee vmsplice ioctl stat lstat
    fstat fstatat statx access faccessat readlink realpath opendir readdir readdir_r scandir mkdir rmdir
    rename renameat renameat2 unlink unlinkat link symlink mount umount umount2 lio_listio aio_suspend tcdrain
    getrandom getentropy __io_uring_get_cqe dlclose dlmopen dlopen getgrgid getgrgid_r getgrnam getgrnam_r
    gethostbyaddr gethostbyaddr_r gethostbyname2 gethostbyname2_r getprotobyname getpwnam getpwnam_r getpwuid
    getpwuid_r getservbyname getservbyname_r getservbyport io_getevents io_uring_submit_and_wait
    io_uring_wait_cqe io_uring_wait_cqe_timeout res_init res_query res_search sem_open thrd_sleep close fcntl";

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
            ("fopen64", Treatment::Blocks),
            ("__printf_chk", Treatment::Blocks),
            ("__pread64_chk", Treatment::Blocks),
            ("strlen", Treatment::Untouched),
            ("apr_thread_create", Treatment::Untouched),
            ("", Treatment::Untouched),
        ];
        for (name, wanted) in table {
            assert_eq!(Treatment::of(name), wanted, "{name}");
        }
    }

    /// The lists are those of the preloaded library.
    #[test]
    fn the_library_replaces_the_listed_functions() {
        let library = super::super::launch::LIBRARY;
        if library.is_empty() {
            return eprintln!("SKIPPED: this build contains no library");
        }
        let mut exports = super::super::elf::parse(library).unwrap().exports;
        // Replaced for their side effects on waiting threads; they may block all the same.
        exports.retain(|name| !["close", "fcntl", "fcntl64"].contains(&name.as_str()));
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
