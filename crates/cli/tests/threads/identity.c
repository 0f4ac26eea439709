// Thread-local values, errno, identity, cancellation, signals, fork, exec and the end of the process.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 8
#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static __thread long local = 7;
static pthread_key_t key;
static int destroyed, cleaned, handled;
static sem_t ready;

static void destroy(void *unused) { (void)unused; __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED); }
static void clean(void *unused) { (void)unused; __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED); }
static __thread int in_thread;
static void handle(int signal) {
    (void)signal;
    __atomic_fetch_add(&handled, in_thread, __ATOMIC_RELAXED);
}

static void *identity(void *which) {
    pid_t tid = gettid();
    CHECK(local == 7);
    local = (long)which;
    CHECK(pthread_setspecific(key, which) == 0);
    for (int i = 0; i < 50; i++) {
        errno = 1000 + (int)(long)which;
        usleep(100);
        sched_yield();
        CHECK(errno == 1000 + (int)(long)which);
        CHECK(local == (long)which && pthread_getspecific(key) == which);
        CHECK(gettid() == tid && syscall(SYS_gettid) == tid);
        double third = (double)local / 3;
        CHECK(third * 3 == (double)local || third > 0);
    }
    if ((long)which % 2) pthread_exit(which);
    return which;
}

static void *sleep_forever(void *unused) {
    pthread_cleanup_push(clean, NULL);
    sem_post(&ready);
    for (;;) sleep(1000);
    pthread_cleanup_pop(0);
    return unused;
}

static int fds[2];
static void *read_forever(void *unused) {
    pthread_cleanup_push(clean, NULL);
    char byte;
    sem_post(&ready);
    CHECK(read(fds[0], &byte, 1) == 1);
    pthread_cleanup_pop(0);
    return unused;
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static void unlock(void *unused) { (void)unused; CHECK(pthread_mutex_unlock(&mutex) == 0); clean(NULL); }
static void *wait_forever(void *unused) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    pthread_cleanup_push(unlock, NULL);
    sem_post(&ready);
    for (;;) pthread_cond_wait(&condition, &mutex);
    pthread_cleanup_pop(0);
    return unused;
}

static void *be_interrupted(void *unused) {
    char byte;
    in_thread = 1;
    sem_post(&ready);
    CHECK(read(fds[0], &byte, 1) == -1 && errno == EINTR);
    sem_post(&ready);
    CHECK(usleep(100000000) == -1 && errno == EINTR);
    return unused;
}

static void *make_children(void *program) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // The only thread of the child creates others.
        pthread_t thread;
        void *result;
        if (pthread_create(&thread, NULL, identity, (void *)2) || pthread_join(thread, &result)) _exit(1);
        _exit(result == (void *)2 ? 42 : 2);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 42);
    child = fork();
    if (child == 0) {
        execl(program, program, "child", (char *)NULL);
        _exit(3);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 43);
    return NULL;
}

static void *last(void *unused) {
    usleep(20000);
    puts("last");
    return unused;
}

static void join(pthread_t thread, void *wanted) {
    void *result;
    CHECK(pthread_join(thread, &result) == 0 && result == wanted);
}

int main(int count, char **arguments) {
    if (count > 1) {
        sigset_t mask;
        sigprocmask(SIG_BLOCK, NULL, &mask);
        for (int signal = 1; signal < 32; signal++) if (sigismember(&mask, signal)) return 1;
        return 43;
    }
    pthread_t threads[THREADS];
    CHECK(pthread_key_create(&key, destroy) == 0 && sem_init(&ready, 0, 0) == 0);
    for (long i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, identity, (void *)(i + 1)) == 0);
    for (long i = 0; i < THREADS; i++) join(threads[i], (void *)(i + 1));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    void *(*bodies[])(void *) = {sleep_forever, read_forever, wait_forever};
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_create(&threads[0], NULL, bodies[i], NULL) == 0);
        while (sem_wait(&ready)) {}
        usleep(i * 3000);
        CHECK(pthread_cancel(threads[0]) == 0);
        join(threads[0], PTHREAD_CANCELED);
    }
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    struct sigaction action = {.sa_handler = handle};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_create(&threads[0], NULL, be_interrupted, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        while (sem_wait(&ready)) {}
        usleep(20000);
        CHECK(pthread_kill(threads[0], SIGUSR1) == 0);
    }
    join(threads[0], NULL);
    CHECK(pthread_create(&threads[0], NULL, make_children, arguments[0]) == 0);
    join(threads[0], NULL);
    printf("%d %d %d\n", destroyed, cleaned, handled);
    CHECK(pthread_create(&threads[0], NULL, last, NULL) == 0);
    pthread_detach(threads[0]);
    pthread_exit(NULL);
}
