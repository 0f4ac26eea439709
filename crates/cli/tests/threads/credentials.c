// Credentials of all threads change while some of them compute; functions that set or read an attribute of the kernel
// thread concern that of the caller only.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define THREADS 4

int capset(void *header, const void *data);

static volatile int computing, stop;

// A line of the status of a kernel thread of this process.
static void status(int tid, const char *name, char *value) {
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
    FILE *file = fopen(path, "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0) strcpy(value, line);
    fclose(file);
}

static void *compute(void *unused) {
    usleep(1000);
    __atomic_fetch_add(&computing, 1, __ATOMIC_SEQ_CST);
    while (!stop) {}
    return unused;
}

static void change_credentials(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, compute, NULL) == 0);
    while (computing < THREADS) usleep(100);
    for (int i = 0; i < 3; i++) CHECK(setgid(getgid()) == 0 && setuid(getuid()) == 0);
    stop = 1;
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    puts("credentials");
}

static void *drop(void *unused) {
    struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    char own[256];
    usleep(1000);
    CHECK(capset(&header, data) == 0);
    usleep(1000);
    status(gettid(), "CapEff", own);
    CHECK(strcmp(own, "CapEff:\t0000000000000000\n") == 0);
    return unused;
}

// The capabilities and the personality of the running kernel thread.
static void *look(void *first) {
    char own[256];
    long tid;
    usleep(1000);
    __asm__ volatile("syscall" : "=a"(tid) : "a"((long)SYS_gettid) : "rcx", "r11", "memory");
    status(tid, "CapEff", own);
    CHECK(strcmp(own, first) == 0);
    CHECK(personality(0xffffffff) == 0);
    return NULL;
}

static void *change_personality(void *unused) {
    usleep(1000);
    CHECK(personality(ADDR_NO_RANDOMIZE) == 0);
    usleep(1000);
    CHECK(personality(0xffffffff) == ADDR_NO_RANDOMIZE);
    return unused;
}

static void run(void *(*body)(void *), void *argument) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, body, argument) == 0 && pthread_join(thread, NULL) == 0);
}

static void *look_for_pending(void *unused) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    usleep(1000);
    CHECK(raise(SIGUSR1) == 0);
    usleep(1000);
    CHECK(sigpending(&set) == 0 && sigismember(&set, SIGUSR1));
    return unused;
}

static void *trace(void *unused) {
    usleep(1000);
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        for (;;) pause();
    }
    usleep(1000);
    CHECK(ptrace(PTRACE_ATTACH, child, NULL, NULL) == 0);
    usleep(1000);
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK(ptrace(PTRACE_DETACH, child, NULL, NULL) == 0);
    kill(child, SIGKILL);
    CHECK(waitpid(child, NULL, 0) == child);
    return unused;
}

static void *have_inherited_name(void *unused) {
    char name[16];
    usleep(1000);
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "worker") == 0);
    return unused;
}

static void *have_name(void *unused) {
    char name[16];
    usleep(1000);
    CHECK(pthread_setname_np(pthread_self(), "worker") == 0);
    usleep(1000);
    CHECK(pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strcmp(name, "worker") == 0);
    run(have_inherited_name, NULL);
    return unused;
}

static void drop_capabilities(void) {
    char first[256];
    status(gettid(), "CapEff", first);
    run(drop, NULL);
    for (int i = 0; i < THREADS; i++) run(look, first);
}

static void change_one_personality(void) {
    char first[256];
    status(gettid(), "CapEff", first);
    run(change_personality, NULL);
    for (int i = 0; i < THREADS; i++) run(look, first);
}

static void keep_pending(void) { run(look_for_pending, NULL); }
static void trace_child(void) { run(trace, NULL); }
static void name(void) { run(have_name, NULL); }

int main(int count, char **arguments) {
    void (*parts[])(void) = {change_credentials, drop_capabilities, change_one_personality, keep_pending, trace_child, name};
    alarm(60);
    for (int i = 0; i < 6; i++)
        if (count == 1 || atoi(arguments[1]) == i) parts[i]();
    puts("done");
    return 0;
}
