// Whether a thread is executed by another kernel thread than its own.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARCH_GET_FS 0x1003
int arch_prctl(int, unsigned long *);

static int shared;

static void *body(void *unused) {
    for (int i = 0; i < 200; i++) {
        long tid;
        usleep(100);
        __asm__ volatile("syscall" : "=a"(tid) : "a"(186) : "rcx", "r11", "memory");
        if (tid != gettid()) __atomic_store_n(&shared, 1, __ATOMIC_RELAXED);
    }
    return unused;
}

int main(void) {
    pthread_t threads[8];
    // Calls that give the kernel thread no attribute, which threads created by it would inherit. The flags of keys are invalid.
    unsigned long base;
    if (arch_prctl(ARCH_GET_FS, &base) || syscall(SYS_arch_prctl, ARCH_GET_FS, &base)) return 1;
    if (pkey_alloc(1, 0) != -1 || syscall(SYS_pkey_alloc, 1, 0) != -1) return 1;
    // Attributes that the carriers inherit, or nothing does.
    if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) || prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)) return 1;
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, body, NULL);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    puts(shared ? "shared" : "own");
    return 0;
}
