// Handlers of signals that wait, at each system call of a wait that they interrupt. The first process traces a thread of a
// child, which stops at a system call, or at an instruction, until the signal has been sent. Each kind of wait is tried with
// a thread that may leave its home, and with one that stays there.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("%d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define KINDS 10
// More than a wait has: system calls, and instructions, of which some are tried.
#define POINTS 40
#define INSTRUCTIONS 10000
#define STRIDE 19

// Shared by the first process and the child.
static struct { int tid, is_traced, sends, is_sent; } *shared;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, inner = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, inner_condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER, inner_rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static sem_t semaphore, entered, go_on;
static pthread_t idle;
static int pipes[2], is_open, is_over, kind, stays;
// The handler takes a semaphore at once, waits until a time that is over, waits, or waits until the interrupted wait may end.
static enum { TAKES, TIMES_OUT, WAITS, OUTLASTS, HANDLERS } handler;

static int get(int *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static void set(int *word, int value) { __atomic_store_n(word, value, __ATOMIC_SEQ_CST); }
static void take(sem_t *semaphore_) { while (sem_wait(semaphore_)) CHECK(errno == EINTR); }

static void handle(int signal) {
    (void)signal;
    int error = errno;
    struct timespec past = {.tv_sec = 1};
    switch (handler) {
    case TAKES: take(&go_on); break;
    case TIMES_OUT:
        CHECK(pthread_mutex_lock(&inner) == 0);
        CHECK(pthread_cond_timedwait(&inner_condition, &inner, &past) == ETIMEDOUT);
        CHECK(pthread_mutex_unlock(&inner) == 0);
        break;
    default:
        CHECK(sem_post(&entered) == 0);
        CHECK(pthread_rwlock_rdlock(&inner_rwlock) == 0 && pthread_rwlock_unlock(&inner_rwlock) == 0);
        CHECK(sem_post(&entered) == 0);
        take(&go_on);
        usleep(1);
        break;
    }
    CHECK(sem_post(&entered) == 0);
    errno = error;
}

static void *be_idle(void *unused) {
    while (!get(&is_over)) usleep(1000);
    return unused;
}

static void wait_by_kind(void) {
    char byte;
    struct timespec time;
    struct pollfd request = {.fd = pipes[0], .events = POLLIN};
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_sec += 1000;
    // The first process recognizes this system call.
    syscall(SYS_getppid);
    switch (kind) {
    case 0: CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0); break;
    case 1:
        CHECK(pthread_mutex_lock(&mutex) == 0);
        while (!is_open) CHECK(pthread_cond_timedwait(&condition, &mutex, &time) == 0);
        CHECK(pthread_mutex_unlock(&mutex) == 0);
        break;
    case 2: take(&semaphore); break;
    case 3: while (sem_timedwait(&semaphore, &time)) CHECK(errno == EINTR); break;
    case 4: CHECK(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0); break;
    case 5: CHECK(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0); break;
    case 6: pthread_barrier_wait(&barrier); break;
    case 7: while (read(pipes[0], &byte, 1) != 1) CHECK(errno == EINTR); break;
    case 8: while (poll(&request, 1, -1) != 1) CHECK(errno == EINTR); break;
    default: CHECK(pthread_join(idle, NULL) == 0); break;
    }
}

static void *run(void *unused) {
    sigjmp_buf here;
    // A thread that saves its signal mask stays at home.
    if (stays) (void)!sigsetjmp(here, 1);
    set(&shared->tid, gettid());
    while (!get(&shared->is_traced)) sched_yield();
    wait_by_kind();
    return unused;
}

static void *arrive(void *unused) {
    pthread_barrier_wait(&barrier);
    return unused;
}

// What the thread waits for.
static void release(void) {
    if (kind == 1) CHECK(pthread_mutex_lock(&mutex) == 0);
    is_open = 1;
    CHECK(pthread_cond_signal(&condition) == 0 && pthread_mutex_unlock(&mutex) == 0);
    CHECK(sem_post(&semaphore) == 0 && pthread_rwlock_unlock(&rwlock) == 0 && write(pipes[1], "x", 1) == 1);
    pthread_t other;
    if (kind == 6) CHECK(pthread_create(&other, NULL, arrive, NULL) == 0 && pthread_detach(other) == 0);
    set(&is_over, 1);
}

// Waits until the handler has run.
static void accompany(void) {
    if (handler >= WAITS) {
        take(&entered);
        usleep(200);
        CHECK(pthread_rwlock_unlock(&inner_rwlock) == 0);
        take(&entered);
        usleep(200);
        if (handler == OUTLASTS) release();
        CHECK(sem_post(&go_on) == 0);
    }
    take(&entered);
}

