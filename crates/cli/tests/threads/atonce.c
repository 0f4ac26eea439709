// Calls that return at once although nothing has arrived: for buffers of 0 bytes, and connections of a socket that does not
// listen or cannot get a descriptor. Threads that wait for descriptors of a range that is closed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static struct sockaddr_in address = {.sin_family = AF_INET};
static socklen_t size = sizeof address;

static int bound(int kind) {
    int socket_ = socket(AF_INET, kind, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = 0;
    CHECK(socket_ >= 0 && bind(socket_, (struct sockaddr *)&address, size) == 0);
    CHECK(getsockname(socket_, (struct sockaddr *)&address, &size) == 0);
    return socket_;
}

static void *transfer_nothing(void *unused) {
    char byte;
    struct iovec empty[2] = {{&byte, 0}, {&byte, 0}};
    int to = bound(SOCK_DGRAM), from = socket(AF_INET, SOCK_DGRAM, 0), pair[2];
    CHECK(connect(from, (struct sockaddr *)&address, size) == 0);
    usleep(1000);
    CHECK(writev(from, empty, 2) == 0 && recv(to, &byte, 1, MSG_DONTWAIT) == -1 && errno == EAGAIN);
    CHECK(send(from, "x", 1, 0) == 1 && readv(to, empty, 2) == 0);
    CHECK(recv(to, &byte, 1, MSG_DONTWAIT) == 1 && byte == 'x');
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(readv(pair[0], empty, 2) == 0 && writev(pair[0], empty, 2) == 0);
    // A message without bytes is a message.
    struct msghdr message = {.msg_iov = empty, .msg_iovlen = 2};
    CHECK(sendmsg(from, &message, 0) == 0 && recv(to, &byte, 1, 0) == 0);
    return unused;
}

static void *accept_nothing(void *unused) {
    int pipes[2], listener = bound(SOCK_STREAM), client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(listen(listener, 1) == 0 && connect(client, (struct sockaddr *)&address, size) == 0 && pipe(pipes) == 0);
    int accepted = accept(listener, NULL, NULL), datagrams = bound(SOCK_DGRAM);
    usleep(1000);
    CHECK(accepted >= 0 && accept(accepted, NULL, NULL) == -1 && errno == EINVAL);
    CHECK(accept(datagrams, NULL, NULL) == -1 && errno == EOPNOTSUPP);
    CHECK(accept(pipes[0], NULL, NULL) == -1 && errno == ENOTSOCK);
    CHECK(accept(socket(AF_INET, SOCK_STREAM, 0), NULL, NULL) == -1 && errno == EINVAL);
    return unused;
}

// A call to accept needs a descriptor before it waits.
static void *accept_without_descriptor(void *unused) {
    int listener = bound(SOCK_STREAM);
    struct rlimit limit = {64, 64};
    usleep(1000);
    CHECK(listen(listener, 1) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0);
    while (dup(listener) >= 0) continue;
    CHECK(accept(listener, NULL, NULL) == -1 && errno == EMFILE);
    return unused;
}

static void *read_byte(void *pipes) {
    char byte;
    usleep(1000);
    // Natively the call continues with the file; on a carrier it fails.
    int count = read(*(int *)pipes, &byte, 1);
    CHECK(count == 1 || (count == -1 && errno == EBADF));
    return NULL;
}

// The end of a pipe that a thread reads is closed.
static void close_read_ends(void) {
    for (int i = 0; i < 3; i++) {
        int pipes[2], moved[2];
        pthread_t thread;
        CHECK(pipe(pipes) == 0);
        moved[0] = fcntl(pipes[0], F_DUPFD, 300);
        moved[1] = pipes[1];
        CHECK(moved[0] >= 300 && close(pipes[0]) == 0);
        CHECK(pthread_create(&thread, NULL, read_byte, moved) == 0);
        usleep(50000);
        if (i == 0) CHECK(close_range(moved[0], moved[0], 0) == 0);
        if (i == 1) closefrom(moved[0] - 10);
        if (i == 2) CHECK(syscall(436, moved[0], moved[0] + 10, 0) == 0);
        (void)!write(pipes[1], "x", 1);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK(close(pipes[1]) == 0);
    }
}

static void run(void *(*body)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, NULL) == 0 && pthread_join(thread, NULL) == 0);
}

int main(int count, char **arguments) {
    alarm(60);
    signal(SIGPIPE, SIG_IGN);
    int part = count > 1 ? atoi(arguments[1]) : -1;
    if (part < 0 || part == 0) run(transfer_nothing);
    if (part < 0 || part == 1) run(accept_nothing);
    if (part < 0 || part == 2) close_read_ends();
    if (part < 0 || part == 3) run(accept_without_descriptor);
    puts("done");
    return 0;
}
