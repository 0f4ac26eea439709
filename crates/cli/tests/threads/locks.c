// Mutexes, condition variables, semaphores and read-write locks, with contention. Prints totals that do not depend on
// the schedule.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define THREADS 16
#define ROUNDS 2000
#define CHECK(call) do { int e_ = (call); if (e_) { printf("%s: %d\n", #call, e_); exit(1); } } while (0)

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t checking = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static long counter, reads, written, turn, queued, produced, consumed;

static void *count(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&mutex));
        long old = counter;
        if (i % 64 == 0) sched_yield();
        if (i % 500 == 0) usleep(10);
        counter = old + 1;
        CHECK(pthread_mutex_unlock(&mutex));
        CHECK(pthread_mutex_lock(&recursive));
        CHECK(pthread_mutex_lock(&recursive));
        CHECK(pthread_mutex_unlock(&recursive));
        CHECK(pthread_mutex_unlock(&recursive));
        CHECK(pthread_mutex_lock(&checking));
        if (pthread_mutex_lock(&checking) != EDEADLK) exit(2);
        CHECK(pthread_mutex_unlock(&checking));
        if (pthread_mutex_unlock(&checking) != EPERM) exit(3);
    }
    return unused;
}

static void *ping(void *which) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&mutex));
        while (turn % 2 != (long)which) CHECK(pthread_cond_wait(&condition, &mutex));
        turn++;
        CHECK(pthread_cond_broadcast(&condition));
        CHECK(pthread_mutex_unlock(&mutex));
    }
    return which;
}

static void *produce(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&mutex));
        queued++, produced++;
        CHECK(pthread_cond_signal(&condition));
        CHECK(pthread_mutex_unlock(&mutex));
    }
    return unused;
}

static void *consume(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&mutex));
        while (queued == 0) CHECK(pthread_cond_wait(&condition, &mutex));
        queued--, consumed++;
        CHECK(pthread_mutex_unlock(&mutex));
    }
    return unused;
}

static void *post(void *unused) {
    for (int i = 0; i < ROUNDS; i++) CHECK(sem_post(&semaphore));
    return unused;
}

static void *take(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec time;
        clock_gettime(CLOCK_REALTIME, &time);
        time.tv_sec += 1000;
        CHECK(i % 2 ? sem_wait(&semaphore) : sem_timedwait(&semaphore, &time));
    }
    return unused;
}

static void *share(void *which) {
    for (int i = 0; i < ROUNDS; i++) {
        if ((long)which % 4 == 0) {
            CHECK(pthread_rwlock_wrlock(&rwlock));
            long old = written;
            if (i % 100 == 0) usleep(1);
            written = old + 1;
        } else {
            CHECK(pthread_rwlock_rdlock(&rwlock));
            long old = written;
            if (i % 100 == 0) sched_yield();
            if (old != written) exit(4);
            __atomic_fetch_add(&reads, 1, __ATOMIC_RELAXED);
        }
        CHECK(pthread_rwlock_unlock(&rwlock));
    }
    return which;
}

static void *time_out(void *unused) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += 20000000;
    if (time.tv_nsec >= 1000000000) time.tv_nsec -= 1000000000, time.tv_sec++;
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    sem_t empty;
    sem_init(&empty, 0, 0);
    CHECK(pthread_mutex_lock(&own));
    int error = 0;
    while (error == 0) error = pthread_cond_timedwait(&never, &own, &time);
    if (error != ETIMEDOUT) exit(5);
    if (sem_timedwait(&empty, &time) != -1 || errno != ETIMEDOUT) exit(6);
    CHECK(pthread_mutex_unlock(&own));
    return unused;
}

static void run(const char *name, void *(*one)(void *), void *(*other)(void *)) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, i % 2 ? one : other, (void *)i));
    for (long i = 0; i < THREADS; i++) {
        void *result;
        CHECK(pthread_join(threads[i], &result));
        if (result != (void *)i) exit(7);
    }
    puts(name);
}

int main(void) {
    sem_init(&semaphore, 0, 0);
    run("count", count, count);
    pthread_t one, other;
    CHECK(pthread_create(&one, NULL, ping, (void *)0));
    CHECK(pthread_create(&other, NULL, ping, (void *)1));
    pthread_join(one, NULL), pthread_join(other, NULL);
    run("produce", produce, consume);
    run("post", post, take);
    run("share", share, share);
    run("time out", time_out, time_out);
    printf("%ld %ld %ld %ld %ld %ld\n", counter, turn, produced, consumed, reads, written);
    return 0;
}
