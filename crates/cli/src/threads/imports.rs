//! The treatment of imported functions. A thread has a kernel thread of its own, its *home*; otherwise it runs on a
//! *carrier*, a kernel thread that runs many threads.

/// The effect of a function when a thread calls it on a carrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Treatment {
    /// Only the thread waits; its carrier runs others.
    Converted,
    /// The thread returns to its home for the call.
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
    pthread_create pthread_join pthread_tryjoin_np pthread_timedjoin_np pthread_clockjoin_np
    pthread_mutex_lock pthread_mutex_trylock pthread_mutex_timedlock pthread_mutex_clocklock pthread_mutex_unlock
    pthread_cond_wait pthread_cond_timedwait pthread_cond_clockwait pthread_cond_signal pthread_cond_broadcast
    pthread_rwlock_rdlock pthread_rwlock_wrlock pthread_rwlock_timedrdlock pthread_rwlock_timedwrlock
    pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock pthread_rwlock_unlock
    pthread_barrier_wait sem_wait sem_timedwait sem_clockwait sem_post
    mtx_lock mtx_timedlock mtx_unlock cnd_wait cnd_timedwait cnd_signal cnd_broadcast
    thrd_create thrd_join thrd_sleep thrd_yield sched_yield pthread_yield
    sleep usleep nanosleep clock_nanosleep
    read write readv writev recv recvfrom recvmsg recvmmsg send sendto sendmsg sendmmsg
    accept accept4 connect poll ppoll select pselect epoll_wait epoll_pwait epoll_pwait2 syscall";

const HOME: &str = "
    fork _Fork vfork posix_spawn posix_spawnp system popen pclose daemon forkpty clone
    execl execle execlp execv execve execveat execvp execvpe fexecve wait wait3 wait4 waitid waitpid
    dlopen dlmopen dlclose getaddrinfo getnameinfo gethostbyname gethostbyname2 gethostbyaddr gethostbyname_r
    gethostbyname2_r gethostbyaddr_r getpwnam getpwuid getpwnam_r getpwuid_r getgrnam getgrgid getgrnam_r getgrgid_r
    getservbyname getservbyport getservbyname_r getprotobyname initgroups res_init res_query res_search
    sigwait sigwaitinfo sigtimedwait sigsuspend pause raise pthread_kill pthread_sigqueue tgkill sigaltstack
    pthread_sigmask sigprocmask pthread_exit thrd_exit pthread_cancel pthread_testcancel pthread_setcancelstate
    pthread_setcanceltype pthread_setaffinity_np sched_setaffinity pthread_setschedparam sched_setscheduler
    pthread_setschedprio sched_setparam setpriority nice unshare setns chroot prctl gettid
    setuid setgid seteuid setegid setreuid setregid setresuid setresgid setgroups
    pthread_mutexattr_setrobust pthread_mutexattr_setprotocol pthread_mutexattr_setpshared
    pthread_condattr_setpshared pthread_rwlockattr_setpshared pthread_barrierattr_setpshared sem_open
    io_getevents io_uring_wait_cqe io_uring_submit_and_wait io_uring_wait_cqe_timeout __io_uring_get_cqe
    pthread_getcpuclockid";

const BLOCKS: &str = "
    open openat creat close fopen freopen fdopen fclose fflush fread fwrite fgets fgetc getc fputs fputc putc puts
    printf fprintf vprintf vfprintf getline getdelim scanf fscanf fseek fseeko flockfile
    pread pwrite preadv pwritev preadv2 pwritev2 fsync fdatasync sync syncfs sync_file_range msync
    ftruncate truncate fallocate posix_fallocate posix_fadvise readahead copy_file_range
    sendfile splice tee vmsplice fcntl flock lockf ioctl
    stat lstat fstat fstatat statx access faccessat readlink realpath opendir readdir readdir_r scandir
    mkdir rmdir rename renameat renameat2 unlink unlinkat link symlink mount umount umount2
    mq_send mq_receive mq_timedsend mq_timedreceive msgsnd msgrcv semop semtimedop
    lio_listio aio_suspend tcdrain getrandom getentropy";

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

    #[test]
    fn no_function_is_listed_twice() {
        let mut names: Vec<_> =
            [CONVERTED, HOME, BLOCKS].iter().flat_map(|list| list.split_whitespace()).collect();
        names.sort_unstable();
        assert_eq!(names.windows(2).find(|pair| pair[0] == pair[1]), None);
    }
}
