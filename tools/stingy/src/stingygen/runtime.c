/* The allocator. All state belongs to one thread. */

#define LINE 64
#define HUGE_PAGE ((size_t)2 << 20)

struct pool {
    size_t slot_bytes;
    char *first;          /* the slots are contiguous */
    void *free;           /* the slot freed last; each free slot begins with the address of the next */
    uint32_t free_count;
};

static struct pool pools[POOLS];
static char *slab;
static size_t slab_bytes;
static uint32_t capacity; /* slots in each pool: the requests whose memory fits the budget */
static struct stingy_counts counts;

static void fail(const char *what)
{
    fprintf(stderr, "stingy: %s\n", what);
    abort();
}

static size_t l2_bytes(void)
{
    const char *given = getenv("STINGY_L2");
    size_t bytes = given ? strtoull(given, NULL, 10) : 0;
    if (bytes >= 4096)
        return bytes;
    unsigned long kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index2/size", "r");
    if (file) {
        if (fscanf(file, "%luK", &kib) != 1)
            kib = 0;
        fclose(file);
    }
    return kib ? (size_t)kib << 10 : STINGY_L2_BYTES;
}

static void start(void)
{
    size_t request_bytes = 0;
    for (int i = 0; i < POOLS; i++)
        request_bytes += pool_slot_bytes[i];
    size_t fits = l2_bytes() / 100 * STINGY_BUDGET_PERCENT / request_bytes;
    capacity = fits < STINGY_MIN_REQUESTS ? STINGY_MIN_REQUESTS : fits > STINGY_MAX_REQUESTS ? STINGY_MAX_REQUESTS : (uint32_t)fits;
    slab_bytes = capacity * request_bytes;
    /* One huge page, so that the slab is contiguous in physical memory and maps one-to-one onto the L2 cache. */
    size_t mapped = (slab_bytes + 2 * HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *at = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("no memory for the slab");
    slab = (char *)(((uintptr_t)at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
#ifdef MADV_HUGEPAGE
    madvise(slab, HUGE_PAGE, MADV_HUGEPAGE);
#endif
    at = slab;
    for (int i = 0; i < POOLS; i++) {
        pools[i] = (struct pool){ .slot_bytes = pool_slot_bytes[i], .first = at };
        at += capacity * pool_slot_bytes[i];
        for (uint32_t slot = capacity; slot-- > 0;) {
            void *memory = pools[i].first + slot * pools[i].slot_bytes;
            *(void **)memory = pools[i].free;
            pools[i].free = memory;
        }
        pools[i].free_count = capacity;
    }
}

void *stingy_alloc(enum stingy_object object)
{
    if (!slab)
        start();
    struct pool *pool = &pools[object_pool[object]];
    counts.allocations++;
    void *memory = pool->free;
    if (memory) {
        pool->free = *(void **)memory;
        pool->free_count--;
        return memory;
    }
    counts.spilled++;
    return malloc(object_bytes[object]);
}

void *stingy_zalloc(enum stingy_object object)
{
    void *memory = stingy_alloc(object);
    return memory ? memset(memory, 0, object_bytes[object]) : NULL;
}

void stingy_free(enum stingy_object object, void *memory)
{
    if ((uintptr_t)memory - (uintptr_t)slab >= slab_bytes) {
        free(memory);
        return;
    }
    struct pool *pool = &pools[object_pool[object]];
    *(void **)memory = pool->free;
    pool->free = memory;
    pool->free_count++;
}

struct stingy_counts stingy_counts(void)
{
    return counts;
}

/* The scheduler. A queued request is a node in the list of its stage. */

struct node {
    void *request;
    uint32_t next; /* index + 1; 0 is the end */
};

struct queue {
    uint32_t first, last, count;
};

static struct node *nodes;
static uint32_t free_node, used_nodes, queued;
static struct queue queues[STINGY_STAGES];

size_t stingy_room(enum stingy_stage stage)
{
    if (!slab)
        start();
    size_t room = STINGY_MAX_REQUESTS - queued;
    for (const unsigned char *pool = stage_pools[stage]; *pool != POOLS; pool++)
        if (pools[*pool].free_count < room)
            room = pools[*pool].free_count;
    /* Requests that wait for I/O occupy memory. Exceed the budget rather than idle. */
    if (room == 0 && stage == STINGY_STAGE_entry && queued < capacity / 4)
        room = capacity / 4 - queued;
    return room;
}

void stingy_queue(enum stingy_stage stage, void *request)
{
    if (!nodes) {
        nodes = mmap(NULL, sizeof(*nodes) * STINGY_MAX_REQUESTS, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (nodes == MAP_FAILED)
            fail("no memory for the queues");
    }
    uint32_t node = free_node;
    if (node)
        free_node = nodes[node - 1].next;
    else if (used_nodes < STINGY_MAX_REQUESTS)
        node = ++used_nodes;
    else
        fail("more than STINGY_MAX_REQUESTS requests are queued; call stingy_room before accepting");
    nodes[node - 1] = (struct node){ .request = request };
    struct queue *queue = &queues[stage];
    if (queue->count++ > 0)
        nodes[queue->last - 1].next = node;
    else
        queue->first = node;
    queue->last = node;
    queued++;
}

/* Elects a stage; STINGY_STAGES if nothing is queued. */
static int elect(void)
{
    int early = STINGY_STAGES, late = STINGY_STAGES;
    for (int stage = 0; stage < STINGY_STAGES; stage++) {
        if (queues[stage].count == 0)
            continue;
        if (queues[stage].count >= capacity)
            return stage; /* maximal flow: no more requests can be accumulated */
        if (stingy_room(stage) == 0)
            late = stage;
        else if (early == STINGY_STAGES)
            early = stage;
    }
    /* Early stages catch up with advanced ones. Of stages without memory the most advanced frees some soonest. */
    return early != STINGY_STAGES ? early : late;
}

size_t stingy_run(void (*execute)(enum stingy_stage, void *request))
{
    int stage = elect();
    if (stage == STINGY_STAGES)
        return 0;
    size_t room = stingy_room(stage), batch = queues[stage].count;
    if (batch > room)
        batch = room ? room : 1;
    for (size_t i = 0; i < batch; i++) {
        struct queue *queue = &queues[stage];
        uint32_t index = queue->first;
        struct node *node = &nodes[index - 1];
        void *request = node->request;
        queue->first = node->next;
        queue->count--;
        queued--;
        node->next = free_node;
        free_node = index;
        execute(stage, request);
    }
    counts.batches++;
    counts.executed += batch;
    return batch;
}
