// A thread that reads TCP sockets whose flags, options and names change in every way, also without the C library.
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
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static int listener;
static struct sockaddr_in address = {.sin_family = AF_INET};

static long raw(long number, long a, long b, long c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}

struct message {
    int fd, milliseconds, length;
    char bytes[16];
};

static void *write_later(void *argument) {
    struct message *message = argument;
    usleep(message->milliseconds * 1000);
    CHECK(write(message->fd, message->bytes, message->length) == message->length);
    free(message);
    return NULL;
}

// Writes after a time, so that a reader waits before.
static void later(int fd, int milliseconds, const char *bytes) {
    struct message *message = calloc(1, sizeof *message);
    pthread_t thread;
    message->fd = fd;
    message->milliseconds = milliseconds;
    message->length = strlen(bytes);
    memcpy(message->bytes, bytes, message->length);
    CHECK(pthread_create(&thread, NULL, write_later, message) == 0);
    pthread_detach(thread);
}

static void expect(int fd, const char *bytes) {
    char found[16];
    ssize_t length = read(fd, found, sizeof found);
    CHECK(length == (ssize_t)strlen(bytes) && memcmp(found, bytes, length) == 0);
}

// Opens a connection and waits on it several times. Returns the accepted socket.
static int connection(int *peer) {
    *peer = socket(AF_INET, SOCK_STREAM, 0);
    int one = 1;
    CHECK(connect(*peer, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(setsockopt(*peer, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0);
    int fd = accept(listener, NULL, NULL);
    CHECK(fd >= 0);
    for (int i = 0; i < 3; i++) {
        later(*peer, 3, "warm");
        expect(fd, "warm");
    }
    return fd;
}

static void expect_again(int fd) {
    char byte;
    errno = 0;
    CHECK(read(fd, &byte, 1) == -1 && errno == EAGAIN);
}

static void flags(void) {
    int peer, fd = connection(&peer), on = 1, off = 0;
    CHECK(fcntl(fd, F_SETFL, O_NONBLOCK) == 0);
    expect_again(fd);
    CHECK(fcntl(fd, F_SETFL, 0) == 0);
    later(peer, 3, "flags");
    expect(fd, "flags");
    later(peer, 200, "late");
    expect(fd, "late");
    CHECK(ioctl(fd, FIONBIO, &on) == 0);
    expect_again(fd);
    CHECK(ioctl(fd, FIONBIO, &off) == 0);
    struct timeval time = {.tv_usec = 20000};
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time) == 0);
    expect_again(fd);
    CHECK(recv(fd, &on, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    close(peer);
    close(fd);
}

static void other_names(void) {
    int peer, fd = connection(&peer), name = dup(fd);
    CHECK(fcntl(name, F_SETFL, O_NONBLOCK) == 0);
    expect_again(fd);
    CHECK(fcntl(name, F_SETFL, 0) == 0);
    // The name outlives the descriptor, which another connection gets.
    int second_peer, second = connection(&second_peer);
    CHECK(dup2(second, fd) == fd);
    later(second_peer, 3, "new");
    expect(fd, "new");
    later(peer, 3, "old");
    expect(name, "old");
    close(fd);
    close(second);
    close(name);
    close(peer);
    close(second_peer);
}

static void other_processes(void) {
    int peer, fd = connection(&peer), pair[2];
    pid_t child = fork();
    if (child == 0) _exit(fcntl(fd, F_SETFL, O_NONBLOCK) != 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    expect_again(fd);
    close(fd);
    close(peer);

    fd = connection(&peer);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    char byte = 0, control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec vector = {&byte, 1};
    struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(head), &fd, sizeof fd);
    CHECK(sendmsg(pair[0], &message, 0) == 1 && recvmsg(pair[1], &message, 0) == 1);
    int passed;
    memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof passed);
    CHECK(raw(SYS_fcntl, passed, F_SETFL, O_NONBLOCK) == 0);
    expect_again(fd);
    close(pair[0]);
    close(pair[1]);
    close(passed);
    close(fd);
    close(peer);
}

// The library does not see these calls.
static void direct_calls(void) {
    int peer, second_peer, fd = connection(&peer);
    CHECK(raw(SYS_fcntl, fd, F_SETFL, O_NONBLOCK) == 0);
    expect_again(fd);
    CHECK(raw(SYS_fcntl, fd, F_SETFL, 0) == 0);
    CHECK(raw(SYS_close, fd, 0, 0) == 0);
    second_peer = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(second_peer, (struct sockaddr *)&address, sizeof address) == 0);
    int second = raw(SYS_accept, listener, 0, 0);
    CHECK(second == fd || second > 0);
    for (int i = 0; i < 2; i++) {
        later(second_peer, 3, "direct");
        expect(second, "direct");
    }
    struct timeval time = {.tv_usec = 20000};
    CHECK(raw(SYS_close, second, 0, 0) == 0);
    close(second_peer);
    fd = connection(&second_peer);
    long result;
    register long size __asm__("r8") = sizeof time;
    register void *value __asm__("r10") = &time;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_setsockopt), "D"(fd), "S"(SOL_SOCKET), "d"(SO_RCVTIMEO), "r"(value), "r"(size) : "rcx", "r11", "memory");
    CHECK(result == 0);
    expect_again(fd);
    close(fd);
    close(peer);
    close(second_peer);
}

static void streams(void) {
    int peer, fd = connection(&peer);
    FILE *file = fdopen(fd, "r");
    later(peer, 3, "line\n");
    char text[16];
    CHECK(fgets(text, sizeof text, file) && strcmp(text, "line\n") == 0);
    CHECK(fclose(file) == 0);
    close(peer);
    int next = connection(&peer);
    later(peer, 3, "next");
    expect(next, "next");
    close(next);
    close(peer);
}

static void ends(void) {
    int peer, fd = connection(&peer);
    // Bytes and the end arrive before the next attempt, in a buffer that is larger.
    CHECK(write(peer, "last", 4) == 4 && shutdown(peer, SHUT_WR) == 0);
    usleep(5000);
    expect(fd, "last");
    expect(fd, "");
    expect(fd, "");
    close(fd);
    close(peer);

    fd = connection(&peer);
    later(peer, 3, "some");
    expect(fd, "some");
    struct linger linger = {1, 0};
    CHECK(setsockopt(peer, SOL_SOCKET, SO_LINGER, &linger, sizeof linger) == 0);
    close(peer);
    char byte;
    CHECK(read(fd, &byte, 1) == -1 && errno == ECONNRESET);
    close(fd);

    fd = connection(&peer);
    CHECK(write(peer, "a", 1) == 1 && send(peer, "b", 1, MSG_OOB) == 1 && write(peer, "c", 1) == 1);
    usleep(5000);
    expect(fd, "a");
    expect(fd, "c");
    close(fd);
    close(peer);
}

static void *read_one(void *fd) {
    char byte;
    CHECK(read((int)(long)fd, &byte, 1) == 1);
    return NULL;
}

static void several_readers(void) {
    int peer, fd = connection(&peer);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, read_one, (void *)(long)fd) == 0);
    later(peer, 3, "abcd");
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    close(fd);
    close(peer);
}

static void *run(void *unused) {
    flags();
    other_names();
    other_processes();
    direct_calls();
    streams();
    ends();
    several_readers();
    return unused;
}

int main(void) {
    listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 16) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0 && pthread_join(thread, NULL) == 0);
    puts("done");
    return 0;
}
