/* An event loop that calls the function in a member of the request. */
#include <stdio.h>
#include <stdlib.h>

struct reply {
    char bytes[64];
};

struct connection {
    void (*on_event)(struct connection *, int events);
    void (*on_error)(struct connection *, int events);
    struct reply *reply;
    struct connection *next;
    int number;
};

static struct connection *active;
static int left = 5;

static void watch(struct connection *c, void (*handler)(struct connection *, int))
{
    c->on_event = handler;
    c->next = active;
    active = c;
}

static void on_close(struct connection *c, int events)
{
    (void)events;
    printf("%d\n", c->number);
    left--;
    free(c);
}

static void on_write(struct connection *c, int events)
{
    c->number += events;
    free(c->reply);
    watch(c, on_close);
}

static void on_read(struct connection *c, int events)
{
    c->number += events;
    c->reply = malloc(sizeof(*c->reply));
    watch(c, on_write);
}

static void notify(struct connection *c)
{
    c->on_event(c, 1);
}

static void loop(void)
{
    for (int i = 0; i < 5; i++) {
        struct connection *c = malloc(sizeof(*c));
        *c = (struct connection){ .on_event = on_read, .on_error = on_close, .number = i };
        c->next = active;
        active = c;
    }
    while (left > 0) {
        struct connection *c = active;
        active = c->next;
        notify(c);
    }
}

int main(void)
{
    loop();
    return 0;
}
