// Malformed times for locks that are free: the C library reports them for read-write locks and semaphores, but not for
// mutexes. A wait for no bit of a futex.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void *use_locks(void *unused) {
    struct timespec malformed = {.tv_nsec = 2000000000};
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    sem_t semaphore;
    sem_init(&semaphore, 0, 2);
    usleep(1000);
    printf("read: %d\n", pthread_rwlock_timedrdlock(&lock, &malformed));
    printf("write: %d\n", pthread_rwlock_timedwrlock(&lock, &malformed));
    printf("read by clock: %d\n", pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &malformed));
    printf("write by clock: %d\n", pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &malformed));
    printf("free: %d\n", pthread_rwlock_trywrlock(&lock));
    printf("mutex: %d\n", pthread_mutex_timedlock(&mutex, &malformed));
    printf("semaphore: %d", sem_timedwait(&semaphore, &malformed));
    printf(" %d\n", errno);
    printf("by clock: %d", sem_clockwait(&semaphore, CLOCK_MONOTONIC, &malformed));
    printf(" %d\n", errno);
    struct timespec now = {0};
    unsigned word = 0;
    printf("no bit: %ld", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, 0, &now, NULL, 0));
    printf(" %d\n", errno);
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, use_locks, NULL);
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}
