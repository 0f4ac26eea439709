// Joins of a thread that waits for the caller: it is cancelled, or the second join fails.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static volatile int ready;

static void *join(void *thread) {
    usleep(1000);
    ready = 1;
    return (void *)(long)pthread_join(*(pthread_t *)thread, NULL);
}

// Ends a thread that joins the calling one.
static void *cancel_joiner(void *unused) {
    pthread_t own = pthread_self(), thread;
    void *result;
    usleep(1000);
    for (int i = 0; i < 20; i++) {
        ready = 0;
        CHECK(pthread_create(&thread, NULL, join, &own) == 0);
        while (!ready) usleep(100);
        usleep(i * 1000);
        CHECK(pthread_cancel(thread) == 0);
        CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    return unused;
}

static void *join_joiner(void *unused) {
    static pthread_t own;
    pthread_t thread;
    own = pthread_self();
    usleep(1000);
    ready = 0;
    CHECK(pthread_create(&thread, NULL, join, &own) == 0);
    while (!ready) usleep(100);
    usleep(20000);
    CHECK(pthread_join(thread, NULL) == EDEADLK);
    CHECK(pthread_detach(thread) == 0);
    return unused;
}

int main(void) {
    pthread_t thread;
    alarm(60);
    cancel_joiner(NULL);
    puts("the first thread");
    CHECK(pthread_create(&thread, NULL, cancel_joiner, NULL) == 0 && pthread_join(thread, NULL) == 0);
    puts("another thread");
    CHECK(pthread_create(&thread, NULL, join_joiner, NULL) == 0);
    usleep(200000);
    puts("a deadlock");
    return 0;
}
