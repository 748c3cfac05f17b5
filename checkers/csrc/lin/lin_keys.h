/* One call over the keys of a history: the same for registers and automata. */
#ifndef DSTEST_LIN_KEYS_H
#define DSTEST_LIN_KEYS_H

#include "lin.h"

/* Decides the operations [first, last) of one key. A verdict; LIN_INVALID and above end the call. */
typedef int (*lin_decide_key)(void *search, int64_t key, int64_t first, int64_t last);

struct lin_keys {
    const int64_t *offsets; /* n_keys + 1 positions; read twice, and checked twice */
    int64_t n_keys, n_ops;
    uint8_t *verdict; /* one element per key, as in lin_output */
    int64_t *bad, *prefix, *steps;
    lin_decide_key decide;
    void *search;
    struct core_budget *budget;
};

/* Do the offsets rise from 0 to the number of operations? LIN_OK, or LIN_INVALID. */
int lin_check_offsets(const int64_t *offsets, int64_t n_keys, int64_t n_ops,
                      struct lin_report *report);

/* The verdict of the last key that was decided. */
int lin_each_key(const struct lin_keys *keys, struct lin_report *report);

/* LIN_INVALID, with the reason. */
int lin_refuse(struct lin_report *report, const char *why, int64_t where);

#endif
