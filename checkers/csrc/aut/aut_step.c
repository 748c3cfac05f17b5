#include "aut_step.h"

#include <string.h>

#define TABLE(steps) ((struct aut_known *)(steps)->table.p)

void aut_steps_init(struct aut_steps *steps, const struct aut_input *in)
{
    *steps = (struct aut_steps){
        .in = in,
        .table = {.size = sizeof(struct aut_known)},
        .pool = {.size = sizeof(int64_t)},
    };
}

void aut_steps_free(struct aut_steps *steps, struct core_memory *memory)
{
    core_release(memory, &steps->table);
    core_release(memory, &steps->pool);
}

static size_t hash_of(int64_t state, int32_t op_class)
{
    uint64_t h = (uint64_t)state * UINT64_C(0x9e3779b97f4a7c15) + (uint32_t)op_class;
    h ^= h >> 29;
    h *= UINT64_C(0xbf58476d1ce4e5b9);
    return (size_t)(h ^ h >> 32);
}

static struct aut_known *find(struct aut_steps *steps, int64_t state, int32_t class)
{
    size_t mask = steps->n_slots - 1, i = hash_of(state, class) & mask;
    while (TABLE(steps)[i].count >= 0 &&
           (TABLE(steps)[i].state != state || TABLE(steps)[i].class != class)) {
        i = (i + 1) & mask;
    }
    return &TABLE(steps)[i];
}

static int widen(struct aut_steps *steps, struct core_memory *memory)
{
    struct core_array before = steps->table;
    size_t old = steps->n_slots;
    size_t slots = old == 0 ? 256 : 2 * old;
    struct core_array fresh = {.size = sizeof(struct aut_known)};
    if (core_reserve(memory, &fresh, slots) != 0) {
        return -1;
    }
    for (size_t i = 0; i < slots; i++) {
        ((struct aut_known *)fresh.p)[i].count = -1;
    }
    steps->table = fresh;
    steps->n_slots = slots;
    for (size_t i = 0; i < old; i++) {
        const struct aut_known *known = (struct aut_known *)before.p + i;
        if (known->count >= 0) {
            *find(steps, known->state, known->class) = *known;
        }
    }
    core_release(memory, &before);
    return 0;
}

static int compute(struct aut_steps *steps, int64_t state, int32_t class, const int64_t **to)
{
    const struct aut_input *in = steps->in;
    int64_t after;
    if (state < in->lo[class] || state > in->hi[class] ||
        __builtin_add_overflow(state, in->delta[class], &after)) {
        return 0;
    }
    steps->buffer[0] = after;
    *to = steps->buffer;
    return 1;
}

int aut_step(struct aut_steps *steps, struct core_memory *memory, int64_t state, int32_t class,
             const int64_t **to)
{
    if (steps->in->ask == NULL) {
        return compute(steps, state, class, to);
    }
    if (2 * steps->n >= steps->n_slots && widen(steps, memory) != 0) {
        return -LIN_MEMORY;
    }
    struct aut_known *known = find(steps, state, class);
    if (known->count < 0) {
        int count = steps->in->ask(steps->in->context, state, class, steps->buffer, AUT_TARGETS);
        if (count < 0 || count > AUT_TARGETS) {
            return -AUT_RAISED;
        }
        int64_t where = count == 1 ? steps->buffer[0] : (int64_t)steps->n_pool;
        if (count > 1) {
            if (core_reserve(memory, &steps->pool, steps->n_pool + (size_t)count) != 0) {
                return -LIN_MEMORY;
            }
            memcpy((int64_t *)steps->pool.p + steps->n_pool, steps->buffer,
                   (size_t)count * sizeof(int64_t));
            steps->n_pool += (size_t)count;
        }
        *known = (struct aut_known){state, class, count, where};
        steps->n++;
    }
    *to = known->count > 1 ? (int64_t *)steps->pool.p + known->to : &known->to;
    return known->count;
}
