// Signals to the process that only threads accept which the first thread has created, because it blocks them later.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static int received, interrupts, interrupted, waiting, pipes[3][2];
static pthread_t receiver;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;

static void receive(int signal) {
    (void)signal;
    receiver = pthread_self();
    __atomic_fetch_add(&received, 1, __ATOMIC_SEQ_CST);
}

static void interrupt(int signal) {
    (void)signal;
    receiver = pthread_self();
    __atomic_fetch_add(&interrupts, 1, __ATOMIC_SEQ_CST);
}

static void wait_until(int *count, int wanted) {
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < wanted) usleep(1000);
}

static void change_mask(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

// The handler of SIGUSR1 interrupts the call, that of SIGUSR2 does not.
static void *read_interrupted(void *unused) {
    char byte;
    usleep(1000);
    __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
    CHECK(read(pipes[0][0], &byte, 1) == -1 && errno == EINTR && interrupts > 0);
    CHECK(pthread_equal(receiver, pthread_self()));
    // Another one may be on its way.
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    __atomic_fetch_add(&interrupted, 1, __ATOMIC_SEQ_CST);
    CHECK(read(pipes[0][0], &byte, 1) == 1 && received == 1);
    return unused;
}

static void *read_byte(void *which) {
    char byte;
    usleep(1000);
    __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
    CHECK(read(pipes[(long)which][0], &byte, 1) == 1);
    return NULL;
}

static void *wait_for_condition(void *unused) {
    pthread_mutex_lock(&mutex);
    __atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
    while (received < 4) pthread_cond_wait(&condition, &mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *finish(void *thread) {
    CHECK(pthread_join(*(pthread_t *)thread, NULL) == 0);
    pthread_mutex_lock(&mutex);
    CHECK(kill(getpid(), SIGUSR2) == 0);
    pthread_mutex_unlock(&mutex);
    wait_until(&received, 4);
    pthread_mutex_lock(&mutex);
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    printf("%d\n", received);
    return NULL;
}

int main(void) {
    struct sigaction action = {.sa_handler = interrupt};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_handler = receive;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    static pthread_t threads[3], last, first;
    first = pthread_self();
    for (int i = 0; i < 3; i++) CHECK(pipe(pipes[i]) == 0);

    CHECK(pthread_create(&threads[0], NULL, read_interrupted, NULL) == 0);
    wait_until(&waiting, 1);
    usleep(5000);
    change_mask(SIG_BLOCK);
    // A signal that arrives before the call does not interrupt it.
    while (!__atomic_load_n(&interrupted, __ATOMIC_SEQ_CST)) {
        CHECK(kill(getpid(), SIGUSR1) == 0);
        usleep(1000);
    }
    CHECK(kill(getpid(), SIGUSR2) == 0);
    wait_until(&received, 1);
    CHECK(write(pipes[0][1], "x", 1) == 1 && pthread_join(threads[0], NULL) == 0);

    // The one of two threads that accepts the signals ends.
    change_mask(SIG_UNBLOCK);
    for (long i = 1; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, read_byte, (void *)i) == 0);
    wait_until(&waiting, 3);
    usleep(5000);
    change_mask(SIG_BLOCK);
    CHECK(kill(getpid(), SIGUSR2) == 0);
    wait_until(&received, 2);
    int one = pthread_equal(receiver, threads[1]) ? 1 : 2;
    CHECK(write(pipes[one][1], "x", 1) == 1 && pthread_join(threads[one], NULL) == 0);
    CHECK(kill(getpid(), SIGUSR2) == 0);
    wait_until(&received, 3);
    CHECK(write(pipes[3 - one][1], "x", 1) == 1 && pthread_join(threads[3 - one], NULL) == 0);

    // The first thread ends.
    change_mask(SIG_UNBLOCK);
    CHECK(pthread_create(&threads[0], NULL, wait_for_condition, NULL) == 0);
    wait_until(&waiting, 4);
    usleep(5000);
    change_mask(SIG_BLOCK);
    CHECK(pthread_create(&last, NULL, finish, &first) == 0);
    change_mask(SIG_UNBLOCK);
    pthread_exit(NULL);
}
