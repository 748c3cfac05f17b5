/* The values of a stack while the runs they make are taken apart; see mon_stack.c. */
#ifndef DSTEST_MON_STACK_H
#define DSTEST_MON_STACK_H

#include "mon.h"
#include "mon_counts.h"

/* A value that is in there for certain, unless it was put to the bottom of a run. */
struct mon_solid {
    struct mon_value v;
    int32_t number;   /* of its mon_value */
    int32_t from, to; /* numbers of put_complete and of when it may be out at the soonest */
    uint8_t gone;     /* it is at the bottom of a run */
};

/* Both are numbers of instants. */
struct mon_run {
    int32_t from, to;
};

struct mon_stack {
    struct mon_solid *solid;  /* in order of put_invoke */
    int64_t *times;           /* instants that matter, in their order */
    struct mon_counts covers; /* by instant: solids that are in there for certain */
    struct mon_counts taken;  /* the same of those alone of which it is known who took them; has no
                                 nodes where nobody asks */
    int64_t *reach;           /* by solid, as a tree: latest put_complete of those that are left */
    int32_t *starts;          /* by instant: solids that begin there */
    struct mon_run *runs;     /* to be looked at */
    int32_t *found;
    int32_t n_solid, n_times, n_runs, n_found, leaves;
};

/* Makes room, for `more` more instants than solids begin and end at. 0, or -1 where memory is
 * short. */
int mon_stack_reserve(struct mon_work *w, struct mon_stack *s, size_t more);
/* Notes the solids, and the instants at which they begin and end. */
void mon_stack_note(struct mon_work *w, struct mon_stack *s);
/* Numbers the instants, when all are noted. */
void mon_stack_sort(struct mon_stack *s);
/* Notes what the solids cover, of which there are some, and the runs, from the beginning. 0, or -1
 * where memory is short. */
int mon_stack_begin(struct mon_work *w, struct mon_stack *s);

/* The number of the last instant that is not after t, else 0. */
int32_t mon_stack_number(const struct mon_stack *s, int64_t t);

void mon_stack_cover(struct mon_stack *s, const struct mon_solid *solid, int32_t by);

/* Notes the runs between the bare instants of [from, to]. */
void mon_stack_runs(struct mon_stack *s, int32_t from, int32_t to);

/* Puts all values to the bottom that can be there in this run. Returns whether there was one. */
int mon_stack_peel(struct mon_stack *s, struct mon_run run);

/* Finds the solids that began until `begin` and may have been put at that instant or later. */
void mon_stack_find(struct mon_stack *s, int64_t begin);

#endif
