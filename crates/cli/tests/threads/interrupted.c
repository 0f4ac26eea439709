// Signals to threads that compute, and so call no function that could notice them.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define THREADS 4

static pthread_t threads[THREADS];
static int tids[THREADS], ready, received[THREADS], stop;
static sem_t semaphore;
static double results[THREADS];

static void receive(int signal) {
    (void)signal;
    for (int i = 0; i < THREADS; i++)
        if (pthread_equal(threads[i], pthread_self())) __atomic_fetch_add(&received[i], 1, __ATOMIC_SEQ_CST);
}

static void wait_until(int *count, int wanted) {
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < wanted) usleep(1000);
}

static double step(double value) {
    return value * 1.000001 + 0.5 / (value + 1);
}

// Computes until the handler has run; the numbers in registers survive that.
static void *compute(void *which) {
    long i = (long)which;
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16}, now;
    CHECK(sigaltstack(&stack, NULL) == 0);
    tids[i] = gettid();
    usleep(1000);
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    double value = i;
    long steps = 0;
    while (__atomic_load_n(&received[i], __ATOMIC_RELAXED) == 0) value = step(value), steps++;
    while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) ;
    double wanted = i;
    while (steps-- > 0) wanted = step(wanted);
    CHECK(value == wanted);
    results[i] = value;
    CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack.ss_sp && now.ss_size == stack.ss_size);
    sigset_t mask;
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &mask) == 0 && !sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGTERM));
    usleep(1000);
    return NULL;
}

static void *wait_for_signal(void *unused) {
    tids[0] = gettid();
    usleep(1000);
    __atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
    CHECK(sem_wait(&semaphore) == -1 && errno == EINTR && received[0] == 1);
    // The signal has interrupted one call only.
    CHECK(sem_wait(&semaphore) == 0);
    return unused;
}

static void start(void *(*run)(void *), long count) {
    ready = stop = 0;
    memset(received, 0, sizeof received);
    for (long i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, run, (void *)i) == 0);
    wait_until(&ready, count);
}

static void finish(int count) {
    for (int i = 0; i < count; i++) wait_until(&received[i], 1);
    stop = 1;
    for (int i = 0; i < count; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    struct sigaction action = {.sa_handler = receive};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    CHECK(sem_init(&semaphore, 0, 0) == 0);

    start(compute, THREADS);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_kill(threads[i], i % 2 ? SIGUSR1 : SIGUSR2) == 0);
    finish(THREADS);

    start(compute, THREADS);
    for (int i = 0; i < THREADS; i++) CHECK(syscall(SYS_tgkill, getpid(), tids[i], i % 2 ? SIGUSR1 : SIGUSR2) == 0);
    finish(THREADS);

    start(compute, 1);
    CHECK(pthread_sigqueue(threads[0], SIGUSR1, (union sigval){0}) == 0);
    finish(1);

    start(wait_for_signal, 1);
    usleep(5000);
    CHECK(tgkill(getpid(), tids[0], SIGUSR1) == 0);
    wait_until(&received[0], 1);
    usleep(5000);
    CHECK(sem_post(&semaphore) == 0);
    finish(1);

    // A signal to the process, which the first thread blocks.
    start(compute, 1);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    finish(1);
    puts("done");
    return 0;
}
