/* A server whose stages are enumerators, with known memory at each. */
#include <stdlib.h>
#include <string.h>

enum state { READ, PARSE, WRITE, CLOSE };

struct header {
    char bytes[100];
};

struct connection {
    enum state state;
    char *buffer;
    struct header *header;
    char *name;
};

static void *checked(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        abort();
    return memory;
}

/* The compiler inlines it, and its call has no line of its own. */
static inline int parse(struct connection *c)
{
    c->header = checked(sizeof(struct header));
    memcpy(c->header->bytes, c->buffer, sizeof(c->header->bytes));
    return 1;
}

static void drive(struct connection *c)
{
    switch (c->state) {
    case READ:
        c->buffer = checked(4096);
        memset(c->buffer, 'x', 4096);
        c->state = PARSE;
        break;
    case PARSE:
        if (parse(c))
            c->state = WRITE;
        break;
    case WRITE:
        c->buffer = realloc(c->buffer, 64);
        c->name = strdup("a name");
        c->state = CLOSE;
        break;
    case CLOSE:
        free(c->name);
        free(c->header);
        free(c->buffer);
        free(c);
        break;
    }
}

static void loop(long requests)
{
    for (; requests > 0; requests--) {
        struct connection *c = checked(sizeof(struct connection));
        c->state = READ;
        for (int i = 0; i < 4; i++)
            drive(c);
    }
}

int main(int argc, char **argv)
{
    /* Memory of the program, and of no request. */
    char *arguments = strdup(argv[argc - 1]);
    loop(strtol(arguments, NULL, 10));
    free(arguments);
    return 0;
}
