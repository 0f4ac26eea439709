// Threads that wait at several places, and a large transfer. Waits until the standard input ends.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EACH = 8, ROUNDS = 50, LARGE = 4 << 20 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;

static void *echo(void *socket) {
    char byte;
    while (read((int)(long)socket, &byte, 1) == 1) write((int)(long)socket, &byte, 1);
    return NULL;
}

static void *follow(void *unused) {
    pthread_mutex_lock(&lock);
    for (int seen = 0; seen < ROUNDS; seen = turn)
        while (turn == seen) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return unused;
}

static void *send_large(void *socket) {
    char *bytes = malloc(LARGE);
    for (int i = 0; i < LARGE; i++) bytes[i] = (char)(i * 7 + i / 4096);
    long sent = write((int)(long)socket, bytes, LARGE);
    printf("sent %ld\n", sent);
    free(bytes);
    close((int)(long)socket);
    return NULL;
}

int main(void) {
    pthread_t thread, follower[EACH];
    int pairs[EACH][2], large[2];
    for (int i = 0; i < EACH; i++) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, pairs[i]);
        pthread_create(&thread, NULL, echo, (void *)(long)pairs[i][1]);
        pthread_create(&follower[i], NULL, follow, NULL);
    }
    for (int round = 0; round < ROUNDS; round++) {
        char byte = (char)round;
        for (int i = 0; i < EACH; i++) write(pairs[i][0], &byte, 1);
        for (int i = 0; i < EACH; i++) {
            if (read(pairs[i][0], &byte, 1) != 1 || byte != (char)round) return 1;
        }
        pthread_mutex_lock(&lock);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    for (int i = 0; i < EACH; i++) pthread_join(follower[i], NULL);
    socketpair(AF_UNIX, SOCK_STREAM, 0, large);
    pthread_create(&thread, NULL, send_large, (void *)(long)large[1]);
    usleep(20000);
    static char part[65536];
    long received = 0, count, wrong = 0;
    while ((count = read(large[0], part, sizeof part)) > 0) {
        for (long i = 0; i < count; i++) {
            long at = received + i;
            wrong += part[i] != (char)(at * 7 + at / 4096);
        }
        received += count;
    }
    pthread_join(thread, NULL);
    printf("received %ld, wrong %ld\n", received, wrong);
    fflush(stdout);
    while (read(0, part, sizeof part) > 0) {}
    return 0;
}
