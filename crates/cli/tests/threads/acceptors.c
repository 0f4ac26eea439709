// Threads that unblock a signal which is sent to the process, and which its first thread blocks.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#define THREADS 4
#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static int received, finished, pipes[THREADS][2];

static void receive(int signal) {
    (void)signal;
    __atomic_fetch_add(&received, 1, __ATOMIC_SEQ_CST);
}

// Waits for bytes; each is answered by the next turn. 'e' ends the thread.
static void *serve(void *which) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    char byte = 0;
    do {
        __atomic_fetch_add(&finished, 1, __ATOMIC_SEQ_CST);
        CHECK(read(pipes[(long)which][0], &byte, 1) == 1);
    } while (byte != 'e');
    return NULL;
}

static void wait_until(int *count, int wanted) {
    while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < wanted) usleep(1000);
}

int main(void) {
    struct sigaction action = {.sa_handler = receive, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    // Reading an attribute gives the threads none of their own.
    CHECK(prctl(PR_CAPBSET_READ, 0, 0, 0, 0) >= 0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) {
        CHECK(pipe(pipes[i]) == 0);
        CHECK(pthread_create(&threads[i], NULL, serve, (void *)i) == 0);
        wait_until(&finished, i + 1);
    }
    usleep(5000);
    for (int i = 0; i < 3; i++) {
        CHECK(kill(getpid(), SIGUSR1) == 0);
        wait_until(&received, i + 1);
    }
    // The thread ends that unblocked the signal first.
    CHECK(write(pipes[0][1], "e", 1) == 1 && pthread_join(threads[0], NULL) == 0);
    for (int i = 1; i < THREADS; i++) CHECK(write(pipes[i][1], "n", 1) == 1);
    wait_until(&finished, THREADS + THREADS - 1);
    usleep(5000);
    CHECK(kill(getpid(), SIGUSR1) == 0);
    wait_until(&received, 4);
    for (int i = 1; i < THREADS; i++) CHECK(write(pipes[i][1], "e", 1) == 1 && pthread_join(threads[i], NULL) == 0);
    printf("%d\n", received);
    return 0;
}
