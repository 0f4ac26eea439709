// Child processes of a program with threads: fork with handlers, vfork, spawn and exec, while other threads use locks.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define FORKERS 4
#define FORKS 10
extern char **environ;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, handlers = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ends, prepared, in_parent, in_child, children;
static __thread long local;

static void prepare(void) { CHECK(pthread_mutex_lock(&handlers) == 0); prepared++; }
static void after_in_parent(void) { in_parent++; CHECK(pthread_mutex_unlock(&handlers) == 0); }
static void after_in_child(void) { in_child++; CHECK(pthread_mutex_unlock(&handlers) == 0); }

// Uses the heap and locks while others fork.
static void *disturb(void *unused) {
    while (!__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
        void *parts[16];
        for (int i = 0; i < 16; i++) CHECK((parts[i] = malloc((size_t)(i + 1) * 100)) != NULL);
        usleep(10);
        for (int i = 0; i < 16; i++) free(parts[i]);
        CHECK(pthread_mutex_lock(&mutex) == 0);
        pthread_cond_signal(&condition);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
    return unused;
}

static void *wait_for_condition(void *unused) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (!ends) pthread_cond_wait(&condition, &mutex);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    return unused;
}

static void *add(void *sum) {
    static pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < 100; i++) {
        CHECK(pthread_mutex_lock(&own) == 0);
        ++*(long *)sum;
        if (i % 40 == 0) usleep(1);
        CHECK(pthread_mutex_unlock(&own) == 0);
    }
    CHECK(local == 0);
    return NULL;
}

// The only thread of the child goes on, and creates others.
static void be_child(long which) {
    pthread_t threads[4];
    long sum = 0;
    CHECK(local == which && in_child == 1);
    free(malloc(10000));
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, add, &sum) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    _exit(sum == 400 ? 10 + (int)which : 1);
}

static int status_of(pid_t child) {
    int status;
    CHECK(child > 0);
    while (waitpid(child, &status, 0) != child) CHECK(errno == EINTR);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void *fork_often(void *which) {
    local = (long)which;
    for (int i = 0; i < FORKS; i++) {
        usleep(100);
        pid_t child = fork();
        if (child == 0) be_child((long)which);
        CHECK(status_of(child) == 10 + (int)(long)which);
        __atomic_fetch_add(&children, 1, __ATOMIC_RELAXED);
    }
    return which;
}

static void *start_programs(void *program) {
    char *arguments[] = {program, "child", NULL};
    for (int i = 0; i < 5; i++) {
        pid_t child;
        usleep(100);
        CHECK(posix_spawn(&child, program, NULL, NULL, arguments, environ) == 0 && status_of(child) == 43);
        usleep(100);
        if ((child = vfork()) == 0) {
            execv(program, arguments);
            _exit(3);
        }
        CHECK(status_of(child) == 43);
        char command[4096], answer[16] = "";
        snprintf(command, sizeof command, "'%s' child; echo $?", (char *)program);
        FILE *output = popen(command, "r");
        CHECK(output && fgets(answer, sizeof answer, output) && strcmp(answer, "43\n") == 0 && pclose(output) == 0);
        snprintf(command, sizeof command, "'%s' child", (char *)program);
        int status = system(command);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 43);
        __atomic_fetch_add(&children, 4, __ATOMIC_RELAXED);
    }
    return NULL;
}

// Children that share the memory and wait, as those that set up redirections may.
static void *create_shared_children(void *unused) {
    for (int i = 0; i < 10; i++) {
        struct timespec time = {0, 100000};
        char byte = 0;
        int ends[2];
        CHECK(pipe(ends) == 0);
        usleep(100);
        pid_t child = vfork();
        if (child == 0) {
            usleep(1000);
            sched_yield();
            _exit(nanosleep(&time, NULL) == 0 && write(ends[1], "x", 1) == 1 ? 21 : 22);
        }
        CHECK(status_of(child) == 21 && read(ends[0], &byte, 1) == 1 && byte == 'x');
        close(ends[0]);
        close(ends[1]);
        usleep(100);
        if ((child = vfork()) == 0) {
            execl("/no/program", "program", (char *)NULL);
            _exit(errno);
        }
        CHECK(status_of(child) == ENOENT);
        __atomic_fetch_add(&children, 2, __ATOMIC_RELAXED);
    }
    return unused;
}

// Another thread than the first one replaces the program.
static void *replace(void *program) {
    sigset_t set;
    usleep(1000);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    fflush(stdout);
    execl(program, program, "replaced", pid, (char *)NULL);
    return NULL;
}

static int is_blocked(int signal) {
    sigset_t mask;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    return sigismember(&mask, signal);
}

int main(int count, char **arguments) {
    if (count == 2) {
        for (int signal = 1; signal < 32; signal++) if (is_blocked(signal)) return 1;
        return 43;
    }
    if (count == 3) {
        CHECK(getpid() == atoi(arguments[2]) && gettid() == getpid());
        CHECK(is_blocked(SIGUSR2) && !is_blocked(SIGUSR1) && !is_blocked(SIGTERM));
        puts("replaced");
        return 0;
    }
    CHECK(pthread_atfork(prepare, after_in_parent, after_in_child) == 0);
    pthread_t others[4], forkers[FORKERS], starter, sharer;
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&others[i], NULL, i % 2 ? disturb : wait_for_condition, NULL) == 0);
    for (long i = 0; i < FORKERS; i++) CHECK(pthread_create(&forkers[i], NULL, fork_often, (void *)(i + 1)) == 0);
    CHECK(pthread_create(&starter, NULL, start_programs, arguments[0]) == 0);
    CHECK(pthread_create(&sharer, NULL, create_shared_children, NULL) == 0);
    for (int i = 0; i < FORKERS; i++) CHECK(pthread_join(forkers[i], NULL) == 0);
    CHECK(pthread_join(starter, NULL) == 0 && pthread_join(sharer, NULL) == 0);
    pthread_mutex_lock(&mutex);
    ends = 1;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(others[i], NULL) == 0);
    CHECK(in_child == 0 && prepared == in_parent);
    printf("%d children, %d forks\n", children, prepared);
    ends = 0;
    CHECK(pthread_create(&others[0], NULL, wait_for_condition, NULL) == 0);
    CHECK(pthread_create(&others[1], NULL, replace, arguments[0]) == 0);
    pthread_join(others[1], NULL);
    return 1;
}
