/* Cycles in a window of positions, of session, read and demanded edges. */
#ifndef DSTEST_ISO_CYCLES_H
#define DSTEST_ISO_CYCLES_H

#include "iso_demand.h"

/* The edges must be sorted by `after`. Writes the shortest cycle that was found to the report's
 * steps, under `model`, where it is shorter than `*best`, which it then updates. Where there is no
 * cycle and `order` is not NULL, order[first] .. order[last] become an order that holds all edges.
 * Returns 1 where there is one. */
int iso_cycles(struct iso *h, enum iso_model model, uint32_t first, uint32_t last, uint32_t *order,
               uint32_t *best);

/* A cycle of one step: `edge->before` cannot come before the initial value. */
void iso_before_initial(struct iso *h, enum iso_model model, const struct iso_edge *edge);

#endif
