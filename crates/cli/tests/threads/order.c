// The order in which threads at two places continue that are woken in turn. Prints the first order that is one of the
// expected ones: other load of the machine may send threads home.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { EACH = 8, ATTEMPTS = 50 };

static sem_t first[EACH], second[EACH], start, over;
static char order[2 * EACH + 1];
static int length;

static void note(char letter) {
    order[__atomic_fetch_add(&length, 1, __ATOMIC_SEQ_CST)] = letter;
    if (length == 2 * EACH) sem_post(&over);
}

static void *wait_first(void *number) {
    for (int i = 0; i < ATTEMPTS; i++) {
        sem_wait(&first[(long)number]);
        note('a');
    }
    return NULL;
}

static void *wait_second(void *number) {
    for (int i = 0; i < ATTEMPTS; i++) {
        sem_wait(&second[(long)number]);
        note('b');
    }
    return NULL;
}

static void *wake(void *unused) {
    for (int i = 0; i < ATTEMPTS; i++) {
        sem_wait(&start);
        for (int each = 0; each < EACH; each++) {
            sem_post(&first[each]);
            sem_post(&second[each]);
        }
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    for (long i = 0; i < EACH; i++) {
        sem_init(&first[i], 0, 0);
        sem_init(&second[i], 0, 0);
        pthread_create(&thread, NULL, wait_first, (void *)i);
        pthread_create(&thread, NULL, wait_second, (void *)i);
    }
    sem_init(&start, 0, 0);
    sem_init(&over, 0, 0);
    pthread_create(&thread, NULL, wake, NULL);
    const char *found = "another order";
    for (int i = 0; i < ATTEMPTS; i++) {
        usleep(2000);
        length = 0;
        sem_post(&start);
        sem_wait(&over);
        if (strcmp(order, "aaaaaaaabbbbbbbb") == 0) found = "cohorts";
        if (strcmp(order, "abababababababab") == 0) found = "in turn";
    }
    puts(found);
    fflush(stdout);
    _exit(0);
}
