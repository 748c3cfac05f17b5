#define _GNU_SOURCE

#include "core_memory.h"

#include <stdlib.h>
#include <sys/mman.h>

/* From here on a block gets pages of its own, huge ones where the kernel has them: first touches
 * of small pages cost more than the algorithms do. */
static const size_t MAP_FROM = 4u << 20;

void *core_resize(struct core_memory *memory, void *p, size_t held, size_t bytes)
{
    /* realloc may hold both copies for a moment, so both count */
    if (core_charge(memory, bytes) != 0) {
        return NULL;
    }
    void *q = realloc(p, bytes);
    core_refund(memory, q == NULL ? bytes : held);
    return q;
}

int core_grow(struct core_memory *memory, struct core_array *array, size_t need)
{
    size_t cap = array->cap < 16 ? 16 : array->cap + array->cap / 2;
    if (cap < need) {
        cap = need;
    }
    if (cap > SIZE_MAX / array->size) {
        return -1;
    }
    void *p = core_resize(memory, array->p, array->cap * array->size, cap * array->size);
    if (p == NULL) {
        return -1;
    }
    array->p = p;
    array->cap = cap;
    return 0;
}

void core_release(struct core_memory *memory, struct core_array *array)
{
    free(array->p);
    core_refund(memory, array->cap * array->size);
    array->p = NULL;
    array->cap = 0;
}

static void *mapped(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

void *core_block(struct core_memory *memory, size_t bytes)
{
    if (core_charge(memory, bytes) != 0) {
        return NULL;
    }
    void *p = bytes < MAP_FROM ? calloc(1, bytes) : mapped(bytes);
    if (p == NULL) {
        core_refund(memory, bytes);
    }
    return p;
}

void core_block_free(struct core_memory *memory, void *p, size_t bytes)
{
    if (bytes < MAP_FROM) {
        free(p);
    } else {
        munmap(p, bytes);
    }
    core_refund(memory, bytes);
}
