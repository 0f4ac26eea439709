// Overflows of stacks with a handler on a stack of its own, other faults, and masks that are restored.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("line %d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)

static __thread jmp_buf back;
static __thread int faults;
static int count_on_carriers;
static char *page;

static void handle(int signal, siginfo_t *info, void *context) {
    (void)context;
    CHECK(signal == SIGSEGV && info->si_addr != NULL);
    faults++;
    if (info->si_addr == page) {
        // The instruction is executed again.
        CHECK(mprotect(page, 1, PROT_READ | PROT_WRITE) == 0);
        return;
    }
    _longjmp(back, 1);
}

#pragma GCC diagnostic ignored "-Winfinite-recursion"
static int __attribute__((noinline)) overflow(volatile char *above) {
    volatile char here[4096];
    here[0] = above[0];
    return overflow(here) + here[0];
}

static int is_on_carrier(void) {
    long tid;
    __asm__ volatile("syscall" : "=a"(tid) : "a"(SYS_gettid) : "rcx", "r11", "memory");
    return tid != gettid();
}

static void *fall(void *unused) {
    stack_t stack = { .ss_sp = malloc(65536), .ss_size = 65536 }, old;
    usleep(1);
    CHECK(sigaltstack(&stack, NULL) == 0);
    usleep(1);
    for (int i = 0; i < 3; i++) {
        if (is_on_carrier()) __atomic_fetch_add(&count_on_carriers, 1, __ATOMIC_RELAXED);
        if (_setjmp(back) == 0) {
            char first = 0;
            overflow(&first);
        }
        CHECK(faults == i + 1);
        // The handler did not return, so the signal is still blocked.
        sigset_t mask;
        sigemptyset(&mask);
        sigaddset(&mask, SIGSEGV);
        CHECK(pthread_sigmask(SIG_UNBLOCK, &mask, NULL) == 0);
        usleep(100);
    }
    CHECK(sigaltstack(NULL, &old) == 0 && old.ss_sp == stack.ss_sp && old.ss_size == 65536);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, NULL) == 0);
    free(stack.ss_sp);
    return unused;
}

static void *touch(void *unused) {
    usleep(1);
    *(volatile char *)page = 1;
    CHECK(faults == 1);
    return unused;
}

static void *restore(void *unused) {
    sigset_t all, old, now;
    sigfillset(&all);
    for (int i = 0; i < 100; i++) {
        usleep(1);
        CHECK(pthread_sigmask(SIG_BLOCK, &all, &old) == 0 && !sigismember(&old, SIGUSR1));
        usleep(1);
        CHECK(sigprocmask(SIG_SETMASK, NULL, &now) == 0 && sigismember(&now, SIGUSR1));
        CHECK(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && !sigismember(&now, SIGUSR1));
    }
    CHECK(pthread_sigmask(77, &all, NULL) == EINVAL && sigprocmask(77, &all, NULL) == -1 && errno == EINVAL);
    usleep(1);
    if (is_on_carrier()) __atomic_fetch_add(&count_on_carriers, 1, __ATOMIC_RELAXED);
    return unused;
}

int main(int count, char **unused) {
    (void)unused;
    struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *(*bodies[])(void *) = { fall, fall, touch, restore, restore };
    pthread_t threads[5];
    for (int i = 0; i < 5; i++) CHECK(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
    for (int i = 0; i < 5; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    if (count > 1) printf("%s\n", count_on_carriers ? "carriers" : "homes");
    puts("done");
    return 0;
}
