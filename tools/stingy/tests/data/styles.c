/* A server that changes states, calls and allocates in many ways. */
#include <stdlib.h>
#include <string.h>

enum state { READ, PARSE, LOOKUP, WRITE, LOG, AGAIN, CLOSE, NEVER };

struct buffer {
    char bytes[100];
};
struct context {
    char bytes[40];
};
struct session {
    char bytes[60];
};
struct scratch {
    char bytes[20];
};
struct trace {
    char bytes[30];
};

struct connection {
    enum state state;
    unsigned kind : 2;
    char *name;
    struct buffer *in, *out;
    struct context *context;
    struct session *session;
    struct trace *trace;
    struct connection *next;
};

typedef void (*operation)(struct connection *);

static int wanted;

static void set_state(struct connection *c, enum state state)
{
    c->state = state;
}

/* The state through two macros, and a constant one. */
#define MOVE(c, s) set_state((c), (s))
#define MOVE_IF(c, s) do { if (wanted) MOVE(c, s); } while (0)
#define FINISH(c) MOVE(c, CLOSE)
/* Memory. */
#define NEW(type) ((type *)malloc(sizeof(type)))
#define DROP(p) do { free(p); (p) = NULL; } while (0)
#define RELEASE(c) release(c)

typedef struct session session_type;

static void release(struct connection *c)
{
    free(c->context);
}

static void open_context(struct connection *c)
{
    c->context = malloc(sizeof(*c->context));
}

static void look_up(struct connection *c)
{
    MOVE(c, WRITE);
}

static void trace(struct connection *c)
{
    c->trace = malloc(sizeof(struct trace));
}

/* Pointers to functions: in arrays, with and without designators, and in variables. */
static operation operations[] = { open_context, NULL };
static operation by_kind[4] = { [0] = NULL, [1] = look_up };
static const struct {
    const char *name;
    operation run[2];
} named[] = { { "trace", { NULL, trace } } };
static operation hook = NULL;
static operation unknown;

static void again(struct connection *c)
{
    c->state = AGAIN;
}

static struct buffer *new_buffer(void)
{
    return malloc(sizeof(struct buffer));
}

static void drive(struct connection *c)
{
    struct scratch *around = malloc(sizeof(struct scratch));
    switch (c->state) {
    case READ:
        c->in = new_buffer();
        c->out = new_buffer();
        c->name = strdup("name");
        c->session = NEW(session_type);
        MOVE_IF(c, PARSE);
        break;
    case PARSE:
        operations[c->kind](c);
        c->state = LOOKUP;
        break;
    case LOOKUP:
        by_kind[c->kind](c);
        break;
    case WRITE:
        named[0].run[c->kind](c);
        RELEASE(c);
        *c = (struct connection){ .state = LOG, .next = NULL };
        break;
    case LOG:
        hook(c);
        unknown(c);
        DROP(c->trace);
        break;
    case AGAIN:
        FINISH(c);
        break;
    case CLOSE:
        free(c->name);
        free(c->in);
        free(c);
        break;
    default:
        c->state++;
        break;
    case NEVER:
        break;
    }
    free(around);
}

static void loop(void)
{
    struct connection *c = calloc(1, sizeof(*c));
    hook = again;
    while (wanted)
        drive(c);
}

int main(void)
{
    loop();
    return 0;
}
