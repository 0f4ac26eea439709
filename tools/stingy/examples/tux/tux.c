/*
 * A small event-driven server in the form of TUX: requests advance through eight atoms, and the event loop treats all
 * active requests (Figure 6(b) of "Minimizing Cache Misses in an Event-driven Network Server", LCN 2006). The paper has a
 * set of them, ordered by priority (§4.5.1); here they are in a list without priorities.
 *
 * The clients are simulated in memory, so that caches can be simulated and runs are repeatable. IN_FLIGHT clients have
 * one request each; a client sends its next request when it has received the response.
 *
 * Usage: tux IN_FLIGHT REQUESTS
 * Prints: nanoseconds per request, and a checksum of all responses.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WIRE_BYTES 1024
#define MAX_HEADERS 30
#define FILES 64
#define FILE_BYTES 1536

/* The buffer of received bytes. */
typedef struct abuf {
    uint32_t used;
    char data[4092];
} abuf_t;

/* The parsed header lines of a request. */
typedef struct headers {
    uint32_t count;
    struct {
        uint32_t name_hash;
        uint16_t name_at, name_length;
        uint16_t value_at, value_length;
        uint8_t spare[20];
    } line[MAX_HEADERS];
} headers_t;

/* The normalized path. */
typedef struct path {
    uint32_t hash;
    char text[252];
} path_t;

/* Variables of the request, for access rules and for the log. */
typedef struct context {
    uint64_t variable[256];
} context_t;

/* The response. */
typedef struct output {
    uint32_t head_bytes, bytes;
    char data[2040];
} output_t;

/* A record of the access log. */
typedef struct log_record {
    uint64_t client, hash, bytes;
    char text[40];
} log_record_t;

typedef struct tux_req tux_req_t;
typedef void (atom_func_t)(tux_req_t *req);

struct tux_req {
    atom_func_t *atom; /* the current stage */
    tux_req_t *next;   /* in the list of active requests */
    uint32_t client, file, sent;
    abuf_t *abuf;
    headers_t *headers;
    path_t *path;
    context_t *context;
    output_t *output;
    char peer_address[440];
};

struct client {
    char wire[WIRE_BYTES];
};

static struct client *clients;
static uint32_t in_flight;
static uint64_t to_start, completed, total;
static uint32_t *waiting, waiting_head, waiting_count; /* a ring of clients with a new request */
static char files[FILES][FILE_BYTES];
static uint64_t checksum, logged[64];

/* The list of active requests. */
static tux_req_t *active_first;
static tux_req_t *active_last;
static uint32_t active_count;

static void read_request(tux_req_t *req);
static void parse_headers(tux_req_t *req);
static void lookup_object(tux_req_t *req);
static void check_access(tux_req_t *req);
static void generate_header(tux_req_t *req);
static void fill_body(tux_req_t *req);
static void send_response(tux_req_t *req);
static void log_request(tux_req_t *req);

/* Queues a request for an atom. */
static void add_tux_atom(tux_req_t *req, atom_func_t *atom)
{
    req->atom = atom;
    req->next = NULL;
    if (active_last)
        active_last->next = req;
    else
        active_first = req;
    active_last = req;
    active_count++;
}

/* Removes the oldest active request from the list. */
static tux_req_t *next_active(void)
{
    tux_req_t *req = active_first;
    active_first = req->next;
    if (!active_first)
        active_last = NULL;
    active_count--;
    return req;
}

/* Executes the current atom of a request. */
static void tux_schedule_atom(tux_req_t *req)
{
    req->atom(req);
}

static bool new_requests_waiting(void)
{
    return waiting_count > 0;
}

static void client_has_request(uint32_t client)
{
    if (to_start == 0)
        return;
    to_start--;
    waiting[(waiting_head + waiting_count++) % in_flight] = client;
}

static void accept_new_request(void)
{
    tux_req_t *req = calloc(1, sizeof(tux_req_t));
    if (!req)
        abort();
    req->client = waiting[waiting_head];
    waiting_head = (waiting_head + 1) % in_flight;
    waiting_count--;
    snprintf(req->peer_address, 24, "client %u", req->client);
    add_tux_atom(req, read_request);
}

static uint32_t hash_bytes(const char *bytes, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash;
}

static void read_request(tux_req_t *req)
{
    abuf_t *abuf = calloc(1, sizeof(*abuf));
    if (!abuf)
        abort();
    memcpy(abuf->data, clients[req->client].wire, WIRE_BYTES);
    abuf->used = WIRE_BYTES;
    req->abuf = abuf;
    add_tux_atom(req, parse_headers);
}

