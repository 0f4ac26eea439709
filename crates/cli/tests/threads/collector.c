// Stops all threads by a signal, reads their stacks and registers, and restarts them by another signal, as the garbage
// collector of Boehm does. Each thread keeps a hidden number in a register or on its stack while it computes or waits.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define STOP SIGPWR
#define RESTART SIGXCPU
#define THREADS 10
#define COLLECTIONS 40

static struct {
    pthread_t thread;
    uintptr_t *low, *high;
    uint64_t steps;
} threads[THREADS];

static __thread int self = -1;
static sem_t acknowledged, started;
static volatile sig_atomic_t is_stopped;
static int ends, pipes[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

// The number is not in memory elsewhere.
static uint64_t number(int which) {
    return 0x9e3779b97f4a7c15 * (uint64_t)(which + 12345);
}

static void stop(int signal) {
    (void)signal;
    int error = errno;
    uintptr_t here;
    // The kernel has put the registers on the stack, above this frame.
    threads[self].low = &here;
    CHECK(sem_post(&acknowledged) == 0);
    sigset_t mask;
    sigfillset(&mask);
    sigdelset(&mask, RESTART);
    do sigsuspend(&mask); while (is_stopped);
    CHECK(sem_post(&acknowledged) == 0);
    errno = error;
}

static void restart(int signal) { (void)signal; }

static void wait_by(int kind) {
    struct timespec time;
    char byte;
    switch (kind) {
    case 0: break; // computes
    case 1: usleep(300); break;
    case 2: pthread_mutex_lock(&mutex); usleep(50); pthread_mutex_unlock(&mutex); break;
    case 3:
        clock_gettime(CLOCK_REALTIME, &time);
        time.tv_sec += 100;
        pthread_mutex_lock(&mutex);
        if (!ends) pthread_cond_timedwait(&condition, &mutex, &time);
        pthread_mutex_unlock(&mutex);
        break;
    case 4: while (!__atomic_load_n(&ends, __ATOMIC_RELAXED) && read(pipes[0], &byte, 1) == -1) CHECK(errno == EINTR); break;
    default: poll(NULL, 0, 1); sched_yield(); break;
    }
}

static __attribute__((noinline)) void *mutate(void *which) {
    self = (int)(long)which;
    uint64_t kept = number(self);
    __asm__ volatile("" : "+r"(kept));
    pthread_attr_t attributes;
    void *stack;
    size_t bytes;
    CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0);
    CHECK(pthread_attr_getstack(&attributes, &stack, &bytes) == 0 && pthread_attr_destroy(&attributes) == 0);
    threads[self].high = (uintptr_t *)((char *)stack + bytes);
    CHECK((void *)&stack > stack && (uintptr_t *)&stack < threads[self].high);
    usleep(100);
    CHECK(sem_post(&started) == 0);
    while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
        for (int i = 0; i < 1000; i++) {
            __asm__ volatile("" : "+r"(kept));
            threads[self].steps += kept & 1;
        }
        wait_by(self % 6);
        CHECK(kept == number(self));
    }
    return which;
}

static void take(int count) {
    for (int i = 0; i < count; i++) while (sem_wait(&acknowledged)) CHECK(errno == EINTR);
}

static int finds(int which) {
    for (uintptr_t *at = threads[which].low; at < threads[which].high; at++) if (*at == number(which)) return 1;
    return 0;
}

static void collect(void) {
    uint64_t steps[THREADS];
    is_stopped = 1;
    for (int i = 0; i < THREADS; i++) CHECK(pthread_kill(threads[i].thread, STOP) == 0);
    take(THREADS);
    for (int i = 0; i < THREADS; i++) steps[i] = threads[i].steps;
    for (int i = 0; i < THREADS; i++) if (!finds(i)) printf("the number of thread %d is not on its stack\n", i);
    usleep(200);
    for (int i = 0; i < THREADS; i++) CHECK(steps[i] == threads[i].steps);
    is_stopped = 0;
    for (int i = 0; i < THREADS; i++) CHECK(pthread_kill(threads[i].thread, RESTART) == 0);
    take(THREADS);
}

static void *collect_often(void *unused) {
    for (int i = 0; i < COLLECTIONS; i++) {
        collect();
        usleep(i % 4 * 500);
    }
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_handler = stop, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    CHECK(sigaction(STOP, &action, NULL) == 0);
    action.sa_handler = restart;
    CHECK(sigaction(RESTART, &action, NULL) == 0);
    CHECK(sem_init(&acknowledged, 0, 0) == 0 && sem_init(&started, 0, 0) == 0 && pipe(pipes) == 0);
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i].thread, NULL, mutate, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) while (sem_wait(&started)) {}
    collect_often(NULL);
    // The collecting thread may be any.
    pthread_t collector;
    CHECK(pthread_create(&collector, NULL, collect_often, NULL) == 0 && pthread_join(collector, NULL) == 0);
    pthread_mutex_lock(&mutex);
    __atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    char bytes[THREADS] = {0};
    CHECK(write(pipes[1], bytes, THREADS) == THREADS);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i].thread, NULL) == 0);
    puts("done");
    return 0;
}
