/* A server whose states are the indexes of arrays of functions. */
#include <stdlib.h>

enum state { READ, WRITE, CLOSE, ERROR };

struct connection {
    int state;
    char *buffer;
    struct context {
        char bytes[40];
    } *context;
};

typedef void (*handler)(struct connection *);

static void on_read(struct connection *c)
{
    c->buffer = malloc(4096);
    c->state = WRITE;
}

static void on_write(struct connection *c)
{
    free(c->buffer);
    c->state = CLOSE;
}

static void on_close(struct connection *c)
{
    free(c);
}

static void drive(struct connection *c)
{
    static const struct {
        const char *name;
        handler run;
    } handlers[] = {
        { "read", on_read },
        [CLOSE] = { .name = "close", .run = on_close },
        [WRITE] = { "write", on_write },
    };
    c->context = malloc(sizeof(struct context));
    handlers[c->state].run(c);
    free(c->context);
}

static void loop(void)
{
    struct connection *c = calloc(1, sizeof(*c));
    for (int i = 0; i < 3; i++)
        drive(c);
}

int main(void)
{
    loop();
    return 0;
}
