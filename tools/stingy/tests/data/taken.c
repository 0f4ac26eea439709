/* Linked to traced.c: another thread takes the memory of a buffer that moves, before the caller of the C library goes on. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

static volatile char is_ready, is_released, is_taken;
static void *volatile released, *volatile taken;

static void *take(void *none)
{
    /* The first allocation of a thread takes more memory, for its cache. */
    free(malloc(1));
    is_ready = 1;
    while (!is_released)
        usleep(1000);
    taken = malloc(4096);
    if (!valloc(10) || !pvalloc(20))
        abort();
    is_taken = 1;
    return none;
}

__attribute__((constructor)) static void start(void)
{
    pthread_t thread;
    mallopt(M_ARENA_MAX, 1);
    if (pthread_create(&thread, NULL, take, NULL) != 0)
        abort();
    while (!is_ready)
        usleep(1000);
}

void *__libc_realloc(void *memory, size_t bytes)
{
    void *moved = __libc_malloc(bytes);
    memcpy(moved, memory, bytes);
    __libc_free(memory);
    released = memory;
    is_released = 1;
    /* The other thread may have to wait until this function returns. */
    usleep(200000);
    return moved;
}

char *strdup(const char *text)
{
    while (is_released && !is_taken)
        usleep(1000);
    if (taken != released)
        abort();
    char *copy = malloc(strlen(text) + 1);
    return strcpy(copy, text);
}
