/* An event loop that does not know the stages, which are in another file. */
#include "loop.h"
#include <stddef.h>

struct entry {
    struct entry *next;
    stage *to;
};

static struct entry *ready;

void queue(struct request *r, stage *to)
{
    struct entry *entry = (struct entry *)r;
    entry->to = to;
    entry->next = ready;
    ready = entry;
}

static void run(struct entry *entry)
{
    entry->to((struct request *)entry);
}

void loop(void)
{
    while (served < 3) {
        while (has_request())
            add();
        while (ready) {
            struct entry *entry = ready;
            ready = entry->next;
            run(entry);
        }
    }
}
