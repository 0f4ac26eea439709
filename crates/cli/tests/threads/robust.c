// Robust mutexes whose owner ends: a thread that returns, exits or is cancelled, and a process that is killed.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define MAX_WAITERS 6

enum end { RETURNS, EXITS, IS_CANCELLED, ENDS };

static pthread_mutex_t *mutex;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t locked, may_end;
// glibc does not wake all waiters of a mutex that becomes unrecoverable.
static int inherited, acquired, unrecoverable, waits, makes_consistent, waiters;

static void *lock_and_end(void *how) {
    usleep(100);
    CHECK(pthread_mutex_lock(mutex) == 0);
    sem_post(&locked);
    while (sem_wait(&may_end)) {}
    if ((long)how == EXITS) pthread_exit(how);
    return how;
}

static void count(int error) {
    int *counter = error == 0 ? &acquired : error == EOWNERDEAD ? &inherited : &unrecoverable;
    CHECK(error == 0 || error == EOWNERDEAD || error == ENOTRECOVERABLE);
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
    if (error == EOWNERDEAD && makes_consistent) CHECK(pthread_mutex_consistent(mutex) == 0);
    if (error != ENOTRECOVERABLE) CHECK(pthread_mutex_unlock(mutex) == 0);
}

static void *wait_for_lock(void *which) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += 100;
    usleep(100);
    __atomic_fetch_add(&waits, 1, __ATOMIC_SEQ_CST);
    count((long)which % 2 ? pthread_mutex_timedlock(mutex, &end) : pthread_mutex_lock(mutex));
    return which;
}

static void create(int type, int protocol, int shared) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0 && pthread_mutexattr_settype(&attributes, type) == 0);
    CHECK(pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) == 0);
    CHECK(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
    CHECK(pthread_mutexattr_setpshared(&attributes, shared) == 0);
    CHECK(pthread_mutex_init(mutex, &attributes) == 0);
    inherited = acquired = unrecoverable = waits = 0;
}

static void start(pthread_t *threads) {
    for (long i = 0; i < waiters; i++) CHECK(pthread_create(&threads[i], NULL, wait_for_lock, (void *)i) == 0);
    while (__atomic_load_n(&waits, __ATOMIC_SEQ_CST) < waiters) usleep(100);
}

static void finish(pthread_t *threads) {
    for (long i = 0; i < waiters; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    int error = pthread_mutex_trylock(mutex);
    if (error == 0) CHECK(pthread_mutex_unlock(mutex) == 0);
    printf("%d inherited, %d acquired, %d unrecoverable; then %d\n", inherited, acquired, unrecoverable, error);
    CHECK(pthread_mutex_destroy(mutex) == 0);
}

static void owner_ends(enum end end) {
    pthread_t owner, threads[MAX_WAITERS];
    CHECK(pthread_create(&owner, NULL, lock_and_end, (void *)end) == 0);
    while (sem_wait(&locked)) {}
    CHECK(pthread_mutex_trylock(mutex) == EBUSY);
    start(threads);
    usleep(1000);
    CHECK((end == IS_CANCELLED ? pthread_cancel(owner) : sem_post(&may_end)) == 0);
    CHECK(pthread_join(owner, NULL) == 0);
    finish(threads);
}

// A child that holds the mutex is killed while threads of this process wait.
static void process_ends(void) {
    pthread_t threads[MAX_WAITERS];
    sem_t *ready = mmap(NULL, sizeof *ready, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ready != MAP_FAILED && sem_init(ready, 1, 0) == 0);
    create(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_SHARED);
    pid_t child = fork();
    if (child == 0) {
        if (pthread_mutex_lock(mutex)) _exit(1);
        sem_post(ready);
        for (;;) pause();
    }
    while (sem_wait(ready)) {}
    start(threads);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    finish(threads);
}

static void *wait_for_condition(void *unused) {
    usleep(100);
    CHECK(pthread_mutex_lock(mutex) == 0);
    __atomic_fetch_add(&waits, 1, __ATOMIC_SEQ_CST);
    count(pthread_cond_wait(&condition, mutex));
    return unused;
}

// The thread that signals a condition ends with the mutex locked.
static void waits_for_condition(void) {
    pthread_t waiter, owner;
    create(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_NONE, PTHREAD_PROCESS_PRIVATE);
    CHECK(pthread_create(&waiter, NULL, wait_for_condition, NULL) == 0);
    while (__atomic_load_n(&waits, __ATOMIC_SEQ_CST) < 1) usleep(100);
    CHECK(pthread_create(&owner, NULL, lock_and_end, (void *)RETURNS) == 0);
    while (sem_wait(&locked)) {}
    CHECK(pthread_cond_signal(&condition) == 0);
    CHECK(sem_post(&may_end) == 0);
    CHECK(pthread_join(owner, NULL) == 0 && pthread_join(waiter, NULL) == 0);
    printf("condition: %d inherited, %d acquired\n", inherited, acquired);
    CHECK(pthread_mutex_destroy(mutex) == 0);
}

int main(void) {
    mutex = mmap(NULL, sizeof *mutex, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(mutex != MAP_FAILED && sem_init(&locked, 0, 0) == 0 && sem_init(&may_end, 0, 0) == 0);
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    int protocols[] = {PTHREAD_PRIO_NONE, PTHREAD_PRIO_INHERIT};
    for (makes_consistent = 0; makes_consistent < 2; makes_consistent++) {
        waiters = makes_consistent ? MAX_WAITERS : 1;
        for (int i = 0; i < 6; i++) {
            for (enum end end = RETURNS; end < ENDS; end++) {
                create(types[i / 2], protocols[i % 2], PTHREAD_PROCESS_PRIVATE);
                owner_ends(end);
            }
        }
        process_ends();
    }
    waits_for_condition();
    return 0;
}
