/*
 * Preloaded into a program that lackey traces: the allocations of the C library become stores to known addresses, so that
 * they are in the trace in order with all other accesses. tape.rs reads them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define TAPE ((volatile unsigned char *)0x857160000)
#define TAPE_BYTES 4096

/* Stores at an offset: below 16 a digit of the current number, the lowest first; then the ends of numbers. */
enum { ADDRESS = 16, ALLOCATED = 17, FREED = 18 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);
extern void *__libc_valloc(size_t);
extern void *__libc_pvalloc(size_t);
extern void __libc_free(void *);

static char lock, has_tape;

static void begin(void)
{
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
        sched_yield();
    if (has_tape)
        return;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
    if (mmap((void *)TAPE, TAPE_BYTES, PROT_READ | PROT_WRITE, flags, -1, 0) != (void *)TAPE) {
        static const char text[] = "phalanx-stingy: the program uses the addresses of the trace\n";
        if (write(2, text, sizeof(text) - 1) < 0)
            _exit(127);
        _exit(126);
    }
    has_tape = 1;
}

static void end(void)
{
    __atomic_clear(&lock, __ATOMIC_RELEASE);
}

static void number(uintptr_t value)
{
    for (; value; value >>= 4)
        TAPE[value & 15] = 0;
}

static void write_allocated(void *memory, size_t bytes)
{
    if (!memory)
        return;
    number((uintptr_t)memory);
    TAPE[ADDRESS] = 0;
    number(bytes);
    TAPE[ALLOCATED] = 0;
}

static void write_freed(void *memory)
{
    if (!memory)
        return;
    number((uintptr_t)memory);
    TAPE[FREED] = 0;
}

static void *allocated(void *memory, size_t bytes)
{
    begin();
    write_allocated(memory, bytes);
    end();
    return memory;
}

static void freed(void *memory)
{
    begin();
    write_freed(memory);
    end();
}

void *malloc(size_t bytes)
{
    return allocated(__libc_malloc(bytes), bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return allocated(__libc_calloc(count, bytes), count * bytes);
}

/* Before the memory is returned, so that no other thread has it yet. */
void free(void *memory)
{
    freed(memory);
    __libc_free(memory);
}

/*
 * Under the lock: another thread that gets the old memory writes so only after this call has written that it is freed. The C
 * library calls none of these functions meanwhile.
 */
void *realloc(void *memory, size_t bytes)
{
    begin();
    void *moved = __libc_realloc(memory, bytes);
    if (moved || bytes == 0)
        write_freed(memory);
    write_allocated(moved, bytes);
    end();
    return moved;
}

void *reallocarray(void *memory, size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        errno = ENOMEM;
        return NULL;
    }
    return realloc(memory, all);
}

void *memalign(size_t alignment, size_t bytes)
{
    return allocated(__libc_memalign(alignment, bytes), bytes);
}

void *valloc(size_t bytes)
{
    return allocated(__libc_valloc(bytes), bytes);
}

void *pvalloc(size_t bytes)
{
    return allocated(__libc_pvalloc(bytes), bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0)
        return EINVAL;
    void *found = memalign(alignment, bytes);
    if (!found)
        return ENOMEM;
    *memory = found;
    return 0;
}
