// Locks in memory that two processes share, with threads in both. Prints totals that do not depend on the schedule.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) do { int e_ = (condition); if (!e_) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define THREADS 4
#define ROUNDS 300

static struct {
    pthread_mutex_t mutex, recursive;
    pthread_cond_t condition;
    pthread_rwlock_t rwlock;
    pthread_barrier_t barrier;
    sem_t items, spaces;
    pthread_spinlock_t spin;
    long counter, turn, written, rounds, serial, spun, taken;
} *shared;

static int is_child;

static void *count(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&shared->mutex) == 0);
        long old = shared->counter;
        if (i % 64 == 0) sched_yield();
        if (i % 100 == 0) usleep(10);
        shared->counter = old + 1;
        CHECK(pthread_mutex_unlock(&shared->mutex) == 0);
        CHECK(pthread_mutex_lock(&shared->recursive) == 0 && pthread_mutex_lock(&shared->recursive) == 0);
        CHECK(pthread_mutex_unlock(&shared->recursive) == 0 && pthread_mutex_unlock(&shared->recursive) == 0);
        CHECK(pthread_spin_lock(&shared->spin) == 0);
        shared->spun++;
        CHECK(pthread_spin_unlock(&shared->spin) == 0);
    }
    return unused;
}

// The processes take turns.
static void *ping(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&shared->mutex) == 0);
        while (shared->turn % 2 != is_child) CHECK(pthread_cond_wait(&shared->condition, &shared->mutex) == 0);
        shared->turn++;
        CHECK(pthread_cond_broadcast(&shared->condition) == 0);
        CHECK(pthread_mutex_unlock(&shared->mutex) == 0);
    }
    return unused;
}

static void *share(void *which) {
    for (int i = 0; i < ROUNDS; i++) {
        if ((long)which % 2) {
            CHECK(pthread_rwlock_wrlock(&shared->rwlock) == 0);
            long old = shared->written;
            if (i % 50 == 0) usleep(1);
            shared->written = old + 1;
        } else {
            CHECK(pthread_rwlock_rdlock(&shared->rwlock) == 0);
            long old = shared->written;
            if (i % 50 == 0) sched_yield();
            CHECK(old == shared->written);
        }
        CHECK(pthread_rwlock_unlock(&shared->rwlock) == 0);
    }
    return which;
}

static void *meet(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        int result = pthread_barrier_wait(&shared->barrier);
        CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
        if (result) __atomic_fetch_add(&shared->serial, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(&shared->rounds, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

// One process produces what the other one consumes.
static void *pass(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        while (sem_wait(is_child ? &shared->items : &shared->spaces)) CHECK(errno == EINTR);
        if (is_child) __atomic_fetch_add(&shared->taken, 1, __ATOMIC_RELAXED);
        CHECK(sem_post(is_child ? &shared->spaces : &shared->items) == 0);
    }
    return unused;
}

static void run(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (long i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

static void prepare(void) {
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_rwlockattr_t rwlock;
    pthread_barrierattr_t barrier;
    CHECK(pthread_mutexattr_init(&mutex) == 0 && pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutex_init(&shared->mutex, &mutex) == 0);
    CHECK(pthread_mutexattr_settype(&mutex, PTHREAD_MUTEX_RECURSIVE) == 0 && pthread_mutex_init(&shared->recursive, &mutex) == 0);
    CHECK(pthread_condattr_init(&condition) == 0 && pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_cond_init(&shared->condition, &condition) == 0);
    CHECK(pthread_rwlockattr_init(&rwlock) == 0 && pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_rwlock_init(&shared->rwlock, &rwlock) == 0);
    CHECK(pthread_barrierattr_init(&barrier) == 0 && pthread_barrierattr_setpshared(&barrier, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_barrier_init(&shared->barrier, &barrier, 2 * THREADS) == 0);
    CHECK(sem_init(&shared->items, 1, 0) == 0 && sem_init(&shared->spaces, 1, 3) == 0);
    CHECK(pthread_spin_init(&shared->spin, PTHREAD_PROCESS_SHARED) == 0);
}

int main(void) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    prepare();
    void *(*bodies[])(void *) = {count, ping, share, meet, pass};
    pid_t child = fork();
    CHECK(child >= 0);
    is_child = child == 0;
    for (int i = 0; i < 5; i++) run(bodies[i]);
    if (is_child) return 0;
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    printf("%ld %ld %ld %ld %ld %ld %ld\n", shared->counter, shared->spun, shared->turn, shared->written, shared->rounds, shared->serial, shared->taken);
    return 0;
}
