// Priorities of threads, and mutexes that inherit or have priorities. Prints what the system permits.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define THREADS 8
#define ROUNDS 300

static pthread_mutex_t mutex;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long counter, turn;
// That of the test's process.
static int nice_of_main;

static void *count(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        int error = pthread_mutex_lock(&mutex);
        if (error == EPERM || error == EINVAL) return (void *)(long)error;
        CHECK(error == 0);
        long old = counter;
        if (i % 50 == 0) usleep(10);
        counter = old + 1;
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    return unused;
}

static void *take_turns(void *which) {
    for (int i = 0; i < ROUNDS; i++) {
        CHECK(pthread_mutex_lock(&mutex) == 0);
        while (turn % THREADS != (long)which) CHECK(pthread_cond_wait(&condition, &mutex) == 0);
        turn++;
        CHECK(pthread_cond_broadcast(&condition) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    return NULL;
}

static long run(void *(*body)(void *)) {
    pthread_t threads[THREADS];
    void *result, *any = NULL;
    counter = turn = 0;
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    for (long i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], &result) == 0);
        if (body == count && (long)result != i) any = result;
    }
    return (long)any;
}

static void create(int type, int protocol, int ceiling) {
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0 && pthread_mutexattr_settype(&attributes, type) == 0);
    CHECK(pthread_mutexattr_setprotocol(&attributes, protocol) == 0);
    if (ceiling) CHECK(pthread_mutexattr_setprioceiling(&attributes, ceiling) == 0);
    CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
}

static int is_own_nice(void) {
    errno = 0;
    return getpriority(PRIO_PROCESS, 0) == getpriority(PRIO_PROCESS, (id_t)gettid()) && errno == 0;
}

// A nice value belongs to one thread, and threads inherit it.
static void *be_nice(void *level) {
    usleep(100);
    int before = getpriority(PRIO_PROCESS, 0);
    CHECK(is_own_nice() && (level ? before >= nice_of_main + 3 : before == nice_of_main));
    if ((long)level == 3) return NULL;
    CHECK(setpriority(PRIO_PROCESS, 0, before + 3) == 0);
    pthread_t child;
    CHECK(pthread_create(&child, NULL, be_nice, (void *)((long)level + 1)) == 0);
    for (int i = 0; i < 20; i++) {
        usleep(100);
        CHECK(getpriority(PRIO_PROCESS, 0) == before + 3);
    }
    CHECK(pthread_join(child, NULL) == 0);
    return NULL;
}

static void *change(void *unused) {
    struct sched_param parameter = {.sched_priority = 0}, found;
    int policy, policies[] = {SCHED_BATCH, SCHED_IDLE, SCHED_OTHER};
    usleep(100);
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_setschedparam(pthread_self(), policies[i], &parameter) == 0);
        usleep(100);
        CHECK(pthread_getschedparam(pthread_self(), &policy, &found) == 0 && policy == policies[i]);
        CHECK(sched_getscheduler(0) == policies[i]);
    }
    parameter.sched_priority = 7;
    int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
    printf("FIFO: %d\n", error);
    usleep(100);
    CHECK(pthread_getschedparam(pthread_self(), &policy, &found) == 0 && policy == (error ? SCHED_OTHER : SCHED_FIFO));
    return unused;
}

static void *report(void *unused) {
    int policy;
    struct sched_param found;
    usleep(100);
    CHECK(pthread_getschedparam(pthread_self(), &policy, &found) == 0);
    printf("with attributes: policy %d, priority %d\n", policy, found.sched_priority);
    return unused;
}

// A mutex with a priority requires a real-time policy, which threads inherit.
static void *use_protected(void *unused) {
    struct sched_param parameter = {.sched_priority = 1};
    int error = pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameter);
    create(PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_PROTECT, 2);
    long other = run(count);
    printf("protected: %d %ld %ld\n", error, other, counter);
    return unused;
}

static void with_attributes(int policy, int priority) {
    pthread_attr_t attributes;
    pthread_t thread;
    struct sched_param parameter = {.sched_priority = priority};
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED) == 0);
    CHECK(pthread_attr_setschedpolicy(&attributes, policy) == 0 && pthread_attr_setschedparam(&attributes, &parameter) == 0);
    int error = pthread_create(&thread, &attributes, report, NULL);
    if (error) printf("with attributes: %d\n", error);
    else CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
    nice_of_main = getpriority(PRIO_PROCESS, 0);
    pthread_t thread;
    int types[] = {PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK};
    for (int i = 0; i < 3; i++) {
        create(types[i], PTHREAD_PRIO_INHERIT, 0);
        CHECK(run(count) == 0);
        long counted = counter;
        CHECK(run(take_turns) == 0);
        printf("inherited: %ld %ld\n", counted, turn);
    }
    CHECK(pthread_create(&thread, NULL, use_protected, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, be_nice, NULL) == 0 && pthread_join(thread, NULL) == 0 && getpriority(PRIO_PROCESS, 0) == nice_of_main);
    CHECK(pthread_create(&thread, NULL, change, NULL) == 0 && pthread_join(thread, NULL) == 0);
    with_attributes(SCHED_OTHER, 0);
    with_attributes(SCHED_RR, 5);
    return 0;
}
