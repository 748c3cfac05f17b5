/* Which operations of a register history may be left out together. No Python in here.
 *
 * One that only observes may always go. One that stores v may go where no operation that stays can
 * owe its result to it: no observer of v, no cas that found something other than w, unless v is w.
 * Nothing is owed to a store that was invoked after it completed, nor to one that a store which
 * stays has certainly replaced: invoked after the first completed, and completed before the
 * observer's invocation. Of the stores of a value that stays observed one stays in any case.
 * checkers/_witness.py says why.
 */
#ifndef DSTEST_LIN_RULE_H
#define DSTEST_LIN_RULE_H

#include "common/core_memory.h"
#include "lin.h"

/* Operations in order of invocation; values are numbered without gaps. */
struct lin_row {
    int64_t invoke, complete;
    int32_t a, b;
    int32_t stored; /* the value that it leaves, -1 where it changes nothing */
    uint8_t kind;
    uint8_t drop; /* asked for before a call, granted after it */
};

/* Observers that stay, in order of invocation: of one value, or those that found another one. */
struct lin_seen {
    int64_t invoke;
    int64_t last;  /* the latest completion so far */
    int64_t other; /* the latest of those that found other than `value` */
    int32_t value; /* what the one with `last` found something other than */
};

struct lin_rule {
    struct core_array seen;    /* lin_seen, value after value */
    struct core_array differ;  /* lin_seen */
    struct core_array certain; /* lin_seen: stores that stay; `last` = the soonest completion on */
    struct core_array first; /* int32 by value: its first `seen`; one more than there are values */
    struct core_array stays; /* int32 by value: stores that stay */
    int32_t n_values, n_differ, n_certain;
};

void lin_rule_init(struct lin_rule *rule);
void lin_rule_free(struct lin_rule *rule, struct core_memory *memory);

/* Takes back `drop` where the rule does not allow it. LIN_OK or LIN_MEMORY. */
int lin_rule_apply(struct lin_rule *rule, struct core_memory *memory, struct lin_row *rows,
                   int32_t n, int32_t n_values);

#endif
