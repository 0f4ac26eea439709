// Threads that allocate from the collector of Boehm (libgc), while others compute or wait. It stops them by signals.
#define GC_THREADS
#include <gc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s\n", __LINE__, #condition); exit(1); } } while (0)
#define THREADS 8
#define LISTS 60
#define NODES 1000

struct node {
    struct node *next;
    long value;
};

static int pipes[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long total;

// The list is known only to this thread's stack.
static void *make_lists(void *which) {
    for (int i = 0; i < LISTS; i++) {
        struct node *list = NULL;
        for (long n = 0; n < NODES; n++) {
            struct node *node = GC_MALLOC(sizeof *node);
            CHECK(node);
            node->next = list;
            node->value = n ^ (long)which;
            list = node;
        }
        if (i % 8 == 0) usleep(100);
        if (i % 20 == 0) GC_gcollect();
        pthread_mutex_lock(&mutex);
        for (long n = NODES - 1; n >= 0; n--, list = list->next) {
            CHECK(list->value == (n ^ (long)which));
            total++;
        }
        pthread_mutex_unlock(&mutex);
        CHECK(list == NULL);
    }
    return which;
}

static void *keep_while_waiting(void *which) {
    long *kept = GC_MALLOC(800);
    char byte;
    for (int i = 0; i < 100; i++) kept[i] = i * 7;
    CHECK(read(pipes[0], &byte, 1) == 1);
    for (int i = 0; i < 100; i++) CHECK(kept[i] == i * 7);
    return which;
}

int main(void) {
    GC_INIT();
    GC_allow_register_threads();
    pthread_t threads[THREADS], waiters[2];
    CHECK(pipe(pipes) == 0);
    for (long i = 0; i < 2; i++) CHECK(pthread_create(&waiters[i], NULL, keep_while_waiting, NULL) == 0);
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, make_lists, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(write(pipes[1], "xx", 2) == 2);
    for (int i = 0; i < 2; i++) CHECK(pthread_join(waiters[i], NULL) == 0);
    CHECK(GC_get_gc_no() > 0);
    printf("%ld\n", total);
    return 0;
}
