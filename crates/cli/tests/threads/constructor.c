// A library whose constructor creates a thread, and with PROGRAM a program that counts the kernel threads of its process.
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static void *wait_once(void *unused) {
    usleep(1000);
    return unused;
}

#ifdef PROGRAM
extern int created;

int main(void) {
    pthread_t thread;
    if (!created || pthread_create(&thread, NULL, wait_once, NULL)) return 1;
    pthread_join(thread, NULL);
    DIR *tasks = opendir("/proc/self/task");
    int count = -2;
    while (readdir(tasks)) count++;
    printf("%d\n", count);
    return 0;
}
#else
int created;

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    created = pthread_create(&thread, NULL, wait_once, NULL) == 0 && pthread_join(thread, NULL) == 0;
}
#endif
