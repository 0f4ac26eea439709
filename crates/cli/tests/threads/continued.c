// Signals to threads that wait for a condition: the wait continues after the handler, as in the C library.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define SIGNALS 5

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int waits, received, returns, go, held, tid;

static void receive(int signal) {
    (void)signal;
    __atomic_fetch_add(&received, 1, __ATOMIC_SEQ_CST);
}

static void wait_until(int *count, int wanted) {
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < wanted) usleep(1000);
}

static void begin(void) {
    tid = gettid();
    usleep(1000);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    __atomic_store_n(&waits, 1, __ATOMIC_SEQ_CST);
}

// The mutex is free again when the other thread waits.
static void await_wait(void) {
    wait_until(&waits, 1);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static pthread_t start(void *(*run)(void *)) {
    pthread_t thread;
    waits = received = returns = go = held = 0;
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    await_wait();
    return thread;
}

static void *wait_for_ever(void *unused) {
    begin();
    while (!go) {
        CHECK(pthread_cond_wait(&condition, &mutex) == 0);
        returns++;
    }
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return unused;
}

static void *wait_until_time(void *blocks) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (blocks != NULL) CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    struct timespec time;
    CHECK(clock_gettime(CLOCK_REALTIME, &time) == 0);
    time.tv_nsec += 200 * 1000 * 1000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    begin();
    CHECK(pthread_cond_timedwait(&condition, &mutex, &time) == ETIMEDOUT);
    struct timespec now;
    CHECK(clock_gettime(CLOCK_REALTIME, &now) == 0);
    CHECK(now.tv_sec > time.tv_sec || (now.tv_sec == time.tv_sec && now.tv_nsec >= time.tv_nsec));
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return NULL;
}

static void *wait_with_blocked_signal(void *unused) {
    (void)unused;
    return wait_until_time(&waits);
}

static void unlock(void *unused) {
    (void)unused;
    held = pthread_mutex_trylock(&mutex) == EBUSY;
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void *wait_to_be_cancelled(void *unused) {
    begin();
    pthread_cleanup_push(unlock, NULL);
    for (;;) {
        pthread_cond_wait(&condition, &mutex);
        returns++;
    }
    pthread_cleanup_pop(0);
    return unused;
}

static void signal_often(pthread_t thread) {
    for (int i = 0; i < SIGNALS; i++) {
        CHECK(i % 2 ? syscall(SYS_tgkill, getpid(), tid, SIGUSR1) == 0 : pthread_kill(thread, i == 2 ? SIGUSR2 : SIGUSR1) == 0);
        wait_until(&received, i + 1);
        await_wait();
    }
    CHECK(returns == 0);
}

int main(void) {
    struct sigaction action = {.sa_handler = receive};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);

    pthread_t thread = start(wait_for_ever);
    signal_often(thread);
    CHECK(pthread_mutex_lock(&mutex) == 0);
    go = 1;
    CHECK(pthread_cond_signal(&condition) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && returns == 1);

    thread = start(wait_until_time);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    wait_until(&received, 1);
    CHECK(pthread_join(thread, NULL) == 0);

    thread = start(wait_with_blocked_signal);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    CHECK(pthread_join(thread, NULL) == 0 && received == 0);

    // Cancelled after signals, with the mutex held.
    void *value;
    thread = start(wait_to_be_cancelled);
    signal_often(thread);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &value) == 0 && value == PTHREAD_CANCELED && held && returns == 0);
    puts("done");
    return 0;
}
