// Datagram sockets whose end a receiver awaits, and a queue that is full although its sender's socket accepts more.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
enum { MESSAGES = 100 };

static int receiver;

static void *shut_down_later(void *descriptor) {
    usleep(20000);
    shutdown(*(int *)descriptor, SHUT_RDWR);
    return NULL;
}

static ssize_t by_kind(int kind, int fd) {
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    switch (kind) {
    case 0: return recv(fd, &byte, 1, 0);
    case 1: return read(fd, &byte, 1);
    case 2: return readv(fd, &part, 1);
    case 3: return recvmsg(fd, &message, 0);
    default: return recv(fd, &byte, 1, MSG_PEEK);
    }
}

static int open_socket(int family) {
    int pair[2];
    if (family == AF_UNIX) {
        CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0);
        return pair[0];
    }
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(bind(fd, (void *)&address, sizeof address) == 0);
    return fd;
}

static void *await_ends(void *unused) {
    usleep(1000);
    for (int kind = 0; kind < 5; kind++) {
        for (int i = 0; i < 2; i++) {
            int fd = open_socket(i == 0 ? AF_UNIX : AF_INET);
            pthread_t other;
            CHECK(pthread_create(&other, NULL, shut_down_later, &fd) == 0);
            printf("%d: %zd\n", kind, by_kind(kind, fd));
            CHECK(pthread_join(other, NULL) == 0);
            printf("%d again: %zd\n", kind, by_kind(kind, fd));
            close(fd);
        }
    }
    return unused;
}

static void *receive_later(void *unused) {
    char bytes[8];
    usleep(300000);
    for (int i = 0; i < MESSAGES; i++) CHECK(recv(receiver, bytes, sizeof bytes, 0) == 5);
    return unused;
}

static long milliseconds_of_processor(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000
        + (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

static void *send_to_full_queue(void *unused) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "phalanx-datagrams-%d", getpid());
    socklen_t size = sizeof(sa_family_t) + 1 + strlen(address.sun_path + 1);
    receiver = socket(AF_UNIX, SOCK_DGRAM, 0);
    int sender = socket(AF_UNIX, SOCK_DGRAM, 0);
    CHECK(bind(receiver, (void *)&address, size) == 0);
    pthread_t other;
    usleep(1000);
    CHECK(pthread_create(&other, NULL, receive_later, NULL) == 0);
    long before = milliseconds_of_processor();
    for (int i = 0; i < MESSAGES; i++) CHECK(sendto(sender, "hello", 5, 0, (void *)&address, size) == 5);
    CHECK(pthread_join(other, NULL) == 0);
    puts(milliseconds_of_processor() - before < 150 ? "waits" : "spins");
    return unused;
}

int main(void) {
    pthread_t thread;
    alarm(60);
    CHECK(pthread_create(&thread, NULL, await_ends, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, send_to_full_queue, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    puts("done");
    return 0;
}
