// Threads that serve one connection each, with blocking calls, and clients in threads of the same program.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS 64
#define MESSAGES 50
#define LARGE (4 << 20)
#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static struct sockaddr_in address = {.sin_family = AF_INET};
static long echoed, large;

static void *serve(void *argument) {
    int fd = (int)(long)argument;
    char buffer[4096];
    for (long turn = 0;; turn++) {
        if (turn % 3 == 1) {
            struct pollfd request = {.fd = fd, .events = POLLIN};
            CHECK(poll(&request, 1, 60000) == 1);
        }
        ssize_t length = turn % 2 ? read(fd, buffer, sizeof buffer) : recv(fd, buffer, sizeof buffer, 0);
        CHECK(length >= 0);
        if (length == 0) break;
        CHECK((turn % 2 ? write(fd, buffer, length) : send(fd, buffer, length, MSG_NOSIGNAL)) == length);
    }
    close(fd);
    return NULL;
}

static void *listen_for(void *argument) {
    int listener = (int)(long)argument;
    for (int i = 0; i < CLIENTS; i++) {
        int fd = accept(listener, NULL, NULL);
        CHECK(fd >= 0);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, serve, (void *)(long)fd) == 0);
        pthread_detach(thread);
    }
    return NULL;
}

static void *ask(void *which) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    for (int i = 0; i < MESSAGES; i++) {
        char text[64], answer[64];
        int length = snprintf(text, sizeof text, "%ld %d", (long)which, i), have = 0;
        CHECK(write(fd, text, length) == length);
        while (have < length) {
            ssize_t got = read(fd, answer + have, sizeof answer - have);
            CHECK(got > 0);
            have += got;
        }
        CHECK(memcmp(text, answer, length) == 0);
        __atomic_fetch_add(&echoed, 1, __ATOMIC_RELAXED);
    }
    CHECK(shutdown(fd, SHUT_WR) == 0);
    char end;
    CHECK(read(fd, &end, 1) == 0);
    close(fd);
    return NULL;
}

static int pair[2], pipes[2];

static void *fill(void *unused) {
    char *data = malloc(LARGE);
    for (int i = 0; i < LARGE; i++) data[i] = i % 251;
    CHECK(write(pair[0], data, LARGE) == LARGE);
    CHECK(write(pipes[1], data, LARGE) == LARGE);
    free(data);
    return unused;
}

static void *drain(void *unused) {
    char *data = malloc(LARGE);
    for (int round = 0; round < 2; round++) {
        for (long have = 0; have < LARGE;) {
            ssize_t got = read(round ? pipes[0] : pair[1], data + have, LARGE - have);
            CHECK(got > 0);
            have += got;
        }
        for (int i = 0; i < LARGE; i++) CHECK(data[i] == (char)(i % 251));
        large += LARGE;
    }
    free(data);
    return unused;
}

static void *limits(void *unused) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    struct timeval time = {.tv_usec = 20000};
    CHECK(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    char byte;
    CHECK(read(fds[0], &byte, 1) == -1 && errno == EAGAIN);
    CHECK(recv(fds[1], &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    struct pollfd request = {.fd = fds[1], .events = POLLIN};
    CHECK(poll(&request, 1, 20) == 0);
    int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fds[1]};
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, fds[1], &event) == 0);
    CHECK(epoll_wait(epoll, &event, 1, 20) == 0);
    CHECK(write(fds[0], "x", 1) == 1 && epoll_wait(epoll, &event, 1, -1) == 1);
    CHECK(read(-1, &byte, 1) == -1 && errno == EBADF);
    CHECK(read(fds[1], &byte, 1) == 1 && byte == 'x');
    close(fds[0]);
    CHECK(read(fds[1], &byte, 1) == 0);
    return unused;
}

int main(void) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 128) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0 && pipe(pipes) == 0);
    pthread_t acceptor, clients[CLIENTS], others[3];
    CHECK(pthread_create(&acceptor, NULL, listen_for, (void *)(long)listener) == 0);
    for (long i = 0; i < CLIENTS; i++) CHECK(pthread_create(&clients[i], NULL, ask, (void *)i) == 0);
    void *(*bodies[])(void *) = {fill, drain, limits};
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&others[i], NULL, bodies[i], NULL) == 0);
    for (int i = 0; i < CLIENTS; i++) pthread_join(clients[i], NULL);
    for (int i = 0; i < 3; i++) pthread_join(others[i], NULL);
    pthread_join(acceptor, NULL);
    printf("%ld %ld\n", echoed, large);
    return 0;
}
