// Handlers that wait while they interrupt a thread on its own kernel thread: in a call that is made there, or before its
// first wait. Afterwards the thread has its signal mask and its stack for handlers.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/select.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static int pipes[2], handled, ready;
static sem_t entered, go_on;

static void block(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

// Waits in several ways; SIGUSR2 also changes the mask before.
static void wait_in_handler(int signal) {
    int error = errno;
    char byte;
    if (signal == SIGUSR2) {
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGUSR2);
        CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    }
    usleep(1000);
    CHECK(read(pipes[0], &byte, 1) == 1);
    CHECK(sem_post(&entered) == 0);
    while (sem_wait(&go_on)) CHECK(errno == EINTR);
    errno = error;
    __atomic_fetch_add(&handled, 1, __ATOMIC_SEQ_CST);
}

static void check_state(void *stack, int is_blocked) {
    sigset_t mask;
    stack_t now;
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
        CHECK(sigismember(&mask, SIGUSR1) == is_blocked && !sigismember(&mask, SIGUSR2) && !sigismember(&mask, SIGTERM));
        CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == stack);
        usleep(1000);
    }
}

// The handler runs in the call only, whose mask accepts the signal.
static void in_call(void) {
    sigset_t none;
    sigemptyset(&none);
    block(SIG_BLOCK);
    usleep(1000);
    ready = 1;
    CHECK(pselect(0, NULL, NULL, NULL, NULL, &none) == -1 && errno == EINTR);
}

static void before_waiting(void) {
    int before = handled;
    ready = 1;
    while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) == before) {}
}

static void after_waiting(void) {
    int before = handled;
    usleep(1000);
    ready = 1;
    while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) == before) usleep(1000);
}

static void (*const cases[])(void) = {in_call, before_waiting, after_waiting};

static void *run(void *which) {
    stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
    CHECK(sigaltstack(&stack, NULL) == 0);
    cases[(long)which]();
    int before = handled;
    check_state(stack.ss_sp, which == NULL);
    // The handler also runs again.
    block(SIG_UNBLOCK);
    ready = 2;
    while (__atomic_load_n(&handled, __ATOMIC_SEQ_CST) == before) {}
    check_state(stack.ss_sp, 0);
    return which;
}

static void interrupt(pthread_t thread, int signal) {
    CHECK(pthread_kill(thread, signal) == 0);
    CHECK(write(pipes[1], "x", 1) == 1);
    while (sem_wait(&entered)) CHECK(errno == EINTR);
    usleep(1000);
    CHECK(sem_post(&go_on) == 0);
}

int main(void) {
    alarm(60);
    CHECK(pipe(pipes) == 0 && sem_init(&entered, 0, 0) == 0 && sem_init(&go_on, 0, 0) == 0);
    struct sigaction action = {.sa_handler = wait_in_handler};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    action.sa_flags = SA_RESTART | SA_ONSTACK;
    CHECK(sigaction(SIGUSR2, &action, NULL) == 0);
    for (long i = 0; i < 6; i++) {
        pthread_t thread;
        ready = 0;
        CHECK(pthread_create(&thread, NULL, run, (void *)(i / 2)) == 0);
        while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 1) usleep(100);
        interrupt(thread, i % 2 && i > 1 ? SIGUSR2 : SIGUSR1);
        while (__atomic_load_n(&ready, __ATOMIC_SEQ_CST) < 2) usleep(100);
        interrupt(thread, SIGUSR1);
        CHECK(pthread_join(thread, NULL) == 0);
        printf("case %ld\n", i);
        fflush(stdout);
    }
    return 0;
}
