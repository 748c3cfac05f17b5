/* What stale reads demand of the order of transactions. */
#ifndef DSTEST_ISO_DEMAND_H
#define DSTEST_ISO_DEMAND_H

#include "iso_keys.h"

static inline int iso_with_sessions(enum iso_model model)
{
    return model <= ISO_SESSION_VIEW || model == ISO_SESSION_COMMITTED;
}

static inline int iso_is_causal(enum iso_model model)
{
    return model == ISO_SESSION_CAUSAL || model == ISO_CAUSAL;
}

/* AGAINST: edges that lead back in the positions; these come from stale reads alone. WITHIN: those
 * that lead forward inside of one window (`window`); with them a window is all that there is. */
enum iso_which { ISO_AGAINST, ISO_WITHIN };

void iso_push(struct iso *h, struct iso_edge edge);

/* Adds the edges of a model that is not causal. `first`: the first position of any window. */
void iso_demands(struct iso *h, enum iso_model model, enum iso_which which, uint32_t first);
/* Adds those of causal with sessions, by vector clocks over no more than the stretches in
 * question. */
void iso_clock_demands(struct iso *h, enum iso_which which, uint32_t first);
/* Adds those of causal that lead back, without sessions or with many. */
void iso_way_demands(struct iso *h, int sessions);

#endif
