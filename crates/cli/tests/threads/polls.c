// `poll` on sockets: by several threads, beside receivers, and with flags that change. With the argument `where` it says
// how the poll of a socket is registered, natively not at all.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition)                                                            \
    do {                                                                            \
        if (!(condition)) {                                                         \
            printf("line %d: %s, errno %d\n", __LINE__, #condition, errno);         \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

enum { ROUNDS = 200 };

static int client, server;
static pthread_barrier_t barrier;

static void connect_pair(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(connect(client, (struct sockaddr *)&address, size) == 0);
    server = accept(listener, NULL, NULL);
    CHECK(server >= 0 && close(listener) == 0);
}

static void set_blocking(int descriptor, int blocks) {
    CHECK(fcntl(descriptor, F_SETFL, blocks ? 0 : O_NONBLOCK) == 0);
}

static int poll_for(int descriptor, short events, int timeout) {
    struct pollfd requests[] = {{-1, POLLIN, 7}, {descriptor, events, 0}};
    int ready = poll(requests, 2, timeout);
    CHECK(ready >= 0 && requests[0].revents == 0 && (ready == 0) == (requests[1].revents == 0));
    return requests[1].revents;
}

static void run(int count, void *(*function)(void *)) {
    pthread_t threads[4];
    for (long n = 0; n < count; n++) CHECK(pthread_create(&threads[n], NULL, function, (void *)n) == 0);
    for (int n = 0; n < count; n++) CHECK(pthread_join(threads[n], NULL) == 0);
}

static void *send_messages(void *unused) {
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(send(client, "abcdefgh", 8, 0) == 8);
        char answer;
        CHECK(recv(client, &answer, 1, 0) == 1);
    }
    CHECK(shutdown(client, SHUT_WR) == 0);
    return NULL;
}

// As a server with sockets that do not block: it reads, and polls when there is nothing.
static void *serve(void *unused) {
    (void)unused;
    int received = 0;
    for (;;) {
        char part[3];
        ssize_t count = read(server, part, sizeof part);
        if (count < 0) {
            CHECK(errno == EAGAIN && poll_for(server, POLLIN, 60000) & POLLIN);
            continue;
        }
        if (count == 0) break;
        received += count;
        if (received % 8 == 0) CHECK(write(server, "x", 1) == 1);
    }
    CHECK(received == 8 * ROUNDS && poll_for(server, POLLIN | POLLRDHUP, -1) == (POLLIN | POLLRDHUP));
    return NULL;
}

static void *serve_or_send(void *number) { return number == NULL ? serve(NULL) : send_messages(NULL); }

// Three threads poll one socket, and one of them then receives.
static void *poll_together(void *number) {
    for (int round = 0; round < ROUNDS; round++) {
        if (number == NULL) CHECK(send(client, "x", 1, 0) == 1);
        CHECK(poll_for(server, POLLIN, 60000) == POLLIN);
        pthread_barrier_wait(&barrier);
        char byte;
        if (number == NULL) CHECK(recv(server, &byte, 1, 0) == 1);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

// One thread receives the first of two bytes, another one polls for the second.
static void *poll_and_receive(void *number) {
    for (int round = 0; round < ROUNDS; round++) {
        char byte;
        switch ((long)number) {
        case 0: CHECK(send(client, "xy", 2, 0) == 2); break;
        case 1: CHECK(recv(server, &byte, 1, 0) == 1 && byte == 'x'); break;
        default: CHECK(poll_for(server, POLLIN, 60000) == POLLIN);
        }
        pthread_barrier_wait(&barrier);
        if (number == NULL) CHECK(recv(server, &byte, 1, 0) == 1 && byte == 'y');
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void *send_later(void *unused) {
    usleep(3000);
    CHECK(send(client, "z", 1, 0) == 1);
    return unused;
}

static void *change_flags(void *unused) {
    char byte;
    for (int round = 0; round < 10; round++) {
        set_blocking(server, 0);
        CHECK(read(server, &byte, 1) == -1 && errno == EAGAIN);
        CHECK(read(server, &byte, 1) == -1 && errno == EAGAIN && poll_for(server, POLLIN, 1) == 0);
        CHECK(poll_for(server, POLLIN | POLLOUT, -1) == POLLOUT);
        if (round % 2 == 0) set_blocking(server, 1);
        pthread_t sender;
        CHECK(pthread_create(&sender, NULL, send_later, NULL) == 0);
        if (round % 2 != 0) CHECK(poll_for(server, POLLIN, 60000) == POLLIN);
        CHECK(recv(server, &byte, 1, 0) == 1 && byte == 'z');
        CHECK(pthread_join(sender, NULL) == 0);
    }
    return unused;
}

// The events of the descriptor in an epoll of this process.
static unsigned registered(int descriptor) {
    DIR *files = opendir("/proc/self/fdinfo");
    unsigned found = 0;
    for (struct dirent *file; (file = readdir(files)) != NULL;) {
        char path[300], line[300];
        snprintf(path, sizeof path, "/proc/self/fdinfo/%s", file->d_name);
        FILE *info = fopen(path, "r");
        while (info != NULL && fgets(line, sizeof line, info) != NULL) {
            int number;
            unsigned events;
            if (sscanf(line, "tfd: %d events: %x", &number, &events) == 2 && number == descriptor) found = events;
        }
        if (info != NULL) fclose(info);
    }
    closedir(files);
    return found;
}

static void *poll_once(void *unused) {
    CHECK(poll_for(server, POLLIN, 60000) == POLLIN);
    return unused;
}

int main(int count, char **arguments) {
    connect_pair();
    if (count > 1 && strcmp(arguments[1], "where") == 0) {
        run(1, change_flags);
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, poll_once, NULL) == 0);
        usleep(20000);
        unsigned events = registered(server);
        puts(events == 0 ? "none" : events >> 31 ? "lasting" : "once");
        CHECK(send(client, "x", 1, 0) == 1 && pthread_join(thread, NULL) == 0);
        return 0;
    }
    CHECK(pthread_barrier_init(&barrier, NULL, 3) == 0);
    run(3, poll_together);
    run(3, poll_and_receive);
    run(1, change_flags);
    set_blocking(server, 0);
    run(2, serve_or_send);
    puts("done");
    return 0;
}
