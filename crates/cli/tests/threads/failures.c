// Threads that block SIGPIPE and write, and failures of connections after a part of the data.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define LARGE (16 << 20)
#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static char *data;
static volatile int signals;

static void count(int unused) {
    (void)unused;
    signals++;
}

static void *close_later(void *fd) {
    char some[1000];
    usleep(50000);
    CHECK(read((long)fd, some, sizeof some) > 0);
    usleep(20000);
    close((long)fd);
    return NULL;
}

// The first attempt of each call is made at home, a later one on a carrier.
static void *block(void *unused) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    for (int kind = 0; kind < 6; kind++) {
        int fds[2];
        CHECK((kind < 2 ? pipe(fds) : socketpair(AF_UNIX, SOCK_STREAM, 0, fds)) == 0);
        pthread_t closer;
        CHECK(pthread_create(&closer, NULL, close_later, (void *)(long)fds[0]) == 0);
        struct iovec part = {.iov_base = data, .iov_len = LARGE};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        ssize_t sent = 0;
        // The rest finds the closed end.
        for (int i = 0; i < 2 && sent >= 0; i++)
            switch (kind) {
            case 0: case 2: sent = write(fds[1], data, LARGE); break;
            case 1: case 3: sent = writev(fds[1], &part, 1); break;
            case 4: sent = send(fds[1], data, LARGE, 0); break;
            default: sent = sendmsg(fds[1], &message, 0);
            }
        CHECK(sent == -1 && errno == EPIPE);
        pthread_join(closer, NULL);
        close(fds[1]);
    }
    CHECK(signals == 0);
    return unused;
}

static int connection(int *peer) {
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    *peer = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(*peer, (struct sockaddr *)&address, size) == 0);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    close(listener);
    return fd;
}

static void *reset_later(void *fd) {
    struct linger linger = {.l_onoff = 1};
    CHECK(setsockopt((long)fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    return close_later(fd);
}

// A reset after a part is the failure of the next call.
static void *be_reset(void *unused) {
    for (int kind = 0; kind < 3; kind++) {
        int peer, fd = connection(&peer);
        pthread_t other;
        CHECK(send(fd, "0123456789", 10, 0) == 10 && send(peer, "0123456789", 10, 0) == 10);
        CHECK(pthread_create(&other, NULL, reset_later, (void *)(long)peer) == 0);
        char bytes[100];
        ssize_t part, next;
        if (kind == 0) {
            part = recv(fd, bytes, sizeof bytes, MSG_WAITALL);
            CHECK(part == 10);
            next = recv(fd, bytes, sizeof bytes, 0);
        } else {
            struct iovec all = {.iov_base = data, .iov_len = LARGE};
            part = kind == 1 ? write(fd, data, LARGE) : writev(fd, &all, 1);
            CHECK(part > 0 && part < LARGE);
            CHECK(signals == 0);
            next = send(fd, data, 1, 0);
        }
        CHECK(next == -1 && errno == ECONNRESET);
        CHECK(signals == 0);
        pthread_join(other, NULL);
        close(fd);
    }
    return unused;
}

int main(int number, char **arguments) {
    alarm(60);
    data = calloc(1, LARGE);
    struct sigaction action = {.sa_handler = count};
    sigaction(SIGPIPE, &action, NULL);
    void *(*bodies[])(void *) = {block, be_reset};
    for (int i = 0; i < 2; i++) {
        if (number > 1 && atoi(arguments[1]) != i) continue;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, bodies[i], NULL) == 0);
        pthread_join(thread, NULL);
    }
    puts("done");
    return 0;
}
