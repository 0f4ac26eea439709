/* A server whose stages are handlers and lists, with calls through pointers that memwalk must follow. */
#include <stdlib.h>

#define discard release
#define SET_DONE(c, f) ((c)->done = (f))

struct client;
typedef void (*handler)(struct client *);

struct client {
    handler on_read;
    handler done;
    char *reply;
    int is_pending;
};

struct command {
    const char *name;
    struct {
        int least, most;
    } arguments;
    handler execute;
};

void set_on_read(struct client *c, handler f)
{
    c->on_read = f;
}

void put_in_pending(struct client *c)
{
    c->is_pending = 1;
}

static void release(struct client *c)
{
    own_free(c->reply);
    own_free(c);
}

void read_request(struct client *c);

void *own_alloc(size_t bytes)
{
    return malloc(bytes);
}

void own_free(void *memory)
{
    free(memory);
}

size_t own_size(void *memory)
{
    return memory ? 1 : 0;
}

/* Also returns the size. */
static void *sized_alloc(size_t bytes, size_t *usable)
{
    *usable = bytes;
    return own_alloc(bytes);
}

static int wait_for_events(int events)
{
    return events;
}

static void get(struct client *c)
{
    size_t usable;
    c->reply = sized_alloc(512, &usable);
    put_in_pending(c);
}

static void quit(struct client *c)
{
    c->is_pending = own_size(c) > 0;
    discard(c);
}

static struct command commands[] = {
    { "get", { 1, 2 }, get },
    { "quit", { 0, 0 }, quit },
};

void read_request(struct client *c)
{
    commands[c->is_pending].execute(c);
}

static void after(struct client *c, handler next)
{
    next(c);
}

static void again(struct client *c)
{
    set_on_read(c, read_request);
}

void write_pending(struct client *c)
{
    SET_DONE(c, again);
    after(c, c->done);
}

void execute(struct client *c)
{
    c->on_read(c);
}

void other(struct client *c);

void loop(void)
{
    struct client *c = own_alloc(sizeof(*c));
    wait_for_events(100);
    set_on_read(c, NULL);
    set_on_read(c, read_request);
    execute(c);
    if (c->is_pending)
        write_pending(c);
    other(c);
}

int main(void)
{
    loop();
    return 0;
}
