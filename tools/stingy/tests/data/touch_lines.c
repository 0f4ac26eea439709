/* Accesses that touch must attribute to the right kind of memory, function and variable. */
#include <stdlib.h>

#define LINE 64

/* Two functions in one line of code, and two variables in one line. */
__asm__(".data\n.balign 64\n"
        ".type idle, @object\n.size idle, 8\nidle: .quad 0\n"
        ".type used, @object\n.size used, 8\nused: .quad 0\n"
        ".text\n.balign 64\n"
        ".type never, @function\n.size never, 1\nnever: ret\n"
        ".type count, @function\ncount: incq used(%rip)\nret\n"
        ".size count, . - count\n");
extern void count(void);

static char *object;

/* One instruction that stores words, which is no call. */
__attribute__((noinline)) void clear(void)
{
    void *to = object;
    unsigned long words = 10 * LINE / 8;
    __asm__ volatile("rep stosq" : "+D"(to), "+c"(words) : "a"(0L) : "memory");
}

/* The stack after such an instruction. */
__attribute__((noinline)) void copy(void)
{
    char local[4 * LINE];
    __asm__ volatile("" : : "r"(local) : "memory");
    for (int i = 0; i < 4; i++)
        local[i * LINE] = (char)i;
    __asm__ volatile("" : : "r"(local) : "memory");
    for (int i = 0; i < 6; i++)
        object[i * LINE] = local[0];
}

int main(void)
{
    object = aligned_alloc(LINE, 16 * LINE);
    for (int request = 0; request < 20; request++) {
        clear();
        copy();
        count();
    }
    return 0;
}
