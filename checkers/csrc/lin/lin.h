/* Linearizability of registers by just-in-time linearization. No Python in here.
 *
 * A history of one key is a list of operations on a register that starts with the value `initial`:
 *
 *     read a           returned a
 *     write a          stored a
 *     cas_true a b     found a and stored b
 *     cas_false a b    found something other than a
 *     *_unknown        nobody knows whether it took effect; it may, any time after its invocation
 *
 * It is linearizable when every operation with a known outcome can be given one instant inside its
 * closed interval [invoke, complete], and unknown ones an instant after their invocation or none,
 * so that the register explains all results (Herlihy and Wing, TOPLAS 1990). The search follows
 * Lowe's just-in-time linearization (Concurrency and Computation 29(4), 2017); lin_search.c
 * describes the normal form that keeps it small.
 */
#ifndef DSTEST_LIN_H
#define DSTEST_LIN_H

#include "common/core_budget.h"

#include <stddef.h>
#include <stdint.h>

enum lin_kind {
    LIN_READ = 0,
    LIN_WRITE = 1,
    LIN_CAS_TRUE = 2,
    LIN_CAS_FALSE = 3,
    LIN_WRITE_UNKNOWN = 4,
    LIN_CAS_UNKNOWN = 5,
    LIN_READ_UNKNOWN = 6,
    LIN_KINDS = 7,
};

enum lin_verdict {
    LIN_OK = 0,
    LIN_ILLEGAL = 1,
    LIN_TIME = CORE_TIME,     /* undecided: the deadline passed */
    LIN_MEMORY = CORE_MEMORY, /* undecided: the memory budget was spent, or the allocator said no */
    LIN_STOPPED = CORE_STOPPED, /* undecided: the caller raised the stop flag */
    LIN_STEPS = CORE_WORK,      /* undecided: the step limit of this key was reached */
    LIN_INVALID = 6,            /* the input is malformed; lin_report.invalid says how */
};

/* `complete` of an operation whose outcome is unknown. */
#define LIN_NEVER INT64_MAX

/* Operations of all keys, key after key, each key in order of invocation. Borrowed, read only; the
 * search reads every element once and checks what it read, so that a caller who changes a column
 * meanwhile gets nonsense and never a memory fault. */
struct lin_input {
    const uint8_t *kind;
    const int32_t *a;
    const int32_t *b;        /* only cas reads it; in range all the same */
    const int64_t *invoke;   /* ns */
    const int64_t *complete; /* ns */
    int64_t n_ops;
    const int64_t *offsets; /* n_keys + 1 positions in the columns */
    int64_t n_keys;
    int32_t n_values; /* values are 0 .. n_values - 1 */
    int32_t initial;
};

struct lin_limits {
    int64_t time_ns;      /* for all keys together */
    int64_t memory_bytes; /* for all working memory */
    int64_t steps_max;    /* per key; 0 = none */
    const int32_t *stop;  /* not zero = give up; may be NULL */
    int exact_states;     /* report every value as itself, also those that nothing observes */
};

/* One element per key; arrays of the caller. */
struct lin_output {
    uint8_t *verdict;
    int64_t *bad;    /* ILLEGAL: position of the operation that cannot be placed; else -1 */
    int64_t *prefix; /* completions that the deciding attempt placed before it ended */
    int64_t *steps;
    int32_t *states; /* ILLEGAL: n_states values that the register may hold there, -1 = no more */
    int64_t n_states;
};

struct lin_report {
    const char *invalid; /* why the input was refused; NULL if it was not */
    int64_t where;       /* position of the operation or offset meant by it */
};

/* Checks all keys. Returns 0, or -1 with `report` filled where the input is malformed. */
int lin_check(const struct lin_input *in, const struct lin_limits *limits,
              const struct lin_output *out, struct lin_report *report);

#endif
