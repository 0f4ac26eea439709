// Calls that wait. Each is made by a thread while main ends its wait later; the result must be that of a native thread.
// With an argument, prints the calls after which the thread was on its own kernel thread.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("line %d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define LARGE (4 << 20)

static int pair[2], pipes[2], waiting;
static unsigned word;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_t other;
static sem_t semaphore;

static struct timespec in(clockid_t clock, int seconds, int milliseconds) {
    struct timespec time;
    clock_gettime(clock, &time);
    time.tv_sec += seconds;
    time.tv_nsec += milliseconds * 1000000L;
    if (time.tv_nsec >= 1000000000) time.tv_nsec -= 1000000000, time.tv_sec++;
    return time;
}

// Tells main that it may end the wait.
static void ready(void) {
    __atomic_store_n(&waiting, 1, __ATOMIC_SEQ_CST);
}

static void wait_readv(void) {
    char one[2], two[10];
    struct iovec parts[] = { { one, 2 }, { two, 10 } };
    ready();
    CHECK(readv(pair[0], parts, 2) == 5 && memcmp(one, "he", 2) == 0 && memcmp(two, "llo", 3) == 0);
}
static void wait_readv_pipe(void) {
    char one[2], two[10];
    struct iovec parts[] = { { one, 2 }, { two, 10 } };
    ready();
    CHECK(readv(pipes[0], parts, 2) == 5 && memcmp(two, "llo", 3) == 0);
}
static void wait_recvmsg(void) {
    char data[10];
    struct iovec part = { data, 10 };
    struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
    ready();
    CHECK(recvmsg(pair[0], &message, 0) == 5 && memcmp(data, "hello", 5) == 0);
}
static void send_hello(void) {
    CHECK(write(pair[1], "hello", 5) == 5);
}
static void pipe_hello(void) {
    CHECK(write(pipes[1], "hello", 5) == 5);
}

static unsigned char pattern(size_t at) {
    return at * 7 + at / 4099;
}
static void wait_waitall(void) {
    static unsigned char data[LARGE];
    ready();
    CHECK(recv(pair[0], data, LARGE, MSG_WAITALL) == LARGE);
    for (size_t i = 0; i < LARGE; i++) CHECK(data[i] == pattern(i));
}
static void send_large(void) {
    static unsigned char data[LARGE];
    for (size_t i = 0; i < LARGE; i++) data[i] = pattern(i);
    for (size_t sent = 0; sent < LARGE;) {
        ssize_t part = write(pair[1], data + sent, LARGE - sent < 100000 ? LARGE - sent : 100000);
        CHECK(part > 0);
        sent += part;
        usleep(10);
    }
}
static void receive_large(void) {
    static unsigned char data[100000];
    for (size_t received = 0; received < LARGE;) {
        ssize_t part = read(pair[1], data, sizeof data);
        CHECK(part > 0);
        for (ssize_t i = 0; i < part; i++) CHECK(data[i] == pattern(received + i));
        received += part;
    }
}
static unsigned char *large(void) {
    unsigned char *data = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++) data[i] = pattern(i);
    return data;
}
static void wait_writev(void) {
    unsigned char *data = large();
    ready();
    struct iovec parts[] = { { data, 1 }, { data + 1, 0 }, { data + 1, 1000000 }, { data + 1000001, LARGE - 1000001 } };
    CHECK(writev(pair[0], parts, 4) == LARGE);
    free(data);
}
static void wait_sendmsg(void) {
    unsigned char *data = large();
    ready();
    struct iovec parts[] = { { data, 3000000 }, { data + 3000000, LARGE - 3000000 } };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = 2 };
    CHECK(sendmsg(pair[0], &message, 0) == LARGE);
    free(data);
}
static void wait_send(void) {
    unsigned char *data = large();
    ready();
    CHECK(send(pair[0], data, LARGE, 0) == LARGE);
    free(data);
}

static void wait_poll(void) {
    struct pollfd requests[] = { { pipes[0], POLLIN, 0 }, { -1, POLLIN, 0 }, { pair[0], POLLIN, 0 } };
    CHECK(poll(requests, 3, 0) == 0);
    CHECK(poll(requests, 1, 1) == 0 && poll(requests, 2, 1) == 0 && poll(NULL, 0, 1) == 0);
    ready();
    CHECK(poll(requests, 3, -1) == 1 && requests[0].revents == 0 && requests[2].revents == POLLIN);
    struct timespec minute = { 60, 0 }, now = { 0, 0 };
    CHECK(ppoll(requests, 3, &minute, NULL) == 1 && ppoll(requests, 1, &now, NULL) == 0);
    CHECK(read(pair[0], (char[5]){ 0 }, 5) == 5);
}
static void wait_select(void) {
    fd_set reads, writes;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    struct timeval moment = { 0, 1000 }, minute = { 60, 0 };
    CHECK(select(0, NULL, NULL, NULL, &moment) == 0 && moment.tv_sec == 0 && moment.tv_usec == 0);
    ready();
    FD_SET(pair[0], &reads);
    FD_SET(pipes[0], &reads);
    CHECK(select(FD_SETSIZE, &reads, NULL, NULL, &minute) == 1);
    CHECK(FD_ISSET(pair[0], &reads) && !FD_ISSET(pipes[0], &reads));
    CHECK(minute.tv_sec < 60 && minute.tv_usec < 1000000);
    FD_ZERO(&reads);
    FD_SET(pipes[0], &reads);
    FD_SET(pair[0], &writes);
    CHECK(select(FD_SETSIZE, &reads, &writes, NULL, NULL) == 1 && FD_ISSET(pair[0], &writes));
    CHECK(read(pair[0], (char[5]){ 0 }, 5) == 5);
}
static void wait_epoll(void) {
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 }, got;
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event) == 0);
    CHECK(epoll_wait(epoll, &got, 1, 1) == 0);
    ready();
    CHECK(epoll_pwait(epoll, &got, 1, -1, NULL) == 1 && got.data.u32 == 7);
    CHECK(epoll_wait(epoll, &got, 1, -1) == 1);
    CHECK(read(pair[0], (char[5]){ 0 }, 5) == 5);
    close(epoll);
}

