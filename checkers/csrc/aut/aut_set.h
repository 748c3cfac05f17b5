/* Sets of configurations of an automaton, kept as antichains.
 *
 * A configuration is a state and three sorts of bits: `done` bits of pending operations that may
 * change states, `seen` bits of pending operations that never do, and `used` bits of operations of
 * unknown outcome. Two configurations with the same state and the same done bits differ only in
 * how much they owe and how much they have spent: one that has seen no less and used no more can do
 * whatever the other can, so a set keeps only those that no member beats.
 *
 * Entry i is `stride` words at `words + i * stride`: state, list link, done, seen, used.
 */
#ifndef DSTEST_AUT_SET_H
#define DSTEST_AUT_SET_H

#include "common/core_memory.h"

#define AUT_END UINT32_MAX
#define AUT_DEAD (UINT64_C(1) << 63)

struct aut_shape {
    uint32_t n_done, n_seen, n_used; /* words */
    uint32_t stride;
};

struct aut_slot {
    uint32_t epoch; /* in use if it is the set's */
    uint32_t head;
};

struct aut_set {
    struct core_array words; /* uint64 */
    struct core_array table; /* aut_slot; a power of two */
    struct aut_shape shape;
    uint32_t n;      /* entries, dead ones included */
    uint32_t groups; /* of equal state and done bits */
    uint32_t epoch;
    uint32_t width; /* most entries; 0 = all */
    int pruned;     /* a configuration was left out because of `width` */
};

static inline uint64_t *aut_at(const struct aut_set *set, uint32_t i)
{
    return (uint64_t *)set->words.p + (size_t)i * set->shape.stride;
}

static inline int aut_dead(const uint64_t *config)
{
    return (config[1] & AUT_DEAD) != 0;
}

static inline uint64_t *aut_done(uint64_t *config)
{
    return config + 2;
}

static inline uint64_t *aut_seen(const struct aut_shape *shape, uint64_t *config)
{
    return config + 2 + shape->n_done;
}

static inline uint64_t *aut_used(const struct aut_shape *shape, uint64_t *config)
{
    return config + 2 + shape->n_done + shape->n_seen;
}

void aut_set_init(struct aut_set *set);
void aut_set_free(struct aut_set *set, struct core_memory *memory);

/* Empties the set and gives it this shape. 0, or -1 where memory is short. */
int aut_set_shape(struct aut_set *set, struct core_memory *memory, const struct aut_shape *shape);
void aut_set_clear(struct aut_set *set);

/* Adds a configuration unless a member beats it, and drops the members that it beats. Adds the
 * number of comparisons to `work`. 0, or -1 where memory is short. */
int aut_set_add(struct aut_set *set, struct core_memory *memory, const uint64_t *config,
                int64_t *work);

#endif
