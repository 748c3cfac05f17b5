#define _GNU_SOURCE

#include "core_memory.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* From here on a block gets pages of its own, huge ones where the kernel has them: first touches
 * of small pages cost more than the algorithms do. */
#ifndef MAPPED_MIN
#define MAPPED_MIN ((size_t)4 << 20)
#endif

void core_advise(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)p;
    uintptr_t from = (at + page - 1) / page * page, to = (at + bytes) / page * page;
    if (p != NULL && bytes >= MAPPED_MIN && to > from) {
        madvise((void *)from, to - from, MADV_HUGEPAGE);
    }
#else
    (void)p;
    (void)bytes;
#endif
}

static void *mapped(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    /* to the end of its last page, since mremap moves pages of one kind only */
    madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

void core_drop(void *p, size_t bytes)
{
    if (bytes < MAPPED_MIN) {
        free(p);
    } else if (p != NULL) {
        munmap(p, bytes);
    }
}

static void *core_move(void *p, size_t held, size_t bytes)
{
    if (held < MAPPED_MIN && bytes < MAPPED_MIN) {
        return realloc(p, bytes);
    }
#ifdef MREMAP_MAYMOVE
    if (held >= MAPPED_MIN && bytes >= MAPPED_MIN) {
        void *moved = mremap(p, held, bytes, MREMAP_MAYMOVE);
        if (moved != MAP_FAILED) {
            return moved;
        }
    }
#endif
    void *q = bytes < MAPPED_MIN ? malloc(bytes) : mapped(bytes);
    if (q != NULL && p != NULL) {
        memcpy(q, p, held < bytes ? held : bytes);
        core_drop(p, held);
    }
    return q;
}

void *core_resize(struct core_memory *memory, void *p, size_t held, size_t bytes)
{
    /* what is not mapped may be held in both copies for a moment, so both count */
    int moves = held >= MAPPED_MIN && bytes >= held;
    size_t more = moves ? bytes - held : bytes;
    if (core_charge(memory, more) != 0) {
        return NULL;
    }
    void *q = core_move(p, held, bytes);
    core_refund(memory, q == NULL ? more : moves ? 0 : held);
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
    core_drop(array->p, array->cap * array->size);
    core_refund(memory, array->cap * array->size);
    array->p = NULL;
    array->cap = 0;
}

void *core_block(struct core_memory *memory, size_t bytes)
{
    if (core_charge(memory, bytes) != 0) {
        return NULL;
    }
    void *p = bytes < MAPPED_MIN ? calloc(1, bytes) : mapped(bytes);
    if (p == NULL) {
        core_refund(memory, bytes);
    }
    return p;
}

void core_block_free(struct core_memory *memory, void *p, size_t bytes)
{
    core_drop(p, bytes);
    core_refund(memory, bytes);
}
