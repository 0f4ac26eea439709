// Two threads that wait for a lock, for a debugger, until standard input ends.
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void __attribute__((noinline)) wait_for_the_mutex(long *number) {
    usleep(1);
    pthread_mutex_lock(&mutex);
    ++*number;
    pthread_mutex_unlock(&mutex);
}

static void __attribute__((noinline)) call_the_wait(long *number) {
    wait_for_the_mutex(number);
    ++*number;
}

static void *body(void *number) {
    call_the_wait(number);
    return NULL;
}

int main(void) {
    pthread_t threads[2];
    long numbers[2] = {0};
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, body, &numbers[i])) return 1;
    puts("ready");
    fflush(stdout);
    getchar();
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return numbers[0] + numbers[1] - 4;
}