static void wait_epoll_with_nanoseconds(void) {
    int epoll = epoll_create1(0);
    struct epoll_event event = { .events = EPOLLIN, .data.u32 = 7 }, got;
    struct timespec now = { 0, 0 }, moment = { 0, 1000 }, minute = { 60, 0 }, wrong = { 0, 1000000000 };
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event) == 0);
    CHECK(epoll_pwait2(epoll, &got, 1, &now, NULL) == 0);
    CHECK(epoll_pwait2(epoll, &got, 1, &moment, NULL) == 0);
    errno = 0;
    CHECK(epoll_pwait2(epoll, &got, 1, &wrong, NULL) == -1 && errno == EINVAL);
    ready();
    CHECK(epoll_pwait2(epoll, &got, 1, NULL, NULL) == 1 && got.data.u32 == 7);
    CHECK(epoll_pwait2(epoll, &got, 1, &minute, NULL) == 1);
    CHECK(read(pair[0], (char[5]){ 0 }, 5) == 5);
    close(epoll);
}

static void wait_barrier(void) {
    ready();
    int result = pthread_barrier_wait(&barrier);
    CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
}
static void *sleep_briefly(void *unused) {
    usleep(2000);
    return unused;
}
static void wait_join(void) {
    ready();
    void *result = NULL;
    CHECK(pthread_create(&other, NULL, sleep_briefly, &mutex) == 0);
    struct timespec past = in(CLOCK_REALTIME, -1, 0), later = in(CLOCK_MONOTONIC, 100, 0);
    CHECK(pthread_timedjoin_np(other, &result, &past) == ETIMEDOUT);
    CHECK(pthread_clockjoin_np(other, &result, CLOCK_MONOTONIC, &later) == 0 && result == &mutex);
    CHECK(pthread_create(&other, NULL, sleep_briefly, NULL) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    CHECK(pthread_join(pthread_self(), NULL) == EDEADLK);
}
static void wait_mutex(void) {
    struct timespec soon = in(CLOCK_REALTIME, 0, 1), later = in(CLOCK_MONOTONIC, 100, 0), malformed = { 1, -1 };
    CHECK(pthread_mutex_timedlock(&mutex, &soon) == ETIMEDOUT);
    CHECK(pthread_mutex_timedlock(&mutex, &malformed) == EINVAL);
    ready();
    CHECK(pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &later) == 0);
    CHECK(pthread_mutex_trylock(&mutex) == EBUSY && pthread_mutex_unlock(&mutex) == 0);
}
static void unlock_mutex(void) {
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}
static void wait_rwlock(void) {
    struct timespec soon = in(CLOCK_REALTIME, 0, 1), later = in(CLOCK_MONOTONIC, 100, 0);
    CHECK(pthread_rwlock_timedrdlock(&rwlock, &soon) == ETIMEDOUT);
    CHECK(pthread_rwlock_timedwrlock(&rwlock, &soon) == ETIMEDOUT);
    ready();
    CHECK(pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &later) == 0);
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    CHECK(pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &later) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
}
static void unlock_rwlock(void) {
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
}
static void wait_semaphore(void) {
    struct timespec soon = in(CLOCK_MONOTONIC, 0, 1), later = in(CLOCK_MONOTONIC, 100, 0);
    CHECK(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &soon) == -1 && errno == ETIMEDOUT);
    ready();
    CHECK(sem_clockwait(&semaphore, CLOCK_MONOTONIC, &later) == 0);
}
static void post(void) {
    CHECK(sem_post(&semaphore) == 0);
}

