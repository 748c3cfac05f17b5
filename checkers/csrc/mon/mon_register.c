/* A register of unique writes: zones.
 *
 * All operations on one value form its zone, from the soonest completion to the latest invocation.
 * Where the first comes before the second the register holds the value all that time (a forward
 * zone); else all of them fit into one instant between the two (a backward zone). The history is
 * linearizable if and only if no read ends before its write begins, no two forward zones overlap,
 * and no backward zone lies inside a forward one (Gibbons and Korach, SIAM J. Comput. 26(4), 1997).
 * The initial value was written before all time.
 */
#include "mon.h"

#include <string.h>

struct zone {
    int64_t soonest; /* completion */
    int64_t latest;  /* invocation */
    int64_t begins;  /* invocation of the write; LIN_NEVER = not seen */
    int64_t read;    /* soonest completion of a read */
    int64_t first;   /* invocation */
};

static int add(struct zone *zone, int64_t invoke, int64_t complete, int put)
{
    zone->latest = invoke > zone->latest ? invoke : zone->latest;
    zone->soonest = complete < zone->soonest ? complete : zone->soonest;
    if (put) {
        if (zone->begins != LIN_NEVER) {
            return MON_UNFIT;
        }
        zone->begins = invoke;
    } else {
        zone->read = complete < zone->read ? complete : zone->read;
    }
    return LIN_OK;
}

/* Zones in order of first invocation, the initial value's first. */
static int make_zones(struct mon_work *w, const struct mon_input *in, int64_t first, int64_t last)
{
    struct zone *zones = w->extra[0].p;
    int32_t *number = w->number.p, *ids = w->ids.p;
    zones[0] = (struct zone){INT64_MIN, INT64_MIN, INT64_MIN, LIN_NEVER, INT64_MIN};
    ids[0] = 0;
    number[0] = 0;
    w->n_values = 1;
    int verdict = LIN_OK;
    for (int64_t i = first; i < last && verdict == LIN_OK; i++) {
        int32_t value = in->value[i];
        int put = in->kind[i] == MON_PUT;
        if (value < 0 || value >= in->n_values || in->kind[i] > MON_TAKE ||
            (!put && in->complete[i] == LIN_NEVER)) {
            verdict = MON_UNFIT;
            break;
        }
        if (number[value] < 0) {
            number[value] = w->n_values;
            ids[w->n_values] = value;
            zones[w->n_values++] = (struct zone){LIN_NEVER, INT64_MIN, LIN_NEVER, LIN_NEVER,
                                                 in->invoke[i]};
        }
        verdict = add(&zones[number[value]], in->invoke[i], in->complete[i], put);
    }
    for (int32_t i = 0; i < w->n_values; i++) {
        number[ids[i]] = -1;
    }
    return verdict;
}

/* Does the zone, the next in order of soonest completion, get along with those before? */
static int fits(struct mon_work *w, const struct zone *zone)
{
    struct mon_nothing *forward = w->runs.p;
    int32_t n = w->n_runs;
    if (zone->soonest < zone->latest) {
        if (n > 0 && zone->soonest < forward[n - 1].complete) {
            return 0;
        }
        forward[w->n_runs++] = (struct mon_nothing){zone->soonest, zone->latest};
        return 1;
    }
    int32_t low = 0;
    while (n > 0) { /* forward zones that begin before the backward one: all but the last end */
        int32_t half = n / 2;
        if (forward[low + half].invoke < zone->latest) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low == 0 || forward[low - 1].complete <= zone->soonest;
}

int mon_register(struct mon_work *w, const struct mon_input *in, int64_t first, int64_t last)
{
    size_t n = (size_t)(last - first) + 1, fresh = w->number.cap;
    struct core_array *array = &w->extra[0];
    array->size = sizeof(struct zone);
    if (n > INT32_MAX / 8 || core_reserve(&w->memory, &w->number, (size_t)in->n_values) != 0) {
        return LIN_MEMORY;
    }
    if (w->number.cap > fresh) {
        memset((int32_t *)w->number.p + fresh, 0xff, (w->number.cap - fresh) * sizeof(int32_t));
    }
    if (core_reserve(&w->memory, array, n) != 0 || core_reserve(&w->memory, &w->ids, n) != 0 ||
        core_reserve(&w->memory, &w->heap, n) != 0) {
        return LIN_MEMORY;
    }
    int verdict = make_zones(w, in, first, last);
    if (verdict != LIN_OK || core_reserve(&w->memory, &w->runs, (size_t)w->n_values) != 0) {
        return verdict != LIN_OK ? verdict : LIN_MEMORY;
    }
    const struct zone *zones = array->p;
    size_t stride = sizeof *zones / sizeof(int64_t);
    int32_t *heap = w->heap.p, pending = 0, next = 0;
    w->n_runs = 0;
    while (next < w->n_values || pending > 0) {
        if (next < w->n_values) {
            const struct zone *zone = &zones[next];
            if (zone->begins == LIN_NEVER || zone->read < zone->begins) {
                return LIN_ILLEGAL; /* never written, or read before that */
            }
            if (zone->soonest == LIN_NEVER) { /* unknown, and nobody saw it */
                next++;
                continue;
            }
            if (pending == 0 || zone->first <= zones[heap[0]].soonest) {
                mon_push(heap, pending++, next++, &zones->soonest, stride);
                continue;
            }
        }
        if (!fits(w, &zones[heap[0]])) {
            return LIN_ILLEGAL;
        }
        mon_pop(heap, pending--, &zones->soonest, stride);
    }
    return LIN_OK;
}
