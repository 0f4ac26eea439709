// Signals that a thread sends to itself: blocked ones stay pending for it, and a handler of `abort` jumps out of it.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static jmp_buf place;

static void await(int fd, int signal) {
    struct pollfd request = {fd, POLLIN, 0};
    struct signalfd_siginfo info;
    usleep(1000);
    CHECK(poll(&request, 1, 1000) == 1);
    CHECK(read(fd, &info, sizeof info) == sizeof info && (int)info.ssi_signo == signal);
    printf("received %d\n", signal);
}

static void *raise_blocked(void *by_number) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    int fd = signalfd(-1, &set, SFD_CLOEXEC);
    usleep(1000);
    if (by_number) CHECK(syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1) == 0);
    else CHECK(raise(SIGUSR1) == 0);
    usleep(1000);
    await(fd, SIGUSR1);
    close(fd);
    return NULL;
}

static void jump(int signal) {
    _longjmp(place, signal);
}

static void *leave_abort(void *unused) {
    sigset_t set;
    usleep(1000);
    signal(SIGABRT, jump);
    for (volatile int i = 0; i < 3; i++) {
        if (_setjmp(place) == 0) abort();
        // As after each jump out of a handler, its signal is blocked.
        usleep(1000);
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &set) == 0);
        printf("blocked: %d\n", sigismember(&set, SIGABRT));
    }
    return unused;
}

static void run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(void) {
    alarm(60);
    run(raise_blocked, NULL);
    run(raise_blocked, "by number");
    run(leave_abort, NULL);
    puts("done");
    return 0;
}
