/* The state of a search; shared by the files of the search only. */
#ifndef DSTEST_AUT_SEARCH_H
#define DSTEST_AUT_SEARCH_H

#include "aut.h"
#include "aut_set.h"
#include "aut_step.h"

struct aut_op {
    int32_t class;
    int32_t slot; /* bit while pending; of its sort */
    int32_t pure; /* never changes a state */
    int64_t invoke, complete;
};

/* Operations of unknown outcome of one class are interchangeable from their invocation on. */
struct aut_crashed {
    int32_t class;
    int32_t base;      /* first of its `count` used bits */
    int32_t count;     /* members */
    int32_t available; /* members invoked so far */
};

struct aut_search {
    struct core_budget budget;
    struct aut_steps steps;
    const struct aut_input *in;
    struct aut_set now;         /* configurations after the last completion */
    struct aut_set next;        /* after this one */
    struct aut_set open;        /* to be extended */
    struct core_array ops;      /* aut_op of this key */
    struct core_array crashed;  /* aut_crashed of this key */
    struct core_array of_class; /* int32 by class: its aut_crashed, or -1 */
    struct core_array tried;    /* int64 by class: the configuration that tried it last */
    struct core_array lists;    /* int32: changers, observers, heap, free slots of both sorts */
    struct core_array buffers;  /* uint64: two configurations */
    int32_t n_ops, n_crashed;
    int32_t n_active; /* classes with available members: the first so many */
    int32_t n_done_bits, n_seen_bits, n_used_bits;
    int32_t *changers; /* pending operations that may change states, soonest completion first */
    int32_t *observers;
    int32_t *heap; /* pending operations, soonest completion first */
    int32_t n_changers, n_observers, n_heap;
    struct aut_shape shape;
    uint64_t *config;    /* the configuration at hand */
    uint64_t *extension; /* its extension */
    int32_t completing;  /* the operation that completes */
    int64_t stamp;
};

static inline int aut_bit(const uint64_t *bits, int32_t i)
{
    return (int)(bits[i / 64] >> (i % 64) & 1);
}

static inline void aut_raise(uint64_t *bits, int32_t i)
{
    bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void aut_lower(uint64_t *bits, int32_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

#define AUT_OPS(s) ((struct aut_op *)(s)->ops.p)

/* aut_plan.c: takes over the operations [first, last) of one key. */
int aut_plan(struct aut_search *s, int64_t first, int64_t last, struct lin_report *report);

/* aut_extend.c: X completes. LIN_ILLEGAL where nothing survives; `open` holds all that was tried. */
int aut_complete(struct aut_search *s);

/* aut_search.c */
int aut_decide(struct aut_search *s, const struct aut_output *out, int64_t key, int64_t first);

#endif
