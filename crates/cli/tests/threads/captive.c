// Threads that wait once, which brings them to the carriers, and then block or occupy every carrier without calling the C library, and one that has to progress.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int pipes[2];
static volatile int done;

static void *block(void *unused) {
    char byte;
    long result;
    usleep(1);
    __asm__ volatile("syscall" : "=a"(result) : "a"(0), "D"(pipes[0]), "S"(&byte), "d"(1) : "rcx", "r11", "memory");
    if (result != 1) exit(1);
    return unused;
}

static void *spin(void *unused) {
    usleep(1);
    while (!done) {}
    return unused;
}

static void *progress(void *unused) {
    for (int i = 0; i < 20; i++) usleep(1000);
    done = 1;
    char bytes[32] = {0};
    if (write(pipes[1], bytes, sizeof bytes) != sizeof bytes) exit(2);
    return unused;
}

int main(void) {
    pthread_t threads[41];
    if (pipe(pipes)) return 3;
    for (int i = 0; i < 41; i++)
        if (pthread_create(&threads[i], NULL, i < 32 ? block : i < 40 ? spin : progress, NULL)) return 4;
    for (int i = 0; i < 41; i++) pthread_join(threads[i], NULL);
    puts("done");
    return 0;
}
