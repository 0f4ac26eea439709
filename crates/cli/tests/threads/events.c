// Polls for errors only and for the end of a peer's data, and sets of `select` after an interruption.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static int pair[2];
static volatile int stage;

static void *receive(void *unused) {
    char byte = 0;
    CHECK(read(pair[0], &byte, 1) == 1 && byte == 'x');
    stage = 1;
    return unused;
}

// Waits for errors of a socket for which another thread waits as well.
static void *await_errors(void *unused) {
    struct pollfd request = {.fd = pair[0]};
    CHECK(poll(&request, 1, 400) == 0);
    return unused;
}

static void *await_half_close(void *unused) {
    for (int with_output = 0; with_output < 2; with_output++) {
        int fds[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
        char full[4096] = {0};
        while (send(fds[0], full, sizeof full, MSG_DONTWAIT) > 0) {}
        struct pollfd request = {.fd = fds[0], .events = POLLRDHUP | (with_output ? POLLOUT : 0)};
        CHECK(poll(&request, 1, 20) == 0);
        stage = fds[1] + 100;
        CHECK(poll(&request, 1, 5000) == 1 && request.revents == POLLRDHUP);
        close(fds[0]);
        while (stage) usleep(1000);
        close(fds[1]);
    }
    return unused;
}

static void handle(int unused) { (void)unused; }

static void *be_interrupted(void *unused) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(pair[0], &set);
    usleep(1000);
    stage = 1;
    CHECK(select(pair[0] + 1, &set, NULL, NULL, NULL) == -1 && errno == EINTR);
    CHECK(FD_ISSET(pair[0], &set));
    return unused;
}

static void polls_for_errors(void) {
    pthread_t one, other;
    CHECK(pthread_create(&one, NULL, receive, NULL) == 0);
    usleep(50000);
    CHECK(pthread_create(&other, NULL, await_errors, NULL) == 0);
    usleep(50000);
    CHECK(write(pair[1], "x", 1) == 1);
    usleep(100000);
    // Before the poll ends, after which the reader would try again.
    CHECK(stage == 1);
    pthread_join(one, NULL);
    pthread_join(other, NULL);
}

static void half_closes(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, await_half_close, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        while (stage == 0) usleep(1000);
        usleep(50000);
        CHECK(shutdown(stage - 100, SHUT_WR) == 0);
        stage = 0;
    }
    pthread_join(thread, NULL);
}

static void interruptions(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, be_interrupted, NULL) == 0);
    while (stage == 0) usleep(1000);
    usleep(100000);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
}

// The program closes all descriptors that it has not opened.
static void closed_descriptors(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, await_half_close, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        while (stage == 0) usleep(1000);
        CHECK(shutdown(stage - 100, SHUT_WR) == 0);
        stage = 0;
    }
    pthread_join(thread, NULL);
    for (int fd = 3; fd < 2000; fd++)
        if (fd != pair[0] && fd != pair[1]) close(fd);
    int last = pair[0] > pair[1] ? pair[0] : pair[1];
    CHECK(close_range(last + 1, ~0U, 0) == 0);
    CHECK(close_range(last + 2, last + 1, 0) == -1 && errno == EINVAL);
    for (int fd = last + 1; fd < 2000; fd++) CHECK(syscall(SYS_close, fd) == -1 && errno == EBADF);
    // An own epoll contains only what the program adds.
    int epoll = epoll_create1(0);
    CHECK(pthread_create(&thread, NULL, receive, NULL) == 0);
    usleep(50000);
    struct epoll_event event = {.events = EPOLLIN};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, pair[0], &event) == 0);
    CHECK(write(pair[1], "x", 1) == 1);
    pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    alarm(60);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    void (*parts[])(void) = {polls_for_errors, half_closes, interruptions, closed_descriptors};
    for (int i = 0; i < 4; i++) {
        stage = 0;
        if (count == 1 || atoi(arguments[1]) == i) parts[i]();
    }
    puts("done");
    return 0;
}
