// A thread whose stack overflows, without a handler: the process ends by SIGSEGV.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Winfinite-recursion"
static int __attribute__((noinline)) overflow(volatile char *above) {
    volatile char here[1024];
    here[0] = above[0];
    return overflow(here) + here[0];
}

static void *fall(void *unused) {
    char first = 0;
    for (int i = 0; i < 10; i++) usleep(100);
    overflow(&first);
    return unused;
}

int main(void) {
    pthread_t thread;
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    puts("begins");
    fflush(stdout);
    if (pthread_create(&thread, NULL, fall, NULL) == 0) pthread_join(thread, NULL);
    return 1;
}