// The child: a thread waits, two signals interrupt the wait, and then its reason comes.
static void interrupt(void) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0 && pipe(pipes) == 0);
    CHECK(sem_init(&semaphore, 0, 0) == 0 && sem_init(&entered, 0, 0) == 0);
    CHECK(sem_init(&go_on, 0, handler == TAKES ? 2 : 0) == 0 && pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_wrlock(&inner_rwlock) == 0);
    if (kind != 1) CHECK(pthread_mutex_lock(&mutex) == 0);
    CHECK(pthread_create(&idle, NULL, be_idle, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    while (!get(&shared->sends)) usleep(10);
    CHECK(pthread_kill(thread, SIGUSR1) == 0);
    set(&shared->is_sent, 1);
    accompany();
    if (handler != OUTLASTS) {
        // The thread waits again, in most cases.
        usleep(1000);
        if (handler == WAITS) CHECK(pthread_rwlock_wrlock(&inner_rwlock) == 0);
        CHECK(pthread_kill(thread, SIGUSR1) == 0);
        accompany();
        usleep(1000);
        release();
    }
    CHECK(pthread_join(thread, NULL) == 0);
    _exit(0);
}

static char state_of(int tid) {
    char name[64], text[256] = "";
    snprintf(name, sizeof name, "/proc/%d/stat", tid);
    int file = open(name, O_RDONLY);
    if (file >= 0) {
        CHECK(read(file, text, sizeof text - 1) >= 0);
        close(file);
    }
    char *end = strrchr(text, ')');
    return end ? end[2] : 'X';
}

// Lets the thread run until its next system call begins or ends, or for one instruction. Returns 0 if the thread sleeps.
static int step(int tid, enum __ptrace_request request) {
    int status;
    for (;;) {
        CHECK(ptrace(request, tid, 0, 0) == 0);
        int stopped;
        while ((stopped = waitpid(tid, &status, __WALL | WNOHANG)) == 0 && state_of(tid) != 'S') sched_yield();
        if (stopped == 0) {
            CHECK(ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0 && waitpid(tid, &status, __WALL) == tid);
        }
        CHECK(WIFSTOPPED(status));
        // The interrupted system call ends, and begins again later.
        if (stopped == 0) return 0;
        if (WSTOPSIG(status) == (request == PTRACE_SYSCALL ? SIGTRAP | 0x80 : SIGTRAP)) return 1;
    }
}

// The end of a child whose thread stops within an instruction.
static void end(int child, int tid) {
    int status;
    CHECK(kill(child, SIGKILL) == 0);
    while (waitpid(tid, &status, __WALL) == tid && WIFSTOPPED(status)) (void)!ptrace(PTRACE_CONT, tid, 0, 0);
    CHECK(waitpid(child, &status, 0) == child);
}

// Sends the signal when the thread has made so many steps after the marker. Returns whether it sleeps before.
static int try_point(enum __ptrace_request request, int point) {
    memset(shared, 0, sizeof *shared);
    int status, is_asleep = 0, child = fork();
    CHECK(child >= 0);
    if (child == 0) interrupt();
    while (!get(&shared->tid)) {
        CHECK(waitpid(child, &status, WNOHANG) == 0);
        usleep(10);
    }
    int tid = get(&shared->tid);
    struct user_regs_struct registers = {0};
    CHECK(ptrace(PTRACE_SEIZE, tid, 0, PTRACE_O_TRACESYSGOOD) == 0);
    CHECK(ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0 && waitpid(tid, &status, __WALL) == tid);
    set(&shared->is_traced, 1);
    while (registers.orig_rax != SYS_getppid) {
        step(tid, PTRACE_SYSCALL);
        CHECK(ptrace(PTRACE_GETREGS, tid, 0, &registers) == 0);
    }
    for (int i = 0; i < point && !is_asleep; i++) is_asleep = !step(tid, request);
    if (is_asleep && request == PTRACE_SINGLESTEP) {
        end(child, tid);
        return 1;
    }
    set(&shared->sends, 1);
    while (!get(&shared->is_sent)) usleep(10);
    CHECK(ptrace(PTRACE_DETACH, tid, 0, 0) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    if (status) printf("handler %d, stays %d, point %d: %x\n", handler, stays, point, status);
    return is_asleep;
}

// With an argument, the signal is also sent between system calls.
int main(int count, char **unused) {
    (void)unused;
    setvbuf(stdout, NULL, _IOLBF, 0);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (kind = 0; kind < KINDS; kind++) {
        for (int i = 0; i < 2 * HANDLERS; i++) {
            stays = i % 2;
            handler = i / 2;
            // The handler may interrupt the thread while it has the mutex, which the release needs.
            if (kind == 1 && handler == OUTLASTS) continue;
            for (int point = 0; !try_point(PTRACE_SYSCALL, point) && point < POINTS;) point++;
            // The library tries a mutex again, and looks at its own memory for a barrier, before it waits.
            if (count > 1 && (kind == 0 || kind == 6) && (handler == TAKES || handler == OUTLASTS)) {
                for (int point = 0; !try_point(PTRACE_SINGLESTEP, point) && point < INSTRUCTIONS;) point += STRIDE;
            }
        }
        printf("kind %d\n", kind);
    }
    return 0;
}
