/* First in, first out.
 *
 * Without operations that found nothing, a history is linearizable if and only if no value a went
 * in certainly before b and came out certainly after it (or never, while b came out). For the two
 * orders, of puts and of takes, are interval orders; a longest cycle of the two has two members,
 * so without such a pair some order of the values extends both, and along it the puts can be made
 * as early and the takes as late as possible. An operation that found nothing needs an instant at
 * which no value is in there for certain; everything else can move away from such an instant.
 * (Henzinger, Sezgin and Vafeiadis, CONCUR 2013, for the bad patterns; Lee and Mathur, OOPSLA 2025,
 * for near-linear time.)
 */
#include "mon.h"

int mon_queue(struct mon_work *w)
{
    const struct mon_value *values = MON_VALUES(w);
    size_t stride = sizeof *values / sizeof(int64_t);
    int32_t *heap = w->heap.p, pending = 0;
    int64_t latest = INT64_MIN; /* take_invoke of values that were in before the present put */
    for (int32_t i = 0; i < w->n_values; i++) {
        while (pending > 0 && values[heap[0]].put_complete < values[i].put_invoke) {
            int64_t out = values[heap[0]].take_invoke;
            latest = out > latest ? out : latest;
            mon_pop(heap, pending--, &values->put_complete, stride);
        }
        if (latest > values[i].take_complete) {
            return LIN_ILLEGAL;
        }
        mon_push(heap, pending++, i, &values->put_complete, stride);
    }
    return mon_find_nothing(w);
}
