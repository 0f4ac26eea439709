// The measured programs: ordinary programs with POSIX threads, which know nothing of Phalanx.
//
// servlib pingpong COUNT    two threads hand a turn over by condition variables
// servlib mutex COUNT       one thread locks and unlocks a mutex
// servlib create COUNT      threads are created and joined, one after another
//   These print the processor time of the process per repetition, in nanoseconds.
// servlib echo              a server with a thread per connection that returns what it receives
// servlib send BYTES        a server that sends so many bytes for each byte that it receives
//   These say where they listen, and run until they are killed.
#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static long turn;

static void *play(void *player) {
    long own = (long)player;
    pthread_mutex_lock(&lock);
    for (long i = 0; i < count; i++) {
        while (turn != own) pthread_cond_wait(&changed[own], &lock);
        turn = !own;
        pthread_cond_signal(&changed[!own]);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *lock_and_unlock(void *unused) {
    for (long i = 0; i < count; i++) {
        pthread_mutex_lock(&lock);
        pthread_mutex_unlock(&lock);
    }
    return unused;
}

static void *end(void *unused) { return unused; }

static void *echo(void *connection) {
    char bytes[4096];
    ssize_t length;
    while ((length = read((int)(long)connection, bytes, sizeof bytes)) > 0)
        if (write((int)(long)connection, bytes, (size_t)length) < 0) break;
    close((int)(long)connection);
    return NULL;
}

static char *content;

static void *send_content(void *connection) {
    char request;
    while (read((int)(long)connection, &request, 1) > 0)
        if (write((int)(long)connection, content, (size_t)count) < 0) break;
    close((int)(long)connection);
    return NULL;
}

static int serve(void *(*each)(void *)) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, size) < 0 || listen(listener, 4096) < 0) return 1;
    getsockname(listener, (struct sockaddr *)&address, &size);
    printf("listening on tcp://127.0.0.1:%d\n", ntohs(address.sin_port));
    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 128 << 10);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (;;) {
        int connection = accept(listener, NULL, NULL);
        pthread_t thread;
        if (connection < 0) return 1;
        if (pthread_create(&thread, &attributes, each, (void *)(long)connection) != 0) return 1;
    }
}

static double processor_time(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main(int arguments, char **argument) {
    const char *program = arguments > 1 ? argument[1] : "";
    count = arguments > 2 ? atol(argument[2]) : 0;
    if (strcmp(program, "echo") == 0) return serve(echo);
    if (strcmp(program, "send") == 0) {
        content = calloc(1, (size_t)count);
        return serve(send_content);
    }
    pthread_t threads[2];
    double begin = processor_time(), repetitions = (double)count;
    if (strcmp(program, "pingpong") == 0) {
        for (long player = 0; player < 2; player++) pthread_create(&threads[player], NULL, play, (void *)player);
        for (int player = 0; player < 2; player++) pthread_join(threads[player], NULL);
        repetitions *= 2;
    } else if (strcmp(program, "mutex") == 0) {
        pthread_create(&threads[0], NULL, lock_and_unlock, NULL);
        pthread_join(threads[0], NULL);
    } else if (strcmp(program, "create") == 0) {
        for (long i = 0; i < count; i++) {
            pthread_create(&threads[0], NULL, end, NULL);
            pthread_join(threads[0], NULL);
        }
    } else {
        return 2;
    }
    printf("%f\n", (processor_time() - begin) / repetitions);
    return 0;
}
