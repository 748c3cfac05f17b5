/* Takes of unknown outcome. No Python in here.
 *
 * Each may have taken, at any instant after its invocation, any value that nobody else took, or
 * nothing. So a value that was put for certain and that nobody is known to have taken may be out
 * from the invocation of such a take on, if no other value needs that take. How soon a value must
 * be able to be out is its deadline, LIN_NEVER = it may stay. Deadlines can be kept if and only if
 * for each of them so many takes of unknown outcome began until then as there are values with
 * deadlines until then (Hall's condition, of sets that are nested); then the takes, in order of
 * invocation, are given to the values in order of deadlines.
 *
 * The answer is the model's monitor's, about the history in which the takes are so given: legal
 * is never said of anything else.
 */
#ifndef DSTEST_MON_MAYBE_H
#define DSTEST_MON_MAYBE_H

#include "mon.h"

/* The deadline of each value, to `due`: such that the monitor accepts the history if each is out
 * in time. LIN_OK where they can be kept, LIN_ILLEGAL where none can, LIN_MEMORY, MON_UNFIT where
 * it would take too long to know. What is known of takes alone is legal. */
typedef int (*mon_due)(struct mon_work *w, int64_t *due);

int mon_queue_due(struct mon_work *w, int64_t *due);
int mon_stack_due(struct mon_work *w, int64_t *due);

/* Decides a key with takes of unknown outcome. `due` may be NULL: then only what the monitor
 * says without them counts. */
int mon_maybe(struct mon_work *w, int (*monitor)(struct mon_work *w), mon_due due);

#endif
