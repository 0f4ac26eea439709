// Attributes of kernel threads, waits that save or change signal masks, cancellations of threads that have just been
// created, and read-write locks that prefer writers.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

static int processor;

static int kernel_affinity(void) {
    cpu_set_t set;
    CPU_ZERO(&set);
    syscall(SYS_sched_getaffinity, 0, sizeof set, &set);
    return CPU_COUNT(&set) == 1 && CPU_ISSET(processor, &set);
}

static void *pinned(void *unused) {
    for (int i = 0; i < 20; i++) usleep(100);
    CHECK(sched_getcpu() == processor);
    CHECK(kernel_affinity());
    return unused;
}

static void *pin_itself_and_a_child(void *unused) {
    usleep(1000);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    CHECK(pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0);
    pthread_t child;
    CHECK(pthread_create(&child, NULL, pinned, NULL) == 0);
    CHECK(pthread_join(child, NULL) == 0);
    return pinned(unused);
}

static void affinity(void) {
    cpu_set_t set;
    pthread_attr_t attributes;
    pthread_t one, other;
    processor = sched_getcpu();
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    CHECK(pthread_attr_init(&attributes) == 0);
    CHECK(pthread_attr_setaffinity_np(&attributes, sizeof set, &set) == 0);
    CHECK(pthread_create(&one, &attributes, pinned, NULL) == 0);
    CHECK(pthread_create(&other, NULL, pin_itself_and_a_child, NULL) == 0);
    CHECK(pthread_join(one, NULL) == 0 && pthread_join(other, NULL) == 0);
    puts("affinity");
}

static volatile int is_away, tid;

// Another thread pins this one, which goes on waiting.
static void *be_pinned(void *unused) {
    usleep(1000);
    tid = gettid();
    is_away = 1;
    while (!kernel_affinity()) usleep(100);
    return pinned(unused);
}

