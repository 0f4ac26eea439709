// Whether a thread is executed by another kernel thread than its own.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int shared;

static void *body(void *unused) {
    for (int i = 0; i < 200; i++) {
        long tid;
        usleep(100);
        __asm__ volatile("syscall" : "=a"(tid) : "a"(186) : "rcx", "r11", "memory");
        if (tid != gettid()) __atomic_store_n(&shared, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(void) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, body, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    puts(shared ? "shared" : "own");
    return 0;
}
