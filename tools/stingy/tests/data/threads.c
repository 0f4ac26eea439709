/* Threads that allocate objects and free those of each other. Prints the allocations for which a pool was empty. */
#include "stingy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 3
#define ROUNDS 20000
#define SLOTS 2

static _Atomic(unsigned char *) handed[THREADS][SLOTS];

static void check_and_free(unsigned char *object)
{
    for (int i = 0; object && i < 64; i++)
        if (object[i] != object[0])
            abort();
    stingy_free(STINGY_abuf, object);
}

static void *run(void *argument)
{
    int self = (int)(size_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *object = stingy_alloc(STINGY_abuf);
        memset(object, self + round, 64);
        int slot = round % SLOTS;
        check_and_free(atomic_exchange(&handed[(self + 1) % THREADS][slot], object));
        check_and_free(atomic_exchange(&handed[self][slot], NULL));
    }
    return (void *)(size_t)stingy_counts().spilled;
}

int main(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, (void *)i);
    size_t spilled = 0;
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        spilled += (size_t)result;
    }
    for (int i = 0; i < THREADS; i++)
        for (int slot = 0; slot < SLOTS; slot++)
            check_and_free(handed[i][slot]);
    printf("%zu\n", spilled);
    return 0;
}