static long futex(int operation, unsigned value, struct timespec *time, unsigned bits) {
    return syscall(SYS_futex, &word, operation | FUTEX_PRIVATE_FLAG, value, time, NULL, bits);
}
static void wait_futex(void) {
    struct timespec moment = { 0, 1000000 }, soon = in(CLOCK_MONOTONIC, 0, 1), later = in(CLOCK_REALTIME, 100, 0);
    CHECK(futex(FUTEX_WAIT, 1, NULL, 0) == -1 && errno == EAGAIN);
    CHECK(futex(FUTEX_WAIT, 0, &moment, 0) == -1 && errno == ETIMEDOUT);
    CHECK(futex(FUTEX_WAIT_BITSET, 0, &soon, FUTEX_BITSET_MATCH_ANY) == -1 && errno == ETIMEDOUT);
    ready();
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0)
        CHECK(futex(FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME, 0, &later, 5) == 0 || errno == EAGAIN);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 1) CHECK(futex(FUTEX_WAIT, 1, NULL, 0) == 0 || errno == EAGAIN);
}
static void wake_futex(void) {
    __atomic_store_n(&word, 1, __ATOMIC_SEQ_CST);
    futex(FUTEX_WAKE_BITSET, 1, NULL, 4);
    usleep(2000);
    __atomic_store_n(&word, 2, __ATOMIC_SEQ_CST);
    futex(FUTEX_WAKE, 1, NULL, 0);
}

// The later interface for wake-ups, which kernels before 6.7 lack.
#define SYS_FUTEX_WAKE 454
#define FUTEX2_PRIVATE_32 (128 | 2)
static unsigned later_word;

static void wait_later_futex(void) {
    ready();
    while (__atomic_load_n(&later_word, __ATOMIC_SEQ_CST) == 0) {
        long result = syscall(SYS_futex, &later_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
        CHECK(result == 0 || errno == EAGAIN);
    }
}
static void wake_later_futex(void) {
    __atomic_store_n(&later_word, 1, __ATOMIC_SEQ_CST);
    long woken = syscall(SYS_FUTEX_WAKE, &later_word, ~0U, 1, FUTEX2_PRIVATE_32);
    if (woken == -1 && errno == ENOSYS) woken = syscall(SYS_futex, &later_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    CHECK(woken == 0 || woken == 1);
}

static void wait_connect(void) {
    ready();
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 5) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    CHECK(connect(client, (struct sockaddr *)&address, size) == 0);
    int server = accept(listener, NULL, NULL);
    CHECK(server >= 0 && write(server, "x", 1) == 1 && read(client, (char[1]){ 0 }, 1) == 1);
    close(server), close(client), close(listener);
}
static void short_file(void) {
    ready();
    char *data = malloc(300000), *back = malloc(300001);
    int file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
    memset(data, 'f', 300000);
    CHECK(file >= 0 && write(file, data, 300000) == 300000 && lseek(file, 0, SEEK_SET) == 0);
    CHECK(read(file, back, 300001) == 300000 && memcmp(data, back, 300000) == 0 && read(file, back, 1) == 0);
    CHECK(fsync(file) == 0);
    close(file), free(data), free(back);
}
static void nothing(void) {}

static const struct { const char *name; void (*wait)(void), (*end)(void); } cases[] = {
    { "readv", wait_readv, send_hello }, { "readv of a pipe", wait_readv_pipe, pipe_hello },
    { "recvmsg", wait_recvmsg, send_hello }, { "MSG_WAITALL", wait_waitall, send_large },
    { "writev", wait_writev, receive_large }, { "sendmsg", wait_sendmsg, receive_large },
    { "send", wait_send, receive_large }, { "poll", wait_poll, send_hello },
    { "select", wait_select, send_hello }, { "epoll", wait_epoll, send_hello },
    { "epoll_pwait2", wait_epoll_with_nanoseconds, send_hello },
    { "barrier", wait_barrier, wait_barrier }, { "join", wait_join, nothing },
    { "mutex", wait_mutex, unlock_mutex }, { "rwlock", wait_rwlock, unlock_rwlock },
    { "semaphore", wait_semaphore, post }, { "futex", wait_futex, wake_futex },
    { "later futex", wait_later_futex, wake_later_futex },
    { "connect", wait_connect, nothing }, { "file", short_file, nothing },
};

static void *run(void *which) {
    usleep(1);
    cases[(long)which].wait();
    // The thread leaves its home when it waits again.
    usleep(1);
    long tid;
    __asm__ volatile("syscall" : "=a"(tid) : "a"(SYS_gettid) : "rcx", "r11", "memory");
    return (void *)(long)(tid == gettid());
}

int main(int count, char **unused) {
    (void)unused;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(pipes) == 0);
    CHECK(sem_init(&semaphore, 0, 0) == 0 && pthread_barrier_init(&barrier, NULL, 2) == 0);
    for (unsigned long i = 0; i < sizeof cases / sizeof *cases; i++) {
        pthread_t thread;
        void *is_home;
        waiting = 0;
        CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_rwlock_wrlock(&rwlock) == 0);
        CHECK(pthread_create(&thread, NULL, run, (void *)i) == 0);
        while (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST)) usleep(100);
        usleep(5000);
        cases[i].end();
        if (cases[i].end != unlock_mutex) CHECK(pthread_mutex_unlock(&mutex) == 0);
        if (cases[i].end != unlock_rwlock) CHECK(pthread_rwlock_unlock(&rwlock) == 0);
        CHECK(pthread_join(thread, &is_home) == 0);
        if (count > 1) printf("%s: %s\n", cases[i].name, is_home ? "home" : "carrier");
    }
    puts("done");
    return 0;
}
