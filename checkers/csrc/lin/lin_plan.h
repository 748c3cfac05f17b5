/* What one key's search needs, made in one pass over its operations. */
#ifndef DSTEST_LIN_PLAN_H
#define DSTEST_LIN_PLAN_H

#include "common/core_memory.h"
#include "lin.h"

/* What an operation is to the search. */
enum lin_role {
    LIN_IGNORED,  /* cannot matter: unknown reads, unknown cas a a, values that nothing observes */
    LIN_OBSERVER, /* ok, changes nothing: read, cas_false, cas_true a a */
    LIN_WRITER,   /* ok write */
    LIN_SWAPPER,  /* ok cas_true a b, a != b */
    LIN_CRASHED,  /* unknown write or cas: a member of a class */
};

struct lin_op {
    uint8_t kind;
    uint8_t role;
    int32_t a, b; /* local value ids */
    int32_t slot; /* LIN_CRASHED: class; else bit position while pending */
    int64_t invoke, complete;
};

/* Unknown operations of the same kind and arguments. They are interchangeable from their
 * invocation on, so the lowest unused one stands for all. */
struct lin_class {
    int32_t a;         /* -1 for a write */
    int32_t b;         /* the value it leaves */
    int32_t base;      /* first of its `count` bits */
    int32_t count;     /* members */
    int32_t available; /* members invoked so far */
    int32_t next_in;   /* next cas class with the same b, or -1 */
    int32_t next_out;  /* next cas class with the same a, or -1 */
};

/* Per local value: its unknown write class, and lists of unknown cas classes; -1 = none. */
struct lin_value {
    int32_t global;
    int32_t write_class;
    int32_t cas_in;  /* ... -> value */
    int32_t cas_out; /* value -> ... */
};

struct lin_plan {
    struct core_array ops;     /* lin_op */
    struct core_array events;  /* int32: position * 2, + 1 for a completion */
    struct core_array classes; /* lin_class */
    struct core_array values;  /* lin_value */
    struct core_array locals;  /* int32 by global value, -1 between keys */
    struct core_array heap;    /* int32: pending operations, soonest completion first */
    struct core_array scratch; /* int32: free slots; unknown cas to sort */
    int32_t n_ops;
    int32_t n_events;
    int32_t n_classes;
    int32_t n_values;
    int32_t n_slots;      /* most ok operations pending at once */
    int32_t n_crash_bits; /* members of all classes */
    int32_t initial;
};

void lin_plan_init(struct lin_plan *plan);
void lin_plan_free(struct lin_plan *plan, struct core_memory *memory);

/* Plans operations [first, last). 0, LIN_MEMORY, or LIN_INVALID with `report` filled. */
int lin_plan_make(struct lin_plan *plan, struct core_memory *memory, const struct lin_input *in,
                  int64_t first, int64_t last, int exact_states, struct lin_report *report);

#define LIN_OPS(plan) ((struct lin_op *)(plan)->ops.p)
#define LIN_CLASSES(plan) ((struct lin_class *)(plan)->classes.p)
#define LIN_VALUES(plan) ((struct lin_value *)(plan)->values.p)

#endif
