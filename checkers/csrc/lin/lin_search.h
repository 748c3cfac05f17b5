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
    struct core_array points;    /* lin_point: to go back to */
    struct core_array kept;      /* uint64: their configurations */
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

/* What a search knew after some completions. */
struct lin_point {
    int64_t completions;
    size_t at;     /* in `kept`: its first configuration */
    int32_t event; /* the next one */
    uint32_t n;    /* configurations */
};

/* How to guess: which configurations are kept, how many, and what it may cost. */
struct lin_manner {
    int focused;
    int by_done;
    uint32_t width;
    int64_t work;
};

/* lin_guess.c: one attempt that keeps few configurations and goes back where none is left, to keep
 * more from there on. LIN_OK where one survives all completions; CORE_GAVE_UP tells nothing. */
int lin_guess(struct lin_search *s, const struct lin_manner *manner, int64_t *completions);

/* lin_search.c: sizes everything for the planned key and starts with one configuration. */
int lin_prepare(struct lin_search *s);
/* The next event. */
int lin_event(struct lin_search *s, int32_t event);
/* Operations are pending as before this event; configurations stay. */
void lin_pend(struct lin_search *s, int32_t event);
void lin_set_width(struct lin_search *s, uint32_t width, int by_done);

/* lin_decide.c */
int lin_decide(struct lin_search *s, const struct lin_output *out, int64_t key, int64_t first);

#endif
