#include "lin_set.h"

#include <string.h>

#define HEADS(set) ((uint32_t *)(set)->heads.p)

void lin_set_init(struct lin_set *set)
{
    *set = (struct lin_set){
        .words = {.size = sizeof(uint64_t)},
        .heads = {.size = sizeof(uint32_t)},
    };
}

void lin_set_free(struct lin_set *set, struct core_memory *memory)
{
    core_release(memory, &set->words);
    core_release(memory, &set->heads);
}

int lin_set_shape(struct lin_set *set, struct core_memory *memory, uint32_t n_values,
                  uint32_t stride, uint32_t n_done)
{
    if (core_reserve(memory, &set->heads, n_values) != 0) {
        return -1;
    }
    memset(set->heads.p, 0xff, n_values * sizeof(uint32_t));
    set->n = 0;
    set->n_values = n_values;
    set->stride = stride;
    set->n_done = n_done;
    set->pruned = 0;
    return 0;
}

void lin_set_clear(struct lin_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) {
        uint32_t value = lin_value_of(lin_set_at(set, i));
        if (value != LIN_DEAD) {
            HEADS(set)[value] = LIN_END;
        }
    }
    set->n = 0;
}

/* Has x done no less and used no more than y? */
static inline int beats(const struct lin_set *set, const uint64_t *x, const uint64_t *y)
{
    uint32_t w = 1;
    for (; w <= set->n_done; w++) {
        if (y[w] & ~x[w]) {
            return 0;
        }
    }
    for (; w < set->stride; w++) {
        if (x[w] & ~y[w]) {
            return 0;
        }
    }
    return 1;
}

/* Operations spent: what a set of limited width prefers to keep small. */
static int cost(const struct lin_set *set, const uint64_t *config)
{
    int spent = 0;
    for (uint32_t w = set->n_done + 1; w < set->stride; w++) {
        spent += __builtin_popcountll(config[w]);
    }
    return spent;
}

/* Does the width of the set count the two together, which have the same value? */
static int rivals(const struct lin_set *set, const uint64_t *x, const uint64_t *y)
{
    return !set->by_done || memcmp(x + 1, y + 1, set->n_done * sizeof *x) == 0;
}

/* Takes entry i, which follows `before` in its list, out of the set. */
static void unlink_entry(struct lin_set *set, uint32_t value, uint32_t before, uint32_t i)
{
    uint64_t *e = lin_set_at(set, i);
    uint32_t next = (uint32_t)(e[0] >> 32);
    if (before == LIN_END) {
        HEADS(set)[value] = next;
    } else {
        uint64_t *b = lin_set_at(set, before);
        b[0] = (b[0] & UINT32_MAX) | (uint64_t)next << 32;
    }
    lin_set_value(e, LIN_DEAD);
}

/* Makes room for config in a full list by dropping the dearest member. Returns whether config may enter. */
static int displace(struct lin_set *set, const uint64_t *config)
{
    uint32_t value = lin_value_of(config);
    uint32_t dearest = LIN_END, before_dearest = LIN_END, before = LIN_END;
    int most = cost(set, config);
    for (uint32_t i = HEADS(set)[value]; i != LIN_END;) {
        const uint64_t *e = lin_set_at(set, i);
        int spent = cost(set, e);
        if (spent > most && rivals(set, e, config)) {
            most = spent;
            dearest = i;
            before_dearest = before;
        }
        before = i;
        i = (uint32_t)(e[0] >> 32);
    }
    set->pruned = 1;
    if (dearest == LIN_END) {
        return 0;
    }
    unlink_entry(set, value, before_dearest, dearest);
    return 1;
}

int lin_set_add(struct lin_set *set, struct core_memory *memory, const uint64_t *config,
                int64_t *work)
{
    uint32_t value = lin_value_of(config);
    uint32_t before = LIN_END, members = 0;
    for (uint32_t i = HEADS(set)[value]; i != LIN_END;) {
        const uint64_t *e = lin_set_at(set, i);
        uint32_t next = (uint32_t)(e[0] >> 32);
        ++*work;
        if (beats(set, e, config)) {
            return 0;
        }
        if (beats(set, config, e)) {
            unlink_entry(set, value, before, i);
        } else {
            before = i;
            members += set->width != 0 && rivals(set, e, config);
        }
        i = next;
    }
    if (set->width != 0 && members >= set->width && !displace(set, config)) {
        return 0;
    }
    if (set->n >= UINT32_MAX - 1 ||
        core_reserve(memory, &set->words, ((size_t)set->n + 1) * set->stride) != 0) {
        return -1;
    }
    uint64_t *e = lin_set_at(set, set->n);
    memcpy(e, config, set->stride * sizeof *e);
    e[0] = value | (uint64_t)HEADS(set)[value] << 32;
    HEADS(set)[value] = set->n++;
    return 0;
}
