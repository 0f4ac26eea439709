// Handlers of signals that wait themselves while they interrupt a wait, and handlers that jump out of a wait.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define KINDS 8
#define ROUNDS 20

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, inner_condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore, entered, go_on, ready;
static pthread_t idle;
static int pipes[2], is_open, is_inner_open, ends, jumps;
static __thread sigjmp_buf back;

// Waits for a semaphore and for a condition.
static void wait_in_handler(int signal) {
    (void)signal;
    int error = errno;
    CHECK(sem_post(&entered) == 0);
    while (sem_wait(&go_on)) CHECK(errno == EINTR);
    CHECK(pthread_mutex_lock(&inner) == 0);
    while (!is_inner_open) CHECK(pthread_cond_wait(&inner_condition, &inner) == 0);
    CHECK(pthread_mutex_unlock(&inner) == 0);
    CHECK(sem_post(&entered) == 0);
    errno = error;
}

static void jump(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static void wait_by(int kind) {
    char byte;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 1000;
    switch (kind) {
    case 0: CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0); break;
    case 1:
        CHECK(pthread_mutex_lock(&mutex) == 0);
        while (!is_open) CHECK(pthread_cond_timedwait(&condition, &mutex, &time) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        break;
    case 2: while (sem_wait(&semaphore)) CHECK(errno == EINTR); break;
    case 3: while (sem_timedwait(&semaphore, &time)) CHECK(errno == EINTR); break;
    case 4: CHECK(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0); break;
    case 5: pthread_barrier_wait(&barrier); break;
    case 6: while (read(pipes[0], &byte, 1) != 1) CHECK(errno == EINTR); break;
    default: CHECK(pthread_join(idle, NULL) == 0); break;
    }
}

static void *be_idle(void *unused) {
    while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) usleep(1000);
    return unused;
}

static void *run(void *kind) {
    usleep(100);
    CHECK(sem_post(&ready) == 0);
    wait_by((int)(long)kind);
    return kind;
}

static void take(sem_t *semaphore_) { while (sem_wait(semaphore_)) CHECK(errno == EINTR); }

// A wait that a handler interrupts continues, and ends when its reason comes.
static void interrupt(int kind, int delay) {
    pthread_t thread;
    ends = is_open = is_inner_open = 0;
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_rwlock_wrlock(&rwlock) == 0);
    CHECK(pthread_create(&idle, NULL, be_idle, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, run, (void *)(long)kind) == 0);
    take(&ready);
    if (kind == 1) CHECK(pthread_mutex_unlock(&mutex) == 0);
    for (int i = 0; i < 2; i++) {
        usleep(delay);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        take(&entered);
        CHECK(sem_post(&go_on) == 0);
        usleep(delay);
        CHECK(pthread_mutex_lock(&inner) == 0);
        is_inner_open = 1;
        CHECK(pthread_cond_broadcast(&inner_condition) == 0 && pthread_mutex_unlock(&inner) == 0);
        take(&entered);
    }
    usleep(delay);
    if (kind == 1) CHECK(pthread_mutex_lock(&mutex) == 0);
    is_open = 1;
    CHECK(pthread_cond_signal(&condition) == 0 && pthread_mutex_unlock(&mutex) == 0);
    CHECK(sem_post(&semaphore) == 0 && pthread_rwlock_unlock(&rwlock) == 0 && write(pipes[1], "x", 1) == 1);
    if (kind == 5) pthread_barrier_wait(&barrier);
    __atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
    CHECK(pthread_join(thread, NULL) == 0);
    char byte;
    if (kind != 7) CHECK(pthread_join(idle, NULL) == 0);
    if (kind != 6) CHECK(read(pipes[0], &byte, 1) == 1);
    if (kind != 2 && kind != 3) take(&semaphore);
}

// Calls that a handler may leave by a jump. The thread goes on with other waits.
static void *leave(void *unused) {
    usleep(100);
    for (volatile int i = 0; i < ROUNDS; i++) {
        char byte;
        if (sigsetjmp(back, 1) == 0) {
            CHECK(sem_post(&ready) == 0);
            if (i % 2) for (;;) (void)!read(pipes[0], &byte, 1);
            else for (;;) sleep(1000);
        }
        jumps++;
        usleep(10);
        CHECK(pthread_mutex_lock(&inner) == 0 && pthread_mutex_unlock(&inner) == 0);
    }
    return unused;
}

int main(void) {
    struct sigaction action = {.sa_handler = wait_in_handler, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_handler = jump;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    CHECK(sem_init(&semaphore, 0, 0) == 0 && sem_init(&entered, 0, 0) == 0 && sem_init(&go_on, 0, 0) == 0);
    CHECK(sem_init(&ready, 0, 0) == 0 && pipe(pipes) == 0 && pthread_barrier_init(&barrier, NULL, 2) == 0);
    for (int kind = 0; kind < KINDS; kind++) {
        for (int round = 0; round < 4; round++) interrupt(kind, round * 400);
        printf("kind %d\n", kind);
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, leave, NULL) == 0);
    for (int i = 0; i < ROUNDS; i++) {
        take(&ready);
        usleep(i * 100);
        CHECK(pthread_kill(thread, SIGUSR2) == 0);
    }
    CHECK(pthread_join(thread, NULL) == 0);
    printf("%d jumps\n", jumps);
    return 0;
}
