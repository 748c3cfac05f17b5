/* Memory that is charged to a budget: arrays that grow, and zeroed blocks. */
#ifndef DSTEST_CORE_MEMORY_H
#define DSTEST_CORE_MEMORY_H

#include "core_budget.h"

/* An array of `cap` elements of `size` bytes at `p`. Grow with core_reserve, never by hand. */
struct core_array {
    void *p;
    size_t cap;
    size_t size;
};

int core_grow(struct core_memory *memory, struct core_array *array, size_t need);
void core_release(struct core_memory *memory, struct core_array *array);

/* Makes room for `need` elements; contents stay. 0, or -1 where budget or allocator say no. */
static inline int core_reserve(struct core_memory *memory, struct core_array *array, size_t need)
{
    return need <= array->cap ? 0 : core_grow(memory, array, need);
}

/* `p` with `bytes` in place of `held`, or NULL; contents stay. Large ones have pages of their own
 * and move without being copied; of others both count until the old ones are gone. */
void *core_resize(struct core_memory *memory, void *p, size_t held, size_t bytes);
/* Gives them back, without a refund. */
void core_drop(void *p, size_t bytes);

/* Asks for huge pages for a large block of malloc's that is not yet written; else does nothing. */
void core_advise(void *p, size_t bytes);

/* Zeroed memory, or NULL. Large blocks have pages of their own. */
void *core_block(struct core_memory *memory, size_t bytes);
void core_block_free(struct core_memory *memory, void *p, size_t bytes);

#endif
