/* Frees that are unusual, threads that end, and stages that queue their requests again. */
#include "stingy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

static int is_finished;

static void execute(enum stingy_stage stage, void *request)
{
    if (stage == STINGY_STAGE_fill_body)
        stingy_queue(stage, request);
    else
        is_finished = 1;
}

static int use(void *argument)
{
    stingy_free(STINGY_path, stingy_alloc(STINGY_path));
    *(size_t *)argument += stingy_counts().spilled;
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "pool") == 0) {
        /* The slot returns to its own pool. */
        void *memory = stingy_alloc(STINGY_tux_req);
        stingy_free(STINGY_path, memory);
        return stingy_alloc(STINGY_path) == memory || stingy_alloc(STINGY_tux_req) != memory;
    }
    if (strcmp(what, "inside") == 0)
        stingy_free(STINGY_abuf, (char *)stingy_alloc(STINGY_abuf) + 8);
    if (strcmp(what, "threads") == 0) {
        size_t spilled = 0;
        for (int i = 0; i < 200; i++) {
            thrd_t thread;
            thrd_create(&thread, use, &spilled);
            thrd_join(thread, NULL);
        }
        /* A thread without pools counts nothing. */
        struct stingy_counts counts = stingy_counts();
        stingy_free(STINGY_path, stingy_alloc(STINGY_path));
        return spilled > 0 || stingy_counts().allocations != counts.allocations + 1;
    }
    if (strcmp(what, "patience") == 0) {
        int request;
        stingy_queue(STINGY_STAGE_fill_body, &request);
        stingy_queue(STINGY_STAGE_send_response, &request);
        for (unsigned long i = 0; i < 1ul << 32 && !is_finished; i++)
            stingy_run(execute);
        return !is_finished || stingy_queued() != 1 || stingy_timeout(-1) != 0;
    }
    return 2;
}
