// Two threads of which one sometimes computes while the other one waits for the only carrier, and that mostly run briefly.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 24
#define BRIEF 64

static sem_t turns[2];
static int captured;

static long kernel_thread(void) {
    long tid;
    __asm__ volatile("syscall" : "=a"(tid) : "a"(SYS_gettid) : "rcx", "r11", "memory");
    return tid;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void wait_often(void) {
    for (int i = 0; i < BRIEF; i++) usleep(1);
}

static void *compute(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        wait_often();
        sem_post(&turns[0]);
        // Until the other thread was sent home, and continues there.
        double begin = now();
        while (__atomic_load_n(&captured, __ATOMIC_SEQ_CST) == i && now() < begin + 10000) {}
        while (sem_wait(&turns[1])) {}
    }
    usleep(1);
    return (void *)(long)(kernel_thread() == gettid());
}

static void *wait_for_carrier(void *unused) {
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        while (sem_wait(&turns[0])) {}
        __atomic_fetch_add(&captured, 1, __ATOMIC_SEQ_CST);
        sem_post(&turns[1]);
        wait_often();
    }
    usleep(1);
    return (void *)(long)(kernel_thread() == gettid());
}

int main(void) {
    pthread_t threads[2];
    void *is_home[2];
    sem_init(&turns[0], 0, 0);
    sem_init(&turns[1], 0, 0);
    if (pthread_create(&threads[0], NULL, compute, NULL)) return 1;
    if (pthread_create(&threads[1], NULL, wait_for_carrier, NULL)) return 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], &is_home[i]);
    for (int i = 0; i < 2; i++) puts(is_home[i] ? "home" : "carrier");
    return 0;
}
