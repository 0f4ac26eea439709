// Threads that compute, or call only functions that the library does not replace, are cancelled and receive signals of the
// process; a thread keeps its segment base, and joins one that the library does not know.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define ARCH_SET_GS 0x1001

static volatile int ready, handled;

static void handle(int unused) {
    (void)unused;
    handled++;
}

static void *open_files(void *unused) {
    usleep(1000);
    ready = 1;
    for (;;) {
        int fd = open("/dev/null", O_RDONLY);
        if (fd >= 0) __asm__ volatile("syscall" : "+a"((long){SYS_close}) : "D"((long)fd) : "rcx", "r11", "memory");
    }
    return unused;
}

static void *compute(void *unused) {
    usleep(1000);
    ready = 1;
    while (!handled) {}
    return unused;
}

static long values[8];

// The base of the segment GS is that of the thread.
static void *use_segment(void *which) {
    long *own = &values[(long)which], found;
    CHECK(syscall(SYS_arch_prctl, ARCH_SET_GS, own) == 0);
    *own = (long)which;
    for (int i = 0; i < 50; i++) {
        usleep(500);
        __asm__ volatile("mov %%gs:0, %0" : "=r"(found));
        CHECK(found == (long)which);
    }
    return NULL;
}

static void cancel(void) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, open_files, NULL) == 0);
    while (!ready) usleep(1000);
    usleep(10000);
    CHECK(pthread_cancel(thread) == 0);
    pthread_join(thread, &result);
    CHECK(result == PTHREAD_CANCELED);
}

// The first thread accepts the signal until another one does that computes.
static void accept_signal(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, compute, NULL) == 0);
    while (!ready) usleep(1000);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    usleep(200000);
    kill(getpid(), SIGUSR1);
    pthread_join(thread, NULL);
    CHECK(handled == 1);
}

static void use_segments(void) {
    pthread_t threads[8];
    for (long i = 0; i < 8; i++) CHECK(pthread_create(&threads[i], NULL, use_segment, (void *)i) == 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
}

static void *nothing(void *unused) {
    usleep(20000);
    return unused;
}

// The C library's own function creates a thread, of whose end the library is not told.
static void *join_other(void *unused) {
    usleep(1000);
    void *library = dlopen("libc.so.6", RTLD_LAZY);
    int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) = dlsym(library, "pthread_create");
    pthread_t thread;
    CHECK(create && create(&thread, NULL, nothing, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    return unused;
}

static void join(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, join_other, NULL) == 0);
    pthread_join(thread, NULL);
}

int main(int count, char **arguments) {
    alarm(30);
    void (*parts[])(void) = {cancel, accept_signal, use_segments, join};
    for (int i = 0; i < 4; i++) {
        ready = 0;
        if (count == 1 || atoi(arguments[1]) == i) parts[i]();
    }
    puts("done");
    return 0;
}