static void parse_headers(tux_req_t *req)
{
    headers_t *headers = malloc(sizeof(headers_t));
    if (!headers)
        abort();
    const char *data = req->abuf->data, *end = data + req->abuf->used;
    const char *line = memchr(data, '\n', req->abuf->used);
    headers->count = 0;
    while (line && headers->count < MAX_HEADERS) {
        const char *name = line + 1, *colon = memchr(name, ':', end - name);
        if (!colon)
            break;
        line = memchr(colon, '\n', end - colon);
        uint32_t i = headers->count++;
        headers->line[i].name_hash = hash_bytes(name, colon - name);
        headers->line[i].name_at = name - data;
        headers->line[i].name_length = colon - name;
        headers->line[i].value_at = colon + 2 - data;
        headers->line[i].value_length = (line ? line : end) - colon - 2;
    }
    req->headers = headers;
    add_tux_atom(req, lookup_object);
}

static void lookup_object(tux_req_t *req)
{
    path_t *path = malloc(sizeof(struct path));
    if (!path)
        abort();
    const char *from = req->abuf->data + 4; /* behind "GET " */
    size_t length = 0;
    while (from[length] != ' ' && length < sizeof(path->text) - 1) {
        path->text[length] = from[length];
        length++;
    }
    memset(path->text + length, 0, sizeof(path->text) - length);
    path->hash = hash_bytes(path->text, length);
    req->path = path;
    req->file = path->hash % FILES;
    add_tux_atom(req, check_access);
}

static void check_access(tux_req_t *req)
{
    context_t *context = malloc(sizeof(context_t));
    if (!context)
        abort();
    uint64_t value = req->path->hash;
    for (size_t i = 0; i < 256; i++) {
        value = value * 6364136223846793005u + req->headers->line[i % req->headers->count].name_hash;
        context->variable[i] = value;
    }
    req->context = context;
    add_tux_atom(req, generate_header);
}

static void generate_header(tux_req_t *req)
{
    output_t *output = malloc(sizeof(output_t));
    if (!output)
        abort();
    output->head_bytes = (uint32_t)snprintf(output->data, 256, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nETag: \"%x\"\r\n\r\n",
                                            FILE_BYTES, req->path->hash);
    free(req->path);
    req->output = output;
    add_tux_atom(req, fill_body);
}

static void fill_body(tux_req_t *req)
{
    output_t *output = req->output;
    memcpy(output->data + output->head_bytes, files[req->file], FILE_BYTES);
    output->bytes = output->head_bytes + FILE_BYTES;
    add_tux_atom(req, send_response);
}

static void send_response(tux_req_t *req)
{
    uint64_t sum = 0, word;
    for (uint32_t i = 0; i + sizeof(word) <= req->output->bytes; i += sizeof(word)) {
        memcpy(&word, req->output->data + i, sizeof(word));
        sum = sum * 31 + word;
    }
    for (size_t i = 0; i < 256; i++)
        sum += req->context->variable[i];
    checksum += sum;
    req->sent = req->output->bytes;
    free(req->output);
    free(req->abuf);
    free(req->headers);
    add_tux_atom(req, log_request);
}

static void log_request(tux_req_t *req)
{
    log_record_t *record = malloc(sizeof(log_record_t));
    if (!record)
        abort();
    record->client = req->client;
    record->hash = req->context->variable[0];
    record->bytes = req->sent;
    logged[record->hash % 64] += record->bytes;
    free(record);
    free(req->context);
    completed++;
    client_has_request(req->client);
    free(req);
}

static void event_loop(void)
{
    while (completed < total) {
        while (new_requests_waiting())
            accept_new_request();
        for (uint32_t left = active_count; left > 0; left--)
            tux_schedule_atom(next_active());
    }
}

int main(int argc, char **argv)
{
    in_flight = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    total = to_start = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (in_flight == 0 || total == 0) {
        fprintf(stderr, "usage: tux IN_FLIGHT REQUESTS\n");
        return 2;
    }
    clients = malloc(in_flight * sizeof(struct client));
    waiting = malloc(in_flight * sizeof(*waiting));
    if (!clients || !waiting)
        abort();
    for (uint32_t i = 0; i < FILES; i++)
        memset(files[i], 'a' + (int)(i % 26), FILE_BYTES);
    for (uint32_t i = 0; i < in_flight; i++) {
        char *wire = clients[i].wire;
        int at = snprintf(wire, WIRE_BYTES, "GET /page/%u.html HTTP/1.1\r\n", i * 2654435761u % 997);
        for (int line = 0; at < WIRE_BYTES; line++)
            at += snprintf(wire + at, WIRE_BYTES - (size_t)at, "X-Header-%d: some value of client %u\r\n", line, i);
        client_has_request(i);
    }
    struct timespec start, end;
    clock_gettime(CLOCK_MONOTONIC, &start);
    event_loop();
    clock_gettime(CLOCK_MONOTONIC, &end);
    double nanoseconds = (double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec);
    printf("%.0f ns per request, checksum %016llx\n", nanoseconds / (double)total, (unsigned long long)checksum);
    return 0;
}
