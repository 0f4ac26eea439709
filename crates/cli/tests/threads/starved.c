// A thread that computes on one carrier has made another one runnable there, while two threads keep the other carrier busy.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static sem_t turns[2], starved;
static volatile long rounds;
static volatile int done;

static void *play(void *which) {
    long own = (long)which;
    while (!done) {
        while (sem_wait(&turns[own])) {}
        rounds++;
        sem_post(&turns[!own]);
    }
    sem_post(&turns[!own]);
    return NULL;
}

static void *compute(void *unused) {
    usleep(1000);
    // The others run on the other carrier meanwhile.
    long begin = rounds;
    while (rounds < begin + 20000) {}
    sem_post(&starved);
    while (!done) {}
    return unused;
}

static void *starve(void *unused) {
    while (sem_wait(&starved)) {}
    done = 1;
    return unused;
}

int main(void) {
    alarm(60);
    pthread_t threads[4];
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    sem_init(&starved, 0, 0);
    void *(*bodies[])(void *) = {play, play, starve, compute};
    for (long i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, bodies[i], (void *)i)) return 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
