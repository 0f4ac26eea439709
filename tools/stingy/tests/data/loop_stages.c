#include "loop.h"
#include <stdio.h>
#include <stdlib.h>

struct request {
    struct request *next;
    stage *to;
    int number;
};
typedef struct request *reference;

int served;
static int left = 3;

void last(struct request *r)
{
    printf("%d\n", r->number);
    served++;
    free(r);
}

void first(struct request *r)
{
    r->number = 7;
    queue(r, last);
}

int has_request(void)
{
    return left > 0;
}

void add(void)
{
    struct request *r = malloc(sizeof(*r));
    left--;
    queue(r, first);
}

int main(void)
{
    loop();
    return 0;
}
