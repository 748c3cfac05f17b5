/* A priority queue whose take gives the least value.
 *
 * The greatest value disturbs nobody. It can be taken exactly where an instant exists at which no
 * lesser value is in there for certain; lesser values that might be in there can move away from
 * that instant, going in later or coming out sooner, which disturbs nobody either. By induction
 * over the values a history is linearizable if and only if each take finds such an instant, and an
 * operation that found nothing one for all values. (The decrease-and-conquer scheme of Lee and
 * Mathur, OOPSLA 2025.)
 */
#include "mon.h"

#include <stdlib.h>
#include <string.h>

struct ranked {
    int32_t id, value;
};

static int by_id(const void *left, const void *right)
{
    const struct ranked *x = left, *y = right;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_time(const void *left, const void *right)
{
    int64_t x = *(const int64_t *)left, y = *(const int64_t *)right;
    return x < y ? -1 : x > y;
}

/* The first of n sorted times that is not below t. */
static int32_t lower(const int64_t *times, int32_t n, int64_t t)
{
    int32_t low = 0;
    while (n > 0) {
        int32_t half = n / 2;
        if (times[low + half] < t) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

/* The first time from i on that is not covered: paths are halved on the way. */
static int32_t uncovered(int32_t *next, int32_t i)
{
    while (next[i] != i) {
        next[i] = next[next[i]];
        i = next[i];
    }
    return i;
}

static int free_instant(const int64_t *times, int32_t *next, int32_t n, int64_t from, int64_t to)
{
    int32_t i = uncovered(next, lower(times, n, from));
    return i < n && times[i] <= to;
}

int mon_priority(struct mon_work *w)
{
    const struct mon_value *values = MON_VALUES(w);
    size_t n = (size_t)w->n_values, all = n + (size_t)w->n_nothings;
    struct core_array *sorted = &w->extra[0], *points = &w->extra[1], *links = &w->extra[2];
    sorted->size = sizeof(struct ranked);
    points->size = sizeof(int64_t);
    links->size = sizeof(int32_t);
    if (core_reserve(&w->memory, sorted, n) != 0 ||
        core_reserve(&w->memory, points, all + 1) != 0 ||
        core_reserve(&w->memory, links, all + 1) != 0) {
        return LIN_MEMORY;
    }
    struct ranked *rank = sorted->p;
    int64_t *times = points->p;
    int32_t *next = links->p, n_times = 0;
    for (int32_t i = 0; i < w->n_values; i++) {
        rank[i] = (struct ranked){((int32_t *)w->ids.p)[i], i};
        times[n_times++] = values[i].take_invoke;
    }
    for (int32_t i = 0; i < w->n_nothings; i++) {
        times[n_times++] = MON_NOTHINGS(w)[i].invoke;
    }
    if (n_times == 0) {
        return LIN_OK;
    }
    if (n > 0) {
        qsort(rank, n, sizeof *rank, by_id);
    }
    qsort(times, (size_t)n_times, sizeof *times, by_time);
    for (int32_t i = 0; i <= n_times; i++) {
        next[i] = i;
    }
    for (int32_t r = 0; r < w->n_values; r++) {
        const struct mon_value *v = &values[rank[r].value];
        if (v->take_complete != LIN_NEVER &&
            !free_instant(times, next, n_times, v->take_invoke, v->take_complete)) {
            return LIN_ILLEGAL;
        }
        if (v->put_complete >= v->take_invoke) {
            continue;
        }
        int32_t i = uncovered(next, lower(times, n_times, v->put_complete + 1));
        while (i < n_times && times[i] < v->take_invoke) {
            next[i] = i + 1;
            i = uncovered(next, i + 1);
        }
    }
    for (int32_t i = 0; i < w->n_nothings; i++) {
        const struct mon_nothing *op = &MON_NOTHINGS(w)[i];
        if (!free_instant(times, next, n_times, op->invoke, op->complete)) {
            return LIN_ILLEGAL;
        }
    }
    return LIN_OK;
}
