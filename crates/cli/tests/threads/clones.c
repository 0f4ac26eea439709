// Children that are created without the handlers of `fork` wait for time, locks and descriptors, and create threads.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static void *write_later(void *fd) {
    usleep(10000);
    CHECK(write((long)fd, "x", 1) == 1);
    return NULL;
}

static int work(void *unused) {
    (void)unused;
    usleep(1000);
    int fds[2];
    char byte;
    CHECK(pipe(fds) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, write_later, (void *)(long)fds[1]) == 0);
    CHECK(read(fds[0], &byte, 1) == 1);
    pthread_join(thread, NULL);
    return 7;
}

// Children that share the descriptors of their parent leave them open.
static int wait_shortly(void *unused) {
    (void)unused;
    usleep(1000);
    return 7;
}

static int descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 1000; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void *create(void *unused) {
    static char stack[256 * 1024] __attribute__((aligned(16)));
    usleep(1000);
    for (int kind = 0; kind < 7; kind++) {
        struct clone_args arguments = {.exit_signal = SIGCHLD};
        pid_t child;
        int before = descriptors();
        switch (kind) {
        case 0: child = _Fork(); break;
        case 1: child = syscall(SYS_fork); break;
        case 2: child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); break;
        case 3: child = syscall(SYS_clone3, &arguments, sizeof arguments); break;
        case 4: child = clone(work, stack + sizeof stack, SIGCHLD, NULL); break;
        case 5: child = clone(wait_shortly, stack + sizeof stack, CLONE_FILES | SIGCHLD, NULL); break;
        default: child = syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
        }
        if (child == 0) _exit(kind < 5 ? work(NULL) : wait_shortly(NULL));
        int status = 0, found = 0;
        CHECK(child > 0);
        for (int i = 0; i < 2000 && found == 0; i++) {
            usleep(5000);
            found = waitpid(child, &status, WNOHANG);
        }
        if (found == 0) {
            kill(child, SIGKILL);
            CHECK(waitpid(child, &status, 0) == child);
        }
        printf("%d: %d\n", kind, WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
        CHECK(descriptors() == before);
        usleep(1000);
    }
    return unused;
}

int main(void) {
    alarm(120);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, create, NULL) == 0);
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}
