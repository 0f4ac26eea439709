/* The allocator. Each thread has pools of its own. Memory that another thread frees returns to the pool it is from. */

#define HUGE_PAGE ((size_t)2 << 20)
/* Maximum number of threads with pools at a time; the others use malloc. */
#define MAX_THREADS 64
/* Time in milliseconds after which waiting requests precede others. */
#define PATIENCE_MS 10

struct pool {
    void *free;               /* the slot freed last; each free slot begins with the address of the next */
    uint32_t free_count;
    _Atomic(void *) returned; /* slots that other threads have freed, linked in the same way */
};

/* A thread that ends leaves its pools to the next. */
struct thread {
    int is_ready;
    struct pool pools[POOLS];
    struct stingy_counts counts;
};

static struct thread threads[MAX_THREADS];
static _Atomic(uint64_t) used_threads; /* a bit for each */
static tss_t ending;
static _Thread_local struct thread *own;
static once_flag started = ONCE_FLAG_INIT;
static char *slabs;           /* of all threads, slab_stride apart */
static size_t slab_stride;
static size_t pool_start[POOLS]; /* in a slab */
static uint32_t capacity;     /* slots in each pool: the requests whose memory fits the budget */

static void fail(const char *what)
{
    fprintf(stderr, "stingy: %s\n", what);
    abort();
}

/* A size in bytes, or in the unit K or M. */
static size_t size_of(const char *text)
{
    char *end;
    unsigned long long size = strtoull(text, &end, 10);
    int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 0;
    if (end == text || end[shift > 0] || size > (SIZE_MAX >> shift) || size << shift < 4096)
        fail("STINGY_L2 is not a size of 4096 bytes or more, such as 524288, 512K or 1M");
    return (size_t)size << shift;
}

static size_t l2_bytes(void)
{
    const char *given = getenv("STINGY_L2");
    if (given && *given)
        return size_of(given);
    unsigned long kib = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index2/size", "r");
    if (file) {
        if (fscanf(file, "%luK", &kib) != 1)
            kib = 0;
        fclose(file);
    }
    return kib ? (size_t)kib << 10 : STINGY_L2_BYTES;
}

static void end_thread(void *thread)
{
    own = NULL;
    uint64_t bit = (uint64_t)1 << ((struct thread *)thread - threads);
    atomic_fetch_and_explicit(&used_threads, ~bit, memory_order_release);
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
    for (int i = 1; i < POOLS; i++)
        pool_start[i] = pool_start[i - 1] + capacity * pool_slot_bytes[i - 1];
    if (tss_create(&ending, end_thread) != thrd_success)
        fail("no key for the pools of threads");
}

/* The pools of this thread; NULL if MAX_THREADS others have some. */
static struct thread *self(void)
{
    if (own)
        return own;
    call_once(&started, start);
    uint64_t used = atomic_load_explicit(&used_threads, memory_order_relaxed);
    unsigned index;
    do {
        if (used == UINT64_MAX)
            return NULL;
        for (index = 0; used >> index & 1; index++)
            ;
    } while (!atomic_compare_exchange_weak_explicit(&used_threads, &used, used | (uint64_t)1 << index,
                                                    memory_order_acquire, memory_order_relaxed));
    own = &threads[index];
    own->counts = (struct stingy_counts){ 0 };
    if (tss_set(ending, own) != thrd_success)
        fail("no memory for the key of a thread");
    if (own->is_ready)
        return own;
    own->is_ready = 1;
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

static void *spill_sized(size_t bytes)
{
    struct thread *thread = self();
    if (thread) {
        thread->counts.allocations++;
        thread->counts.spilled++;
    }
    return spill_alloc(bytes);
}

void *stingy_alloc_sized(enum stingy_object object, size_t count, size_t bytes)
{
    if (bytes && count > SIZE_MAX / bytes)
        return NULL;
    return count * bytes <= object_bytes[object] ? stingy_alloc(object) : spill_sized(count * bytes);
}

void *stingy_zalloc_sized(enum stingy_object object, size_t count, size_t bytes)
{
    void *memory = stingy_alloc_sized(object, count, bytes);
    return memory ? memset(memory, 0, count * bytes) : NULL;
}

/* The pool of a slot at this offset in a slab. It is that of another object if a structure is freed as the one that it
   begins with. */
static int pool_at(enum stingy_object object, size_t offset)
{
    int pool = object_pool[object];
    if (offset - pool_start[pool] >= capacity * pool_slot_bytes[pool])
        for (pool = POOLS - 1; pool > 0 && offset < pool_start[pool]; pool--)
            ;
    size_t at = offset - pool_start[pool];
    if (at >= capacity * pool_slot_bytes[pool] || at % pool_slot_bytes[pool] != 0)
        fail("freed memory is no slot of a pool");
    return pool;
}

void stingy_free(enum stingy_object object, void *memory)
{
    uintptr_t offset = (uintptr_t)memory - (uintptr_t)slabs;
    if (!slabs || offset >= MAX_THREADS * slab_stride) {
        spill_free(memory);
        return;
    }
    struct thread *owner = &threads[offset / slab_stride];
    struct pool *pool = &owner->pools[pool_at(object, offset % slab_stride)];
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
    if (!slabs || offset >= MAX_THREADS * slab_stride)
        return spill_size(memory);
    int pool = pool_at(object, offset % slab_stride);
    return pool == object_pool[object] ? object_bytes[object] : pool_slot_bytes[pool];
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
    uint64_t since; /* in milliseconds: the stage was executed last, or the queue was empty */
};

static struct node *nodes;
static uint32_t free_node, used_nodes, queued;
static uint64_t now;
static struct queue queues[STINGY_STAGES];

static void read_clock(void)
{
    struct timespec time;
#ifdef CLOCK_MONOTONIC_COARSE
    clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
#else
    clock_gettime(CLOCK_MONOTONIC, &time);
#endif
    now = (uint64_t)time.tv_sec * 1000 + (uint64_t)time.tv_nsec / 1000000;
}

size_t stingy_queued(void)
{
    return queued;
}

int stingy_timeout(int timeout)
{
    return queued ? 0 : timeout;
}

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
    if (queued == 0)
        read_clock();
    if (queue->count++ > 0) {
        nodes[queue->last - 1].next = node;
    } else {
        queue->first = node;
        queue->since = now;
    }
    queue->last = node;
    queued++;
}

/* Elects a stage; STINGY_STAGES if nothing is queued. */
static int elect(void)
{
    int overdue = STINGY_STAGES, full = STINGY_STAGES, early = STINGY_STAGES, late = STINGY_STAGES;
    read_clock();
    for (int stage = 0; stage < STINGY_STAGES; stage++) {
        if (queues[stage].count == 0)
            continue;
        if (now - queues[stage].since > PATIENCE_MS
            && (overdue == STINGY_STAGES || queues[stage].since < queues[overdue].since))
            overdue = stage;
        if (full == STINGY_STAGES && queues[stage].count >= capacity)
            full = stage; /* maximal flow: no more requests can be accumulated */
        if (stingy_room(stage) == 0)
            late = stage;
        else if (early == STINGY_STAGES)
            early = stage;
    }
    if (overdue != STINGY_STAGES)
        return overdue;
    if (full != STINGY_STAGES)
        return full;
    /* Early stages catch up with advanced ones. Of stages without memory the most advanced frees some soonest. */
    return early != STINGY_STAGES ? early : late;
}

size_t stingy_run(void (*execute)(enum stingy_stage, void *request))
{
    int stage = elect();
    if (stage == STINGY_STAGES)
        return 0;
    queues[stage].since = now;
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
