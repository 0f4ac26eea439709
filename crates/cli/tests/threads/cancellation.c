// Cancellation in each call that is a cancellation point, and the states and types of cancellation.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static int empty[2], full[2], pair[2], listener, epoll, queue, file, cleaned;
static pid_t child;
static sem_t zero, ready;
static pthread_t sleeper;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static char byte, much[1 << 16];
static struct timespec hour = {3600, 0};

static struct timespec later(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 3600;
    return time;
}

static void by_read(void) { (void)!read(empty[0], &byte, 1); }
static void by_readv(void) { struct iovec part = {&byte, 1}; (void)!readv(empty[0], &part, 1); }
static void by_write(void) { for (;;) (void)!write(full[1], much, sizeof much); }
static void by_recv(void) { recv(pair[0], &byte, 1, 0); }
static void by_recvmsg(void) { struct iovec part = {&byte, 1}; struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1}; recvmsg(pair[0], &message, 0); }
static void by_send(void) { for (;;) send(pair[1], much, sizeof much, MSG_NOSIGNAL); }
static void by_accept(void) { accept(listener, NULL, NULL); }
static void by_poll(void) { struct pollfd poll_ = {.fd = empty[0], .events = POLLIN}; poll(&poll_, 1, -1); }
static void by_sleeping_poll(void) { poll(NULL, 0, 3600000); }
static void by_select(void) { fd_set set; FD_ZERO(&set); FD_SET(empty[0], &set); select(empty[0] + 1, &set, NULL, NULL, NULL); }
static void by_pselect(void) { fd_set set; FD_ZERO(&set); FD_SET(empty[0], &set); pselect(empty[0] + 1, &set, NULL, NULL, &hour, NULL); }
static void by_epoll(void) { struct epoll_event event; epoll_wait(epoll, &event, 1, -1); }
static void by_nanosleep(void) { nanosleep(&hour, NULL); }
static void by_clock_nanosleep(void) { clock_nanosleep(CLOCK_MONOTONIC, 0, &hour, NULL); }
static void by_sleep(void) { sleep(3600); }
static void by_usleep(void) { for (;;) usleep(900000); }
static void by_sem_wait(void) { sem_wait(&zero); }
static void by_sem_timedwait(void) { struct timespec time = later(); sem_timedwait(&zero, &time); }
static void by_join(void) { pthread_join(sleeper, NULL); }
static void by_sigwait(void) { sigset_t set; int signal; sigemptyset(&set); sigaddset(&set, SIGUSR1); pthread_sigmask(SIG_BLOCK, &set, NULL); sigwait(&set, &signal); }
static void by_sigsuspend(void) { sigset_t set; sigfillset(&set); sigsuspend(&set); }
static void by_pause(void) { pause(); }
static void by_waitpid(void) { int status; waitpid(child, &status, 0); }
static void by_msgrcv(void) { struct { long type; char text[8]; } message; msgrcv(queue, &message, 8, 0, 0); }
static void by_fcntl(void) { struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1}; fcntl(file, F_SETLKW, &lock); }
static void by_testcancel(void) { for (;;) pthread_testcancel(); }
static void unlock(void *unused) { (void)unused; CHECK(pthread_mutex_unlock(&mutex) == 0); }
static void by_condition(void) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    pthread_cleanup_push(unlock, NULL);
    for (;;) pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(1);
}
static void by_timed_condition(void) {
    struct timespec time = later();
    CHECK(pthread_mutex_lock(&mutex) == 0);
    pthread_cleanup_push(unlock, NULL);
    while (pthread_cond_timedwait(&condition, &mutex, &time) == 0) {}
    pthread_cleanup_pop(1);
}
static void asynchronously(void) {
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    for (;;) __asm__ volatile("");
}
// The request waits until cancellation is enabled.
static void when_enabled(void) {
    int old, values;
    CHECK(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old) == 0 && old == PTHREAD_CANCEL_ENABLE);
    for (int i = 0; i < 40; i++) {
        usleep(500);
        pthread_testcancel();
        CHECK(sem_getvalue(&zero, &values) == 0);
    }
    CHECK(pthread_setcancelstate(old, NULL) == 0);
    for (;;) pthread_testcancel();
}

static const struct { const char *name; void (*wait)(void); } points[] = {
    {"read", by_read}, {"readv", by_readv}, {"write", by_write}, {"recv", by_recv}, {"recvmsg", by_recvmsg}, {"send", by_send},
    {"accept", by_accept}, {"poll", by_poll}, {"sleeping poll", by_sleeping_poll}, {"select", by_select}, {"pselect", by_pselect},
    {"epoll_wait", by_epoll}, {"nanosleep", by_nanosleep}, {"clock_nanosleep", by_clock_nanosleep}, {"sleep", by_sleep},
    {"usleep", by_usleep}, {"sem_wait", by_sem_wait}, {"sem_timedwait", by_sem_timedwait}, {"pthread_join", by_join},
    {"sigwait", by_sigwait}, {"sigsuspend", by_sigsuspend}, {"pause", by_pause}, {"waitpid", by_waitpid}, {"msgrcv", by_msgrcv},
    {"fcntl", by_fcntl},
    {"pthread_testcancel", by_testcancel}, {"pthread_cond_wait", by_condition}, {"pthread_cond_timedwait", by_timed_condition},
    {"asynchronous", asynchronously}, {"disabled for a while", when_enabled},
};

static void clean(void *unused) { (void)unused; __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED); }

static __attribute__((noinline)) void nest(int depth, void (*wait)(void)) {
    pthread_cleanup_push(clean, NULL);
    if (depth > 0) nest(depth - 1, wait);
    wait();
    pthread_cleanup_pop(0);
}

static void *run(void *point) {
    usleep(100);
    sem_post(&ready);
    nest(3, points[(long)point].wait);
    return NULL;
}

static void *sleep_on(void *unused) {
    for (;;) pause();
    return unused;
}

int main(void) {
    struct sockaddr address = {.sa_family = AF_UNIX};
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(pipe(empty) == 0 && pipe(full) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK((listener = socket(AF_UNIX, SOCK_STREAM, 0)) >= 0);
    CHECK(bind(listener, &address, sizeof(sa_family_t)) == 0 && listen(listener, 1) == 0);
    CHECK((epoll = epoll_create1(0)) >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, empty[0], &event) == 0);
    CHECK((queue = msgget(IPC_PRIVATE, 0600)) >= 0);
    CHECK(sem_init(&zero, 0, 0) == 0 && sem_init(&ready, 0, 0) == 0);
    CHECK((file = fileno(tmpfile())) >= 0);
    if ((child = fork()) == 0) {
        by_fcntl();
        if (write(empty[1], "", 1) != 1) _exit(1);
        for (;;) pause();
    }
    // The child has locked the file.
    CHECK(read(empty[0], &byte, 1) == 1);
    CHECK(pthread_create(&sleeper, NULL, sleep_on, NULL) == 0);
    for (unsigned long i = 0; i < sizeof points / sizeof *points; i++) {
        // Before the call, and during it.
        for (int delay = 0; delay < 4; delay++) {
            pthread_t thread;
            void *result;
            cleaned = 0;
            CHECK(pthread_create(&thread, NULL, run, (void *)i) == 0);
            while (sem_wait(&ready)) {}
            usleep(delay * 1000);
            CHECK(pthread_cancel(thread) == 0);
            CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED && cleaned == 4);
        }
        puts(points[i].name);
    }
    CHECK(pthread_cancel(sleeper) == 0 && pthread_join(sleeper, NULL) == 0);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child && msgctl(queue, IPC_RMID, NULL) == 0);
    return 0;
}
