/* Steps of an automaton: asked for once and remembered, or computed. */
#ifndef DSTEST_AUT_STEP_H
#define DSTEST_AUT_STEP_H

#include "aut.h"
#include "common/core_memory.h"

struct aut_known {
    int64_t state;
    int32_t class;
    int32_t count; /* targets; -1 = free slot */
    int64_t to;    /* the target, or where in `pool` the targets are */
};

struct aut_steps {
    const struct aut_input *in;
    struct core_array table; /* aut_known; a power of two */
    struct core_array pool;  /* int64 */
    size_t n, n_slots, n_pool;
    int64_t buffer[AUT_TARGETS];
};

void aut_steps_init(struct aut_steps *steps, const struct aut_input *in);
void aut_steps_free(struct aut_steps *steps, struct core_memory *memory);

/* States after `class` in `state`: their number, with `to` set to them until the next call.
 * -LIN_MEMORY or -AUT_RAISED where they could not be had. */
int aut_step(struct aut_steps *steps, struct core_memory *memory, int64_t state, int32_t class,
             const int64_t **to);

#endif
