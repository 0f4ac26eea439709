// Waits that end before their reason comes: a handler jumps out of a call to send, and a thread in a barrier is cancelled.
// The memory that they used is not used afterwards.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define LARGE (8 << 20)
#define STACK (256 << 10)

static int pair[2], pipes[2];
static volatile int ready, is_reused;
static __thread jmp_buf back;

static void jump(int signal) {
    (void)signal;
    _longjmp(back, 1);
}

// After the jump the thread's memory has other contents.
static void *send_large(void *data) {
    char byte;
    usleep(1000);
    memset(data, 'a', LARGE);
    if (_setjmp(back) == 0) {
        ready = 1;
        send(pair[0], data, LARGE, 0);
        CHECK(0);
    }
    memset(data, 'b', LARGE);
    is_reused = 1;
    CHECK(read(pipes[0], &byte, 1) == 1);
    return NULL;
}

// Receives some of what has arrived. Returns how many bytes are from the memory with the new contents.
static long receive(long most) {
    static char data[65536];
    long found = 0;
    while (most > 0) {
        ssize_t part = recv(pair[1], data, sizeof data, MSG_DONTWAIT);
        if (part <= 0) break;
        for (ssize_t i = 0; i < part; i++) found += data[i] == 'b';
        most -= part;
    }
    return found;
}

static void leave_send(void) {
    pthread_t thread;
    char *data = malloc(LARGE);
    long found = 0;
    CHECK(pipe(pipes) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(pthread_create(&thread, NULL, send_large, data) == 0);
    while (!ready) usleep(1000);
    // Some parts are sent in the meantime.
    for (int i = 0; i < 20; i++) {
        usleep(1000);
        CHECK(receive(LARGE / 100) == 0);
    }
    usleep(20000);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    while (!is_reused) usleep(1000);
    for (int i = 0; i < 20; i++) {
        found += receive(LARGE);
        usleep(5000);
    }
    printf("%ld bytes of other contents\n", found);
    CHECK(write(pipes[1], "x", 1) == 1 && pthread_join(thread, NULL) == 0);
    free(data);
}

static pthread_barrier_t barrier;

static void *wait_for_barrier(void *unused) {
    CHECK(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL) == 0);
    ready = 1;
    pthread_barrier_wait(&barrier);
    return unused;
}

static void cancel_in_barrier(void) {
    pthread_t thread;
    pthread_attr_t attributes;
    void *result;
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ready = 0;
    CHECK(stack != MAP_FAILED && pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setstack(&attributes, stack, STACK) == 0 && pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, &attributes, wait_for_barrier, NULL) == 0);
    while (!ready) usleep(1000);
    usleep(20000);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    memset(stack, 0x55, STACK);
    // The cancelled thread has arrived.
    CHECK(pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD);
    long changed = 0;
    for (int i = 0; i < STACK; i++) changed += stack[i] != 0x55;
    printf("%ld bytes changed\n", changed);
}

int main(void) {
    alarm(60);
    struct sigaction action = {.sa_handler = jump, .sa_flags = SA_NODEFER};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    leave_send();
    cancel_in_barrier();
    return 0;
}
