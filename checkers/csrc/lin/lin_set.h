/* Sets of configurations, kept as antichains.
 *
 * A configuration says what a partial linearization has done: the register's value, and bits of two
 * sorts. `done` bits (the first `n_done` words): a pending ok operation owes nothing any more.
 * `used` bits (the rest): an operation has been spent and cannot be applied again. With equal
 * values, a configuration that has done no less and used no more can do whatever the other can, so
 * a set keeps only those that no member beats.
 *
 * Entry i is `stride` words at `words + i * stride`: value and list link, then the bits.
 */
#ifndef DSTEST_LIN_SET_H
#define DSTEST_LIN_SET_H

#include "common/core_memory.h"

#define LIN_DEAD UINT32_MAX
#define LIN_END UINT32_MAX

struct lin_set {
    struct core_array words; /* uint64 */
    struct core_array heads; /* uint32 by value: first entry, LIN_END = none */
    uint32_t n;              /* entries, dead ones included */
    uint32_t n_values;
    uint32_t stride;
    uint32_t n_done;
    uint32_t width; /* most members per value, cheapest first; 0 = all */
    int by_done;    /* `width` counts those with the same done bits, too */
    int pruned;     /* a configuration was left out because of `width` */
};

static inline uint64_t *lin_set_at(const struct lin_set *set, uint32_t i)
{
    return (uint64_t *)set->words.p + (size_t)i * set->stride;
}

static inline uint32_t lin_value_of(const uint64_t *config)
{
    return (uint32_t)config[0];
}

static inline void lin_set_value(uint64_t *config, uint32_t value)
{
    config[0] = (config[0] & ~(uint64_t)UINT32_MAX) | value;
}

static inline int lin_bit(const uint64_t *bits, uint32_t i)
{
    return (int)(bits[i / 64] >> (i % 64) & 1);
}

static inline void lin_raise(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void lin_lower(uint64_t *bits, uint32_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

void lin_set_init(struct lin_set *set);
void lin_set_free(struct lin_set *set, struct core_memory *memory);

/* Empties the set and gives it this shape. 0, or -1 where memory is short. */
int lin_set_shape(struct lin_set *set, struct core_memory *memory, uint32_t n_values,
                  uint32_t stride, uint32_t n_done);
void lin_set_clear(struct lin_set *set);

/* Adds a configuration unless a member beats it, and drops the members that it beats. Adds the
 * number of comparisons to `work`. 0, or -1 where memory is short. */
int lin_set_add(struct lin_set *set, struct core_memory *memory, const uint64_t *config,
                int64_t *work);

#endif
