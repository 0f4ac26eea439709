/* A server whose stages are enumerators, with constructs that memwalk must report. */
#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES (4 * 1024)
#define SET_STATE(c, s) \
    ((c)->state = (s))

enum state { STATE_READ, STATE_PARSE, STATE_FLUSH, STATE_WRITE, STATE_CLOSE };

struct header {
    char name[24];
    unsigned long value;
};

struct connection;
typedef void (*handler)(struct connection *);

struct connection {
    enum state state;
    char *buffer;
    char *reply;
    struct header *headers;
    handler finish;
    handler unknown;
};

static int wanted;
static handler plugin;
static void *scratch;

static void set_state(struct connection *c, enum state state)
{
    c->state = state;
}

static void finish_reply(struct connection *c)
{
    free(c->reply);
    set_state(c, STATE_CLOSE);
}

static void install(struct connection *c)
{
    c->finish = finish_reply;
    c->unknown = plugin;
}

static void drive(struct connection *c)
{
    switch (c->state) {
    case STATE_READ:
        c->buffer = malloc(BUFFER_BYTES);
        set_state(c, wanted ? STATE_PARSE : STATE_CLOSE);
        break;
    case STATE_PARSE:
        c->headers = calloc(4, sizeof(struct header));
        c->reply = malloc(strlen(c->buffer));
        if (wanted)
            free(c->buffer);
        c->unknown(c);
        SET_STATE(c, STATE_FLUSH);
        break;
    case STATE_FLUSH:
        wanted--;
        /* continues */
    case STATE_WRITE:
        if (c->buffer)
            free(c->buffer);
        free(c->headers);
        c->finish(c);
        break;
    case STATE_CLOSE:
        free(scratch);
        free(c);
        break;
    }
}

static void loop(void)
{
    struct connection *c = malloc(sizeof(*c));
    install(c);
    c->state = STATE_READ;
    drive(c);
    c->state = (enum state)(wanted + 1);
    drive(c);
}

int main(void)
{
    loop();
    return 0;
}
