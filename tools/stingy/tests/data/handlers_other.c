/* A static function with the name of one in handlers.c. */
struct client;

void put_in_pending(struct client *c);

static void again(struct client *c)
{
    put_in_pending(c);
}

void other(struct client *c)
{
    again(c);
}
