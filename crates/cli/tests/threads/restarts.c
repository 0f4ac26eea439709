// Calls that a handler interrupts: without SA_RESTART, in a thread that waits on its own kernel thread to accept a signal of
// the process; and with SA_RESTART, if the call has a timeout.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static int pipes[2], pair[2], listener, waiting, tid;
static unsigned word;
static sem_t semaphore;
static char byte;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int handler_waits;

// A handler that waits interrupts the call as well.
static void handle(int signal) {
    (void)signal;
    struct timespec past = {.tv_sec = 1};
    if (!handler_waits) return;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &past) == ETIMEDOUT);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static int by_read(void) { return read(pipes[0], &byte, 1); }
static int by_receive(void) { return recv(pair[0], &byte, 1, 0); }
static int by_accept(void) { return accept(listener, NULL, NULL); }
static int by_sleep(void) { return usleep(900000000); }
static int by_poll(void) { return poll(&(struct pollfd){pipes[0], POLLIN, 0}, 1, -1); }
static int by_futex(void) { return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0); }
static int by_semaphore(void) { return sem_wait(&semaphore); }

static int by_timed_receive(void) {
    CHECK(setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 500000}, sizeof(struct timeval)) == 0);
    return recv(pair[0], &byte, 1, 0);
}
static int by_timed_semaphore(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += 500000000;
    if (time.tv_nsec >= 1000000000) time.tv_nsec -= 1000000000, time.tv_sec++;
    return sem_timedwait(&semaphore, &time);
}

static void *run(void *call) {
    usleep(1000);
    tid = gettid();
    __atomic_store_n(&waiting, 1, __ATOMIC_SEQ_CST);
    int result = ((int (*)(void))call)();
    return (void *)(long)(result == -1 ? errno : 0);
}

static pthread_t start(int (*call)(void)) {
    pthread_t thread;
    waiting = 0;
    CHECK(pthread_create(&thread, NULL, run, (void *)call) == 0);
    while (!__atomic_load_n(&waiting, __ATOMIC_SEQ_CST)) usleep(100);
    return thread;
}

static int result_of(pthread_t thread) {
    void *result;
    CHECK(pthread_join(thread, &result) == 0);
    return (int)(long)result;
}

static void mask(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

// Whether the thread's kernel thread sleeps and accepts the signal.
static int sleeps_and_accepts(void) {
    char path[64], line[256];
    int sleeps = 0, accepts = 0;
    unsigned long blocked;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *file = fopen(path, "r");
    CHECK(file);
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "State:\tS", 8) == 0) sleeps = 1;
        if (sscanf(line, "SigBlk: %lx", &blocked) == 1) accepts = !(blocked >> (SIGUSR1 - 1) & 1);
    }
    fclose(file);
    return sleeps && accepts;
}

// One signal interrupts the call.
static void accept_signal(const char *name, int (*call)(void)) {
    mask(SIG_UNBLOCK);
    pthread_t thread = start(call);
    usleep(20000);
    mask(SIG_BLOCK);
    while (!sleeps_and_accepts()) usleep(1000);
    usleep(20000);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    printf("%s: %s\n", name, strerror(result_of(thread)));
    fflush(stdout);
}

// The signal may arrive before the call.
static void interrupt(const char *name, int (*call)(void)) {
    int error = 0;
    for (int i = 0; i < 10 && error != EINTR; i++) {
        pthread_t thread = start(call);
        usleep(100000);
        CHECK(pthread_kill(thread, SIGUSR2) == 0);
        error = result_of(thread);
    }
    printf("%s: %s\n", name, strerror(error));
    fflush(stdout);
}

int main(void) {
    alarm(60);
    struct sigaction action = {.sa_handler = handle};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    CHECK(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && sem_init(&semaphore, 0, 0) == 0);
    CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && listen(listener, 1) == 0);
    for (handler_waits = 0; handler_waits < 2; handler_waits++) {
        accept_signal("read", by_read);
        accept_signal("recv", by_receive);
        accept_signal("accept", by_accept);
        accept_signal("usleep", by_sleep);
        accept_signal("poll", by_poll);
        accept_signal("futex", by_futex);
        accept_signal("semaphore", by_semaphore);
        interrupt("recv with a timeout", by_timed_receive);
        interrupt("semaphore with a timeout", by_timed_semaphore);
    }
    return 0;
}
