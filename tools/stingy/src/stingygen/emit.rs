//! The text of the generated files.

use std::fmt::{self, Write};

use super::names;
use super::pools::Pool;
use crate::c::source::GENERATED;
use crate::memwalk::config::Spill;
use crate::model::Analysis;

/// The functions that depend on no table.
const RUNTIME: &str = include_str!("runtime.c");

/// The C library's function for the size of memory.
const USABLE_SIZE: &str = "malloc_usable_size";

/// The limits of the allocator and the scheduler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Size of the L2 cache if a machine does not state it.
    pub(crate) l2_bytes: u64,
    /// The part of the L2 cache for the memory of requests.
    pub(crate) budget_percent: u8,
    pub(crate) max_requests: u32,
}

/// The header.
pub(crate) fn header(
    analysis: &Analysis,
    pools: &[Pool],
    limits: Limits,
) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let program = analysis.program.display();
    write!(out, "\
/* Memory and stages of requests of {program}. {GENERATED} */
#ifndef STINGY_H
#define STINGY_H

#include <stddef.h>
#include <stdint.h>

/* Size in bytes of the L2 cache if the machine does not state it. The environment variable STINGY_L2 has precedence. */
#define STINGY_L2_BYTES ((size_t){})
/* The part of the L2 cache for the memory of requests. The rest is for stack, static variables and code. */
#define STINGY_BUDGET_PERCENT {}
/* Minimum number of requests for which each pool has memory, whatever the L2 cache. */
#define STINGY_MIN_REQUESTS 4
/* Maximum number of queued requests. */
#define STINGY_MAX_REQUESTS ((uint32_t){})

enum stingy_object {{
", limits.l2_bytes, limits.budget_percent, limits.max_requests)?;
    for name in pools.iter().flat_map(|pool| &pool.objects) {
        writeln!(out, "    {},", names::object(name))?;
    }
    out.push_str(
        "    STINGY_OBJECTS\n};\n\n/* In the order of a request. */\nenum stingy_stage {\n",
    );
    for stage in &analysis.stages {
        writeln!(out, "    {},", names::stage(&stage.name))?;
    }
    out.push_str("    STINGY_STAGES\n};\n");
    out.push_str(FUNCTIONS);
    Ok(out)
}

const FUNCTIONS: &str = "
/* Returns uninitialized memory from the pool of the object, or from malloc if the pool is empty; NULL if that fails. */
void *stingy_alloc(enum stingy_object object);
/* The same, initialized with zeros. */
void *stingy_zalloc(enum stingy_object object);
/* The same for `count` elements of `bytes` each. If these are larger than the object, malloc returns the memory. */
void *stingy_alloc_sized(enum stingy_object object, size_t count, size_t bytes);
void *stingy_zalloc_sized(enum stingy_object object, size_t count, size_t bytes);
/* Frees memory of these functions or malloc, also of another thread or object. NULL is permitted. Aborts if the address
   is within a pool, but not that of a slot. */
void stingy_free(enum stingy_object object, void *memory);

/* The number of requests for which the memory that the stage allocates is available. For the entry: the number of
   requests to accept. */
size_t stingy_room(enum stingy_stage stage);
/* Queues a request, which must not be queued already. */
void stingy_queue(enum stingy_stage stage, void *request);
/* Elects a stage and executes it for a batch of its requests. Returns their number, 0 if nothing is queued.
   Stages whose requests wait for more than 10 ms come first, the oldest before, then those at which all memory is in
   use, and last those without memory for another request. Among the others, early stages precede. */
size_t stingy_run(void (*execute)(enum stingy_stage, void *request));
/* The number of queued requests. */
size_t stingy_queued(void);
/* The time to wait for events: 0 if requests are queued, otherwise `timeout`. */
int stingy_timeout(int timeout);

/* The size of memory that stingy_free accepts. */
size_t stingy_size(enum stingy_object object, void *memory);

/* The number of events to wait for: at most `events`, and at most the requests whose memory fits the budget. */
int stingy_events(int events);

struct stingy_counts {
    uint64_t allocations;
    uint64_t spilled; /* allocations for which the pool was empty */
    uint64_t batches;
    uint64_t executed; /* requests in all batches */
};
/* The counts of this thread. */
struct stingy_counts stingy_counts(void);

#endif
";

/// The implementation.
pub(crate) fn source(analysis: &Analysis, pools: &[Pool]) -> Result<String, fmt::Error> {
    let mut out = String::new();
    let program = analysis.program.display();
    write!(
        out,
        "\
/* Memory and stages of requests of {program}. {GENERATED} */
#define _DEFAULT_SOURCE
#include \"stingy.h\"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <threads.h>
#include <time.h>

#define POOLS {}

/* Objects of one pool are never live in the same stage of a request. */
static const size_t pool_slot_bytes[POOLS] = {{
",
        pools.len()
    )?;
    for pool in pools {
        writeln!(out, "    {}, /* {} */", pool.slot_bytes, pool.objects.join(", "))?;
    }
    out.push_str("};\n\nstatic const unsigned char object_pool[STINGY_OBJECTS] = {\n");
    for (i, pool) in pools.iter().enumerate() {
        for name in &pool.objects {
            writeln!(out, "    [{}] = {i},", names::object(name))?;
        }
    }
    out.push_str("};\n\nstatic const size_t object_bytes[STINGY_OBJECTS] = {\n");
    for name in pools.iter().flat_map(|pool| &pool.objects) {
        let object = analysis.objects.iter().find(|object| object.name == *name);
        let bytes = object.and_then(|object| object.bytes).unwrap_or(0);
        writeln!(out, "    [{}] = {bytes},", names::object(name))?;
    }
    out.push_str("};\n\n/* The pools from which a stage allocates; POOLS ends each list. */\n");
    out.push_str("static const unsigned char *const stage_pools[STINGY_STAGES] = {\n");
    for stage in &analysis.stages {
        write!(out, "    [{}] = (const unsigned char[]){{ ", names::stage(&stage.name))?;
        let allocates =
            |pool: &Pool| stage.allocates.iter().any(|name| pool.objects.contains(name));
        for (i, _) in pools.iter().enumerate().filter(|(_, pool)| allocates(pool)) {
            write!(out, "{i}, ")?;
        }
        out.push_str("POOLS },\n");
    }
    out.push_str("};\n\n/* Allocates if a pool is empty. */\n");
    match &analysis.spill {
        Some(Spill { allocate, free, size, usable }) => {
            let usable = usable.as_ref().or(size.as_ref()).map_or(USABLE_SIZE, String::as_str);
            write!(
                out,
                "void *{allocate}(size_t bytes);\nvoid {free}(void *memory);\nsize_t {usable}(void *memory);\n\
                 #define spill_alloc {allocate}\n#define spill_free {free}\n#define spill_size {usable}\n\n"
            )?;
        }
        None => write!(
            out,
            "#define spill_alloc malloc\n#define spill_free free\n#define spill_size {USABLE_SIZE}\n\n"
        )?,
    }
    out.push_str(RUNTIME);
    Ok(out)
}
