/* Two stages with known accesses. */
#include <stdio.h>
#include <stdlib.h>

#define LINE 64

static _Alignas(LINE) volatile char table[16 * LINE];
static volatile char *object;
static volatile char *buffers[4];

__attribute__((noinline)) static void parse(int request)
{
    for (int i = 0; i < 10; i++)
        object[i * LINE] = (char)request;
    for (int i = 0; i < 3; i++)
        table[i * LINE]++;
}

__attribute__((noinline)) static void send_all(int request)
{
    volatile char *buffer = buffers[request % 4];
    for (int i = 0; i < 7; i++)
        buffer[i * LINE] = object[0];
    if (request % 2)
        parse(request);
}

int main(void)
{
    puts("the output of the program");
    fflush(stdout);
    object = aligned_alloc(LINE, 16 * LINE);
    for (int i = 0; i < 4; i++)
        buffers[i] = aligned_alloc(LINE, 16 * LINE);
    for (int request = 0; request < 20; request++)
        send_all(request);
    return 0;
}
