// Threads, mutexes and conditions of C11. With the argument `where` it says whether two threads run on one kernel thread.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

enum { THREADS = 8, ROUNDS = 500 };

static mtx_t mutex;
static cnd_t changed;
static int turn;

static struct timespec after(long milliseconds) {
    struct timespec time;
    CHECK(timespec_get(&time, TIME_UTC) == TIME_UTC);
    time.tv_nsec += milliseconds * 1000000;
    time.tv_sec += time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

// Each in turn.
static int take_turns(void *number) {
    int own = (int)(long)number;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(mtx_lock(&mutex) == thrd_success);
        while (turn % THREADS != own) CHECK(cnd_wait(&changed, &mutex) == thrd_success);
        turn++;
        CHECK(cnd_broadcast(&changed) == thrd_success && mtx_unlock(&mutex) == thrd_success);
    }
    if (own % 2 == 0) thrd_exit(-own);
    return own;
}

static int hold(void *unused) {
    (void)unused;
    CHECK(mtx_lock(&mutex) == thrd_success);
    turn = 1;
    CHECK(cnd_signal(&changed) == thrd_success);
    while (turn == 1) {
        struct timespec soon = after(1);
        int result = cnd_timedwait(&changed, &mutex, &soon);
        CHECK(result == thrd_success || result == thrd_timedout);
    }
    return mtx_unlock(&mutex);
}

static int wait_in_time(void *unused) {
    (void)unused;
    struct timespec soon = after(5), rest;
    CHECK(mtx_trylock(&mutex) == thrd_busy && mtx_timedlock(&mutex, &soon) == thrd_timedout);
    soon = (struct timespec){.tv_nsec = 1000000};
    CHECK(thrd_sleep(&soon, &rest) == 0);
    soon.tv_nsec = -1;
    CHECK(thrd_sleep(&soon, NULL) < -1);
    thrd_yield();
    return 0;
}

static pthread_mutex_t normal;

// The kind of these mutexes has been set, if only to the usual one.
static int note_kernel_thread(void *place) {
    for (int round = 0; round < 5; round++) {
        CHECK(mtx_lock(&mutex) == thrd_success && mtx_unlock(&mutex) == thrd_success);
        CHECK(pthread_mutex_lock(&normal) == 0 && pthread_mutex_unlock(&normal) == 0);
        thrd_sleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        __asm__ volatile("syscall" : "=a"(*(int *)place) : "a"((long)SYS_gettid) : "rcx", "r11", "memory");
    }
    return 0;
}

int main(int count, char **arguments) {
    thrd_t threads[THREADS];
    int result;
    CHECK(mtx_init(&mutex, mtx_timed) == thrd_success && cnd_init(&changed) == thrd_success);
    if (count > 1 && strcmp(arguments[1], "where") == 0) {
        int ids[2];
        pthread_mutexattr_t attributes;
        CHECK(pthread_mutexattr_init(&attributes) == 0);
        CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL) == 0);
        CHECK(pthread_mutex_init(&normal, &attributes) == 0);
        for (int n = 0; n < 2; n++) CHECK(thrd_create(&threads[n], note_kernel_thread, &ids[n]) == thrd_success);
        for (int n = 0; n < 2; n++) CHECK(thrd_join(threads[n], NULL) == thrd_success);
        puts(ids[0] == ids[1] ? "shared" : "own");
        return 0;
    }
    for (long n = 0; n < THREADS; n++) CHECK(thrd_create(&threads[n], take_turns, (void *)n) == thrd_success);
    for (int n = 0; n < THREADS; n++) {
        CHECK(thrd_join(threads[n], &result) == thrd_success && result == (n % 2 == 0 ? -n : n));
    }
    CHECK(turn == THREADS * ROUNDS);
    turn = 0;
    CHECK(thrd_create(&threads[0], hold, NULL) == thrd_success && mtx_lock(&mutex) == thrd_success);
    while (turn == 0) CHECK(cnd_wait(&changed, &mutex) == thrd_success);
    CHECK(thrd_create(&threads[1], wait_in_time, NULL) == thrd_success);
    CHECK(thrd_join(threads[1], NULL) == thrd_success);
    turn = 2;
    CHECK(cnd_signal(&changed) == thrd_success && mtx_unlock(&mutex) == thrd_success);
    CHECK(thrd_join(threads[0], &result) == thrd_success && result == thrd_success);
    return puts("done") < 0;
}
