/* A small part of a register history that contradicts itself. No Python in here.
 *
 * Operations go as lin_rule.h allows, in halving chunks (delta debugging: Zeller and Hildebrandt,
 * TSE 28(2), 2002), as long as what is left stays illegal.
 */
#ifndef DSTEST_LIN_REDUCE_H
#define DSTEST_LIN_REDUCE_H

#include "lin.h"

struct lin_effort {
    int64_t checks_max; /* of what is left */
    int64_t steps_max;  /* of each check; one that costs more leaves all as it is */
};

/* `in` has one key, which is illegal; `stays` one element per operation. `minimal`: nothing more
 * can go. 0, or -1 with `report` filled where the input is malformed. */
int lin_reduce(const struct lin_input *in, const struct lin_limits *limits,
               const struct lin_effort *effort, uint8_t *stays, int *minimal,
               struct lin_report *report);

#endif