static void *pin_another(void *by_identity) {
    cpu_set_t set;
    pthread_t other;
    usleep(1000);
    is_away = 0;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    CHECK(pthread_create(&other, NULL, be_pinned, NULL) == 0);
    while (!is_away) usleep(100);
    if (by_identity) CHECK(sched_setaffinity(tid, sizeof set, &set) == 0);
    else CHECK(pthread_setaffinity_np(other, sizeof set, &set) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    return by_identity;
}

static void affinity_of_others(void) {
    pthread_t thread;
    for (long i = 0; i < 2; i++) {
        CHECK(pthread_create(&thread, NULL, pin_another, (void *)i) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    puts("affinity of others");
}

static void *have_mask(void *unused) {
    sigset_t mask;
    for (int i = 0; i < 3; i++) {
        CHECK(pthread_sigmask(SIG_BLOCK, NULL, &mask) == 0);
        CHECK(sigismember(&mask, SIGUSR1) && !sigismember(&mask, SIGUSR2));
        usleep(100);
    }
    return unused;
}

static void *create_with_mask(void *unused) {
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    usleep(1000);
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setsigmask_np(&attributes, &mask) == 0);
    CHECK(pthread_create(&thread, &attributes, have_mask, NULL) == 0 && pthread_join(thread, NULL) == 0);
    return unused;
}

// A small stack is that of the thread alone.
static void *use_stack(void *unused) {
    volatile char used[44 << 10];
    for (int round = 0; round < 3; round++) {
        for (unsigned long i = 0; i < sizeof used; i++) used[i] = round;
        usleep(100);
        for (unsigned long i = 0; i < sizeof used; i++) CHECK(used[i] == round);
    }
    if (unused) pthread_exit(unused);
    return unused;
}

static void attributes_of_new_threads(void) {
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, create_with_mask, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_attr_init(&attributes) == 0 && pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
    for (long i = 0; i < 100; i++) {
        CHECK(pthread_create(&thread, &attributes, use_stack, (void *)(i % 2)) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    puts("new threads");
}

static int handled;

static void handle(int signal) {
    handled = signal;
}

static void *pause_for_signal(void *ready) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    *(volatile int *)ready = 1;
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    sigpause(SIGUSR1);
    CHECK(handled == SIGUSR1);
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    CHECK(sigismember(&set, SIGUSR1));
    return NULL;
}

static void *jump(void *unused) {
    sigjmp_buf buffer;
    sigset_t set;
    usleep(100);
    if (sigsetjmp(buffer, 1) == 0) {
        sigfillset(&set);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        usleep(100);
        siglongjmp(buffer, 1);
    }
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    for (int i = 1; i < 32; i++) CHECK(!sigismember(&set, i));
    return unused;
}

static void masks(void) {
    struct sigaction action = { .sa_handler = handle };
    volatile int ready = 0;
    pthread_t thread;
    sigaction(SIGUSR1, &action, NULL);
    CHECK(pthread_create(&thread, NULL, pause_for_signal, (void *)&ready) == 0);
    while (!ready) usleep(100);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, jump, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    puts("masks");
}

static void *forever(void *unused) {
    for (;;) pause();
    return unused;
}

static void *join(void *thread) {
    pthread_join(*(pthread_t *)thread, NULL);
    exit(2);
}

static void cancellations(void) {
    for (int i = 0; i < 200; i++) {
        pthread_t blocked, joiner;
        void *result;
        CHECK(pthread_create(&blocked, NULL, forever, NULL) == 0);
        CHECK(pthread_create(&joiner, NULL, join, &blocked) == 0);
        if (i % 2) usleep(i);
        CHECK(pthread_cancel(joiner) == 0);
        CHECK(pthread_join(joiner, &result) == 0 && result == PTHREAD_CANCELED);
        CHECK(pthread_cancel(blocked) == 0);
        CHECK(pthread_join(blocked, &result) == 0 && result == PTHREAD_CANCELED);
    }
    puts("cancellations");
}

static pthread_rwlock_t rwlock;
static int written, preferred;

static void *write_once(void *unused) {
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
    written = 1;
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    return unused;
}

static void *read_after(void *unused) {
    CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
    preferred = written;
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    return unused;
}

// The result of a read lock that does not wait.
static int read_at_once(void) {
    struct timespec past = {1, 0};
    int result = pthread_rwlock_timedrdlock(&rwlock, &past);
    CHECK(result == 0 || result == ETIMEDOUT);
    int other = pthread_rwlock_tryrdlock(&rwlock);
    // A writer may begin to wait between the two.
    CHECK(other == EBUSY || (other == 0 && result == 0));
    if (result == 0) CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    if (other == 0) CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    return result;
}

// Between the releases of other readers, a reader does not overtake a writer that waits.
static void preferred_writers(void) {
    pthread_rwlockattr_t attributes;
    pthread_t writer, reader;
    CHECK(pthread_rwlockattr_init(&attributes) == 0);
    CHECK(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
    CHECK(pthread_rwlock_init(&rwlock, &attributes) == 0);
    for (int round = 0; round < 20; round++) {
        written = 0;
        for (int i = 0; i < 100; i++) CHECK(pthread_rwlock_rdlock(&rwlock) == 0);
        CHECK(pthread_create(&writer, NULL, write_once, NULL) == 0);
        while (read_at_once() == 0) usleep(100);
        CHECK(pthread_create(&reader, NULL, read_after, NULL) == 0);
        for (int i = 1; i < 100; i++) {
            CHECK(pthread_rwlock_unlock(&rwlock) == 0);
            if (i % 10 == 0) usleep(i);
            CHECK(read_at_once() == ETIMEDOUT);
        }
        CHECK(pthread_rwlock_unlock(&rwlock) == 0);
        CHECK(pthread_join(writer, NULL) == 0 && pthread_join(reader, NULL) == 0);
        CHECK(preferred);
    }
    puts("preferred writers");
}

int main(void) {
    alarm(100);
    affinity();
    affinity_of_others();
    attributes_of_new_threads();
    masks();
    cancellations();
    preferred_writers();
    return 0;
}
