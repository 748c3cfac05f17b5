/* Linearizability of any deterministic or nondeterministic automaton by just-in-time
 * linearization. No Python in here.
 *
 * An operation belongs to a class: what it asked for and what it was told. `step(state, class)`
 * gives the states that the object may be in afterwards, none where the operation is impossible.
 * An operation that completed takes effect once inside its closed interval [invoke, complete]; one
 * with `complete` = LIN_NEVER once after its invocation or never. A history is linearizable when
 * an order exists that respects time and in which each operation that took effect was possible
 * (Herlihy and Wing, TOPLAS 1990).
 *
 * Steps are either asked for, once per (state, class), or computed: with `affine` a state is an
 * integer, and a class adds `delta` to a state between `lo` and `hi`.
 */
#ifndef DSTEST_AUT_H
#define DSTEST_AUT_H

#include "lin/lin.h"

/* A step could not be had: the caller of the library knows why. */
#define AUT_RAISED 7

/* States after `class` in `state`: writes at most `max` of them to `to` and returns how many there
 * are, or -1 where it failed. */
typedef int (*aut_ask)(void *context, int64_t state, int32_t class, int64_t *to, int max);

/* The most states that one step may lead to. */
#define AUT_TARGETS 64

/* Operations of all keys, key after key, each in order of invocation; borrowed, read only. */
struct aut_input {
    const int32_t *class;
    const int64_t *invoke;   /* ns */
    const int64_t *complete; /* ns; LIN_NEVER = unknown outcome */
    int64_t n_ops;
    const int64_t *offsets; /* n_keys + 1 */
    int64_t n_keys;
    const uint8_t *pure; /* per class: it never changes a state */
    int32_t n_classes;
    const int64_t *lo, *hi, *delta; /* per class, where `ask` is NULL */
    const int64_t *initial;         /* states that the object may start in */
    int64_t n_initial;
    aut_ask ask;
    void *context;
};

/* One element per key; `states` has n_states columns, unused ones stay as they are. */
struct aut_output {
    uint8_t *verdict;
    int64_t *bad;    /* ILLEGAL: position of the operation that cannot be placed; else -1 */
    int64_t *prefix; /* completions placed before it */
    int64_t *steps;
    int64_t *states;  /* ILLEGAL: states possible there; OK: states possible at the end */
    int64_t *n_found; /* how many were written; OK: -1 where not all are known */
    int64_t n_states;
};

/* Checks all keys. Returns 0, or -1 with `report` filled where the input is malformed. */
int aut_check(const struct aut_input *in, const struct lin_limits *limits,
              const struct aut_output *out, struct lin_report *report);

#endif
