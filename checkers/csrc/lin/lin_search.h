/* The state of a search; shared by the files of the search only. */
#ifndef DSTEST_LIN_SEARCH_H
#define DSTEST_LIN_SEARCH_H

#include "lin.h"
#include "lin_plan.h"
#include "lin_set.h"

/* Bit of `used` that marks a transient configuration; smaller is better, like the others. */
#define LIN_TRANSIENT 0u

struct lin_search {
    struct core_budget budget;
    struct lin_plan plan;
    struct lin_set now;          /* configurations after the last completion */
    struct lin_set next;         /* after this one */
    struct lin_set open;         /* to be extended */
    struct core_array buffers;   /* uint64: two configurations */
    struct core_array pending;   /* int32: writers, observers, swappers */
    struct core_array marks;     /* int32 by value: epoch needed, epoch written; then the queue */
    struct core_array write_set; /* uint64: done bits of pending ok writes */
    uint64_t *config;            /* the configuration at hand */
    uint64_t *extension;         /* its extension */
    int32_t *writers;            /* pending ok writes, soonest completion first */
    int32_t *observers;
    int32_t *swappers;
    int32_t n_writers, n_observers, n_swappers;
    int32_t *needed, *written, *queue;
    int32_t n_queue;
    int32_t epoch;
    uint32_t n_done;
    uint32_t stride;
    int32_t completing; /* the operation that completes */
    int reusable;       /* unknown operations are not spent by use: allows too much */
    int focused;        /* only what leads to X is extended by: finds too little */
    int32_t reach;      /* focused: values looked at on the way to X's */
};

static inline uint64_t *lin_done(uint64_t *config)
{
    return config + 1;
}

static inline uint64_t *lin_used(const struct lin_search *s, uint64_t *config)
{
    return config + 1 + s->n_done;
}

/* Raised for a writer that took effect visibly and for a swapper; observers spend nothing. */
static inline uint32_t lin_used_bit(const struct lin_op *op)
{
    return 1 + (uint32_t)op->slot;
}

/* lin_extend.c */
int lin_keep(struct lin_search *s, uint64_t *config);
int lin_put(struct lin_search *s, uint64_t *config);
int lin_extend_all(struct lin_search *s);

/* lin_search.c */
int lin_decide(struct lin_search *s, const struct lin_output *out, int64_t key, int64_t first);

#endif
