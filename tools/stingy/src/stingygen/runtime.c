/* The allocator. Each thread has pools of its own. Memory that another thread frees returns to the pool it is from. */

#define HUGE_PAGE ((size_t)2 << 20)
/* Maximum number of threads with pools; the others use malloc. */
#define MAX_THREADS 64

struct pool {
    void *free;               /* the slot freed last; each free slot begins with the address of the next */
    uint32_t free_count;
    _Atomic(void *) returned; /* slots that other threads have freed, linked in the same way */
};

struct thread {
    struct pool pools[POOLS];
    struct stingy_counts counts;
};

static struct thread threads[MAX_THREADS];
static atomic_uint thread_count;
static _Thread_local struct thread *own;
static _Thread_local int has_none;
static once_flag started = ONCE_FLAG_INIT;
static char *slabs;           /* of all threads, slab_stride apart */
static size_t slab_stride;
static uint32_t capacity;     /* slots in each pool: the requests whose memory fits the budget */

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
    /* A slab is in huge pages, so that it is contiguous in physical memory and maps one-to-one onto the L2 cache. */
    slab_stride = (capacity * request_bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *at = mmap(NULL, MAX_THREADS * slab_stride + HUGE_PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        fail("no memory for the slabs");
    slabs = (char *)(((uintptr_t)at + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE);
}

/* The pools of this thread; NULL if MAX_THREADS others have some. */
static struct thread *self(void)
{
    if (own || has_none)
        return own;
    call_once(&started, start);
    unsigned index = atomic_fetch_add(&thread_count, 1);
    if (index >= MAX_THREADS) {
        atomic_fetch_sub(&thread_count, 1);
        has_none = 1;
        return NULL;
    }
    own = &threads[index];
    char *at = slabs + index * slab_stride;
#ifdef MADV_HUGEPAGE
    madvise(at, slab_stride, MADV_HUGEPAGE);
#endif
    for (int i = 0; i < POOLS; i++) {
        for (uint32_t slot = capacity; slot-- > 0;) {
            void *memory = at + slot * pool_slot_bytes[i];
            *(void **)memory = own->pools[i].free;
            own->pools[i].free = memory;
        }
        own->pools[i].free_count = capacity;
        at += capacity * pool_slot_bytes[i];
    }
    return own;
}

/* Takes back the slots that other threads have freed. */
static void take_returned(struct pool *pool)
{
    void *memory = atomic_exchange_explicit(&pool->returned, NULL, memory_order_acquire);
    while (memory) {
        void *next = *(void **)memory;
        *(void **)memory = pool->free;
        pool->free = memory;
        pool->free_count++;
        memory = next;
    }
}

void *stingy_alloc(enum stingy_object object)
{
    struct thread *thread = self();
    if (!thread)
        return spill_alloc(object_bytes[object]);
    struct pool *pool = &thread->pools[object_pool[object]];
    thread->counts.allocations++;
    if (!pool->free && atomic_load_explicit(&pool->returned, memory_order_relaxed))
        take_returned(pool);
    void *memory = pool->free;
    if (memory) {
        pool->free = *(void **)memory;
        pool->free_count--;
        return memory;
    }
    thread->counts.spilled++;
    return spill_alloc(object_bytes[object]);
}

void *stingy_zalloc(enum stingy_object object)
{
    void *memory = stingy_alloc(object);
    return memory ? memset(memory, 0, object_bytes[object]) : NULL;
}

void stingy_free(enum stingy_object object, void *memory)
{
    uintptr_t offset = (uintptr_t)memory - (uintptr_t)slabs;
    if (!slabs || offset >= MAX_THREADS * slab_stride) {
        spill_free(memory);
        return;
    }
    struct thread *owner = &threads[offset / slab_stride];
    struct pool *pool = &owner->pools[object_pool[object]];
    if (owner == own) {
        *(void **)memory = pool->free;
        pool->free = memory;
        pool->free_count++;
        return;
    }
    void *first = atomic_load_explicit(&pool->returned, memory_order_relaxed);
    do
        *(void **)memory = first;
    while (!atomic_compare_exchange_weak_explicit(&pool->returned, &first, memory, memory_order_release,
                                                  memory_order_relaxed));
}

size_t stingy_size(enum stingy_object object, void *memory)
{
    uintptr_t offset = (uintptr_t)memory - (uintptr_t)slabs;
    return slabs && offset < MAX_THREADS * slab_stride ? object_bytes[object] : malloc_usable_size(memory);
}

struct stingy_counts stingy_counts(void)
{
    struct thread *thread = self();
    return thread ? thread->counts : (struct stingy_counts){ 0 };
}

/* The scheduler, which belongs to one thread. A queued request is a node in the list of its stage. */

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
    struct thread *thread = self();
    size_t room = STINGY_MAX_REQUESTS - queued;
    for (const unsigned char *pool = stage_pools[stage]; thread && *pool != POOLS; pool++)
        if (thread->pools[*pool].free_count < room)
            room = thread->pools[*pool].free_count;
    /* Requests that wait for I/O occupy memory. Exceed the budget rather than idle. */
    if (room == 0 && stage == STINGY_STAGE_entry && queued < capacity / 4)
        room = capacity / 4 - queued;
    return room;
}

int stingy_events(int events)
{
    call_once(&started, start);
    return (uint32_t)events < capacity ? events : (int)capacity;
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
    if (own) {
        own->counts.batches++;
        own->counts.executed += batch;
    }
    return batch;
}
