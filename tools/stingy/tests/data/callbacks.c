/* A server whose event loop and memory stingify cannot rewrite completely. */
#include <stdlib.h>

struct request {
    char *text;
    void *extra;
};

typedef void stage(struct request *);

static struct request *current;
static stage *next;

static void queue(struct request *request, stage *to)
{
    current = request;
    next = to;
}

static void execute(struct request *request)
{
    next(request);
}

static void finish(struct request *request)
{
    free(request->extra);
    free(request->text);
    free(request);
}

static void work(struct request *request)
{
    request->text = malloc(100);
    request->text = realloc(request->text, 200);
    queue(request, finish);
}

static void loop(void)
{
    struct request *request = malloc(sizeof(*request));
    queue(request, work);
    for (;;)
        execute(current);
}

int main(void)
{
    loop();
    return 0;
}
