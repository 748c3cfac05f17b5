/* Monitors: near-linear decisions about containers whose values are unique. No Python in here.
 *
 * An operation puts a value in, takes a value out, or found nothing in there. Every value is put
 * at most once and taken at most once; a put of unknown outcome has `complete` = LIN_NEVER. A take
 * of unknown outcome, of which only its invocation counts, has a kind of its own (mon_maybe.h). For
 * registers a put is a write and a take is a read, of which there may be many.
 *
 * Where a history breaks these rules the answer is MON_UNFIT, and the search must decide.
 */
#ifndef DSTEST_MON_H
#define DSTEST_MON_H

#include "common/core_memory.h"
#include "lin/lin.h"

#define MON_UNFIT 8

enum mon_kind { MON_PUT = 0, MON_TAKE = 1, MON_NOTHING = 2, MON_MAYBE = 3, MON_KINDS = 4 };

enum mon_model { MON_QUEUE = 0, MON_STACK = 1, MON_PRIORITY = 2, MON_REGISTER = 3, MON_MODELS = 4 };

/* Operations of all keys, key after key, each in order of invocation; borrowed, read only. Values
 * are 0 .. n_values - 1, for MON_PRIORITY in their order; in a register value 0 is the initial one
 * and is never put. */
struct mon_input {
    const uint8_t *kind;
    const int32_t *value; /* not read for MON_NOTHING and MON_MAYBE */
    const int64_t *invoke, *complete;
    int64_t n_ops;
    const int64_t *offsets; /* n_keys + 1 */
    int64_t n_keys;
    int32_t n_values;
    int model;
};

/* One value of the key at hand: when it went in and out. */
struct mon_value {
    int64_t put_invoke, put_complete;
    int64_t take_invoke, take_complete; /* LIN_NEVER = not taken */
};

/* An operation that found nothing. */
struct mon_nothing {
    int64_t invoke, complete;
};

/* A value that must be able to be out by `t`. */
struct mon_deadline {
    int64_t t;
    int32_t value; /* its number */
};

/* Work space, and the values of one key. After mon_gather each value's times are tight: it was in
 * there for certain in the open interval (put_complete, take_invoke), where that is not empty. */
struct mon_work {
    struct core_memory memory;
    struct core_array values;   /* mon_value, in order of put_invoke */
    struct core_array number;   /* int32 by global value: its mon_value, or -1 */
    struct core_array ids;      /* int32: the global value of each mon_value */
    struct core_array nothings; /* mon_nothing, in order of invocation */
    struct core_array maybes;   /* int64: when takes of unknown outcome were invoked, in order */
    struct core_array all;      /* mon_value: as `values`, while some are left out */
    struct core_array all_ids;  /* int32: as `ids` then */
    struct core_array due;      /* int64 by value: its deadline */
    struct core_array given;    /* mon_deadline: values that need a take of unknown outcome */
    struct core_array heap;     /* int32 */
    struct core_array runs;     /* mon_nothing: times in which something was in there for certain */
    struct core_array extra[12]; /* of the model */
    int32_t n_values, n_nothings, n_maybes, n_runs;
    int64_t guessed; /* work on assignments that were tried, of all keys */
};

#define MON_VALUES(w) ((struct mon_value *)(w)->values.p)
#define MON_NOTHINGS(w) ((struct mon_nothing *)(w)->nothings.p)

/* mon_gather.c: reads one key. LIN_OK, LIN_ILLEGAL where a value was taken that nobody put (or
 * before it was put), MON_UNFIT, LIN_MEMORY. */
int mon_gather(struct mon_work *w, const struct mon_input *in, int64_t first, int64_t last);

/* mon_gather.c: union of the times in which something was in there, as runs; `taken`: one of the
 * values that somebody is known to have taken. LIN_OK or LIN_MEMORY. */
int mon_make_runs(struct mon_work *w, int taken);

/* mon_gather.c: does an instant exist for everyone who found nothing? */
int mon_find_nothing(struct mon_work *w);

int mon_queue(struct mon_work *w);
int mon_stack(struct mon_work *w);
int mon_priority(struct mon_work *w);
int mon_register(struct mon_work *w, const struct mon_input *in, int64_t first, int64_t last);

/* Binary heap of indexes by 64-bit keys, smallest first. */
void mon_push(int32_t *heap, int32_t n, int32_t item, const int64_t *key, size_t stride);
void mon_pop(int32_t *heap, int32_t n, const int64_t *key, size_t stride);

/* One verdict per key. 0, or -1 with `report` filled where the input is malformed. */
int mon_check(const struct mon_input *in, const struct lin_limits *limits, uint8_t *verdict,
              struct lin_report *report);

#endif
