// Calls to receive that natively return at once, that wait for a number of bytes, and whose descriptor is closed meanwhile.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BYTES (4 << 20)
#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static int listener;
static struct sockaddr_in address = {.sin_family = AF_INET};
static const char *folder;

static int connection(int *peer) {
    *peer = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(*peer, (struct sockaddr *)&address, sizeof address) == 0);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    return fd;
}

static void *send_slowly(void *fd) {
    for (int i = 0; i < 4; i++) {
        usleep(20000);
        CHECK(send((long)fd, "01234", 5, 0) == 5);
    }
    return NULL;
}

static void *queues(void *unused) {
    int peer, fd = connection(&peer);
    char bytes[100];
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    CHECK(recv(fd, bytes, 1, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    CHECK(recvmsg(fd, &message, MSG_ERRQUEUE) == -1 && errno == EAGAIN);
    CHECK(recv(fd, bytes, 1, MSG_OOB) == -1 && errno == EINVAL);
    CHECK(send(peer, "!", 1, MSG_OOB) == 1);
    usleep(20000);
    CHECK(recv(fd, bytes, 1, MSG_OOB) == 1 && bytes[0] == '!');
    close(fd);
    close(peer);
    return unused;
}

static void *all(void *unused) {
    int peer, fd = connection(&peer);
    char bytes[100];
    struct sockaddr_in from;
    for (int kind = 0; kind < 3; kind++) {
        pthread_t other;
        CHECK(pthread_create(&other, NULL, send_slowly, (void *)(long)peer) == 0);
        socklen_t size = sizeof from;
        int least = kind == 2 ? 20 : 1;
        CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &least, sizeof least) == 0);
        switch (kind) {
        case 0: CHECK(recvfrom(fd, bytes, 20, MSG_WAITALL, (struct sockaddr *)&from, &size) == 20); break;
        case 1: CHECK(recv(fd, bytes, 20, MSG_WAITALL) == 20); break;
        default: CHECK(read(fd, bytes, 100) == 20);
        }
        pthread_join(other, NULL);
    }
    // The time limit is one for the whole call.
    struct timeval limit = {.tv_usec = 50000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, send_slowly, (void *)(long)peer) == 0);
    ssize_t part = recv(fd, bytes, 20, MSG_WAITALL);
    CHECK(part > 0 && part < 20);
    pthread_join(other, NULL);
    CHECK(recv(fd, bytes, 100, 0) == 20 - part);
    close(fd);
    close(peer);
    return unused;
}

static void *drain(void *fd) {
    char byte;
    usleep(50000);
    while (recv((long)fd, &byte, 1, MSG_DONTWAIT) == 1) {}
    return NULL;
}

// An empty datagram to a full socket waits.
static void *empty(void *unused) {
    int fds[2];
    CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, fds) == 0);
    while (send(fds[0], "x", 1, MSG_DONTWAIT) == 1) {}
    struct timeval limit = {.tv_sec = 20};
    CHECK(setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, drain, (void *)(long)fds[1]) == 0);
    CHECK(send(fds[0], "", 0, 0) == 0);
    pthread_join(other, NULL);
    return unused;
}

// O_NONBLOCK has no effect on a file, also if its contents are not in memory.
static void *file(void *unused) {
    int fd = open(folder, O_TMPFILE | O_RDWR | O_NONBLOCK, 0600);
    if (fd < 0) return unused;
    char *bytes = calloc(1, BYTES);
    CHECK(write(fd, bytes, BYTES) == BYTES && fsync(fd) == 0);
    for (int turn = 0; turn < 20; turn++) {
        CHECK(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
        CHECK(lseek(fd, turn * 100000, SEEK_SET) >= 0);
        CHECK(read(fd, bytes, 50000) == 50000);
    }
    free(bytes);
    close(fd);
    return unused;
}

static int old[2];
static volatile int stage;

static void *receive(void *unused) {
    char byte = 0;
    stage = 3;
    ssize_t length = read(old[0], &byte, 1);
    CHECK(length != 1 || byte != 'n');
    return unused;
}

static void *occupy(void *unused) {
    usleep(1);
    stage = 1;
    while (stage == 1) {}
    return unused;
}

// A thread that waits for a descriptor does not receive from the next file with this number.
static void reuse(void) {
    for (int turn = 0; turn < 10; turn++) {
        int new[2], fds[2];
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, old) == 0);
        CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
        CHECK(write(fds[1], "n", 1) == 1);
        pthread_t receiver, occupier;
        CHECK(pthread_create(&receiver, NULL, receive, NULL) == 0);
        while (stage != 3) usleep(1000);
        // Until the receiver waits.
        usleep(50000);
        stage = 0;
        CHECK(pthread_create(&occupier, NULL, occupy, NULL) == 0);
        while (stage == 0) {}
        new[0] = old[0];
        close(old[0]);
        int same = fcntl(fds[0], F_DUPFD, new[0]);
        stage = 2;
        usleep(2000);
        close(old[1]);
        pthread_join(receiver, NULL);
        pthread_join(occupier, NULL);
        CHECK(same == new[0]);
        char byte;
        CHECK(recv(same, &byte, 1, MSG_DONTWAIT) == 1);
        close(same);
        close(fds[0]);
        close(fds[1]);
    }
}

int main(int count, char **arguments) {
    alarm(60);
    char *end = strrchr(arguments[0], '/');
    if (end) *end = 0;
    folder = end ? arguments[0] : ".";
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 8) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    void *(*bodies[])(void *) = {queues, all, empty, file};
    for (int i = 0; i < 4; i++) {
        if (count > 1 && atoi(arguments[1]) != i) continue;
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, bodies[i], NULL) == 0);
        pthread_join(thread, NULL);
    }
    if (count == 1 || atoi(arguments[1]) == 4) reuse();
    puts("done");
    return 0;
}
