// Threads that wait to write to full pipes, several threads that wait for connections at one socket, and threads that read
// files which support no attempts.
// With an argument, prints whether they occupy the carriers meanwhile.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define CHECK(condition) do { if (!(condition)) { printf("line %d: %s: %d\n", __LINE__, #condition, errno); exit(1); } } while (0)
#define WRITERS 4
#define RECORDS 400
#define RECORD 4096
#define ACCEPTORS 8
#define CONNECTIONS 4000
#define BURST 4
#define READERS 5

static int pipes[2], listener, accepted;

static int seen_home, seen_carrier, is_over;

// Sleeps often. While all carriers are occupied, it does so on its own kernel thread.
static void *witness(void *unused) {
    while (!__atomic_load_n(&is_over, __ATOMIC_SEQ_CST)) {
        usleep(500);
        long tid;
        __asm__ volatile("syscall" : "=a"(tid) : "a"(SYS_gettid) : "rcx", "r11", "memory");
        __atomic_fetch_add(tid == gettid() ? &seen_home : &seen_carrier, 1, __ATOMIC_SEQ_CST);
    }
    return unused;
}

// Whether the witness is on its own kernel thread most of the time from now on.
static int is_occupied(void) {
    int home = seen_home, carrier = seen_carrier;
    while (__atomic_load_n(&seen_home, __ATOMIC_SEQ_CST) + __atomic_load_n(&seen_carrier, __ATOMIC_SEQ_CST) < home + carrier + 40)
        usleep(500);
    return seen_home - home > seen_carrier - carrier;
}

// Records of PIPE_BUF bytes are written as a whole.
static void *write_records(void *which) {
    char record[RECORD];
    memset(record, 'a' + (long)which, RECORD);
    usleep(1);
    for (int i = 0; i < RECORDS; i++) {
        struct iovec parts[] = { { record, 1000 }, { record + 1000, RECORD - 1000 } };
        if (i % 2) CHECK(write(pipes[1], record, RECORD) == RECORD);
        else CHECK(writev(pipes[1], parts, 2) == RECORD);
    }
    return NULL;
}

static int read_records(void) {
    pthread_t threads[WRITERS];
    int counts[WRITERS] = { 0 }, found = 0;
    for (long i = 0; i < WRITERS; i++) CHECK(pthread_create(&threads[i], NULL, write_records, (void *)i) == 0);
    for (int i = 0; i < WRITERS * RECORDS; i++) {
        char record[RECORD];
        for (int full = 0; i % 400 == 0 && full < 16 * RECORD; usleep(100)) CHECK(ioctl(pipes[0], FIONREAD, &full) == 0);
        if (i % 400 == 0) found += is_occupied();
        for (int part = 0; part < RECORD;) {
            int more = read(pipes[0], record + part, RECORD - part);
            CHECK(more > 0);
            part += more;
        }
        for (int at = 0; at < RECORD; at++) CHECK(record[at] == record[0]);
        counts[record[0] - 'a']++;
    }
    for (int i = 0; i < WRITERS; i++) CHECK(pthread_join(threads[i], NULL) == 0 && counts[i] == RECORDS);
    return found;
}

// One thread writes more than the pipe holds in a single call.
static void *write_large(void *data) {
    usleep(1);
    CHECK(write(pipes[1], data, 1 << 20) == 1 << 20);
    return NULL;
}

static void read_large(void) {
    char *data = malloc(1 << 20), *back = malloc(1 << 20);
    for (int i = 0; i < 1 << 20; i++) data[i] = i * 7 + i / 4099;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, write_large, data) == 0);
    for (int part, all = 0; all < 1 << 20; all += part) CHECK((part = read(pipes[0], back + all, (1 << 20) - all)) > 0);
    CHECK(pthread_join(thread, NULL) == 0 && memcmp(data, back, 1 << 20) == 0);
    free(data), free(back);
}

static void *serve(void *unused) {
    for (;;) {
        char byte;
        int connection = accept(listener, NULL, NULL);
        CHECK(connection >= 0 && read(connection, &byte, 1) == 1);
        __atomic_fetch_add(&accepted, 1, __ATOMIC_SEQ_CST);
        CHECK(write(connection, &byte, 1) == 1 && close(connection) == 0);
        if (byte == 'e') return unused;
    }
}

