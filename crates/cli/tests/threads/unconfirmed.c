// Many sockets whose flags change without the C library: each receiver notices it.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
// More than are confirmed at a time.
#define CONNECTIONS 300

static int clients[CONNECTIONS], servers[CONNECTIONS];
static pthread_barrier_t received;

static long set_flags(int descriptor, long flags) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_fcntl), "D"(descriptor), "S"(F_SETFL), "d"(flags) : "rcx", "r11", "memory");
    return result;
}

static void *serve(void *which) {
    int descriptor = servers[(long)which];
    char byte;
    CHECK(recv(descriptor, &byte, 1, 0) == 1);
    pthread_barrier_wait(&received);
    CHECK(set_flags(descriptor, O_NONBLOCK) == 0);
    CHECK(recv(descriptor, &byte, 1, 0) == -1 && errno == EAGAIN);
    return NULL;
}

int main(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 128) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    CHECK(pthread_barrier_init(&received, NULL, CONNECTIONS) == 0);
    pthread_attr_t attributes;
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 128 << 10) == 0);
    static pthread_t threads[CONNECTIONS];
    for (long i = 0; i < CONNECTIONS; i++) {
        clients[i] = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(clients[i], (struct sockaddr *)&address, size) == 0);
        servers[i] = accept(listener, NULL, NULL);
        CHECK(servers[i] >= 0 && pthread_create(&threads[i], &attributes, serve, (void *)i) == 0);
    }
    usleep(20000);
    for (int i = 0; i < CONNECTIONS; i++) CHECK(send(clients[i], "x", 1, 0) == 1);
    for (int i = 0; i < CONNECTIONS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    puts("done");
    return 0;
}