static int connect_often(void) {
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    pthread_t threads[ACCEPTORS];
    int found = 0;
    CHECK((listener = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
    CHECK(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 64) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
    for (long i = 0; i < ACCEPTORS; i++) CHECK(pthread_create(&threads[i], NULL, serve, NULL) == 0);
    // More threads wait than there are connections at a time.
    for (int i = 0; i < CONNECTIONS + ACCEPTORS; i += BURST) {
        char byte = i < CONNECTIONS ? 'x' : 'e';
        int clients[BURST];
        for (int j = 0; j < BURST; j++) {
            CHECK((clients[j] = socket(AF_INET, SOCK_STREAM, 0)) >= 0);
            CHECK(connect(clients[j], (struct sockaddr *)&address, size) == 0);
        }
        for (int j = 0; j < BURST; j++) CHECK(write(clients[j], &byte, 1) == 1);
        for (int j = 0; j < BURST; j++) CHECK(read(clients[j], &byte, 1) == 1 && close(clients[j]) == 0);
        if (i < CONNECTIONS && i % 400 == 0) found += is_occupied();
    }
    for (long i = 0; i < ACCEPTORS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(accepted == CONNECTIONS + ACCEPTORS && close(listener) == 0);
    return found;
}

static int events[READERS];

static void *read_events(void *which) {
    char data[4096];
    usleep(1);
    for (int i = 0; i < 20; i++) {
        struct iovec part = { data, sizeof data };
        int descriptor = events[(long)which];
        CHECK((i % 2 ? read(descriptor, data, sizeof data) : readv(descriptor, &part, 1)) > 0);
    }
    return NULL;
}

// Named pipes, and a file that reports changes of the folder.
static int read_unattempted(void) {
    char folder[] = "/tmp/phalanx-occupied-XXXXXX", path[64];
    pthread_t threads[READERS];
    int found = 0, writers[READERS];
    CHECK(mkdtemp(folder) && (events[0] = inotify_init()) >= 0);
    CHECK(inotify_add_watch(events[0], folder, IN_CREATE) >= 0);
    for (long i = 1; i < READERS; i++) {
        snprintf(path, sizeof path, "%s/%ld", folder, i / 2);
        CHECK((mkfifo(path, 0600) == 0 || errno == EEXIST) && (writers[i] = open(path, O_RDWR)) >= 0);
        CHECK((events[i] = open(path, O_RDONLY)) >= 0);
    }
    for (long i = 0; i < READERS; i++) CHECK(pthread_create(&threads[i], NULL, read_events, (void *)i) == 0);
    for (int round = 0; round < 20; round++) {
        if (round % 2 == 0) usleep(2000), found += is_occupied();
        snprintf(path, sizeof path, "%s/x%d", folder, round);
        CHECK(close(creat(path, 0600)) == 0 && unlink(path) == 0);
        for (int i = 1; i < READERS; i++) CHECK(write(writers[i], "x", 1) == 1);
    }
    // Two threads read one pipe, and one of them may have received the bytes for both.
    for (int i = 1; i < READERS; i++) CHECK(write(writers[i], "xxxxxxxxxxxxxxxxxxxx", 20) == 20);
    for (int round = 0; round < 200; round++) {
        for (int i = 1; i < READERS; i++) (void)!write(writers[i], "x", 1);
        snprintf(path, sizeof path, "%s/y%d", folder, round);
        CHECK(close(creat(path, 0600)) == 0 && unlink(path) == 0);
        usleep(500);
    }
    for (int i = 0; i < READERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < READERS; i++) {
        snprintf(path, sizeof path, "%s/%d", folder, i);
        unlink(path);
        CHECK(close(events[i]) == 0 && (i == 0 || close(writers[i]) == 0));
    }
    CHECK(rmdir(folder) == 0);
    return found;
}

// Whether the carriers were occupied in a part, which a witness of its own observes.
static const char *observe(int (*part)(void)) {
    pthread_t thread;
    is_over = 0;
    CHECK(pthread_create(&thread, NULL, witness, NULL) == 0);
    int found = part();
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    return found > 1 ? "occupied" : "free";
}

int main(int count, char **unused) {
    (void)unused;
    CHECK(pipe(pipes) == 0);
    const char *writes = observe(read_records), *accepts = observe(connect_often);
    const char *reads = observe(read_unattempted);
    read_large();
    if (count > 1) printf("writes: %s\naccepts: %s\nreads: %s\n", writes, accepts, reads);
    puts("done");
    return 0;
}
