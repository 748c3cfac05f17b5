/* The frame around deadlines; see mon_maybe.h. */
#include "mon_maybe.h"

#include <stdlib.h>
#include <string.h>

static int by_due(const void *left, const void *right)
{
    const struct mon_deadline *x = left, *y = right;
    return x->t != y->t ? (x->t < y->t ? -1 : 1) : (x->value > y->value) - (x->value < y->value);
}

/* What the monitor says of the values that somebody is known to have taken, which a linearization
 * can do without the others. The values are as before afterwards. */
static int of_taken(struct mon_work *w, int (*monitor)(struct mon_work *w))
{
    size_t n = (size_t)w->n_values;
    if (core_reserve(&w->memory, &w->all, n) != 0 ||
        core_reserve(&w->memory, &w->all_ids, n) != 0) {
        return LIN_MEMORY;
    }
    if (n > 0) {
        memcpy(w->all.p, w->values.p, n * sizeof(struct mon_value));
        memcpy(w->all_ids.p, w->ids.p, n * sizeof(int32_t));
    }
    int32_t *ids = w->ids.p;
    w->n_values = 0;
    for (size_t i = 0; i < n; i++) {
        if (MON_VALUES(w)[i].take_complete != LIN_NEVER) {
            MON_VALUES(w)[w->n_values] = MON_VALUES(w)[i];
            ids[w->n_values++] = ids[i];
        }
    }
    int verdict = monitor(w);
    if (n > 0) {
        memcpy(w->values.p, w->all.p, n * sizeof(struct mon_value));
        memcpy(w->ids.p, w->all_ids.p, n * sizeof(int32_t));
    }
    w->n_values = (int32_t)n;
    return verdict;
}

/* Gives takes of unknown outcome to the values that must be out. Returns whether each is in
 * time. */
static int give(struct mon_work *w, struct mon_deadline *due, int32_t n)
{
    const int64_t *maybes = w->maybes.p;
    if (n > 0) {
        qsort(due, (size_t)n, sizeof *due, by_due);
    }
    for (int32_t i = 0; i < n; i++) {
        if (i >= w->n_maybes || maybes[i] > due[i].t) {
            return 0;
        }
        struct mon_value *v = &MON_VALUES(w)[due[i].value];
        v->take_invoke = maybes[i] > v->put_invoke ? maybes[i] : v->put_invoke;
    }
    return 1;
}

int mon_maybe(struct mon_work *w, int (*monitor)(struct mon_work *w), mon_due due)
{
    int verdict = monitor(w);
    if (verdict != LIN_ILLEGAL || w->n_maybes == 0) {
        return verdict;
    }
    verdict = of_taken(w, monitor);
    if (verdict != LIN_OK) {
        return verdict;
    }
    size_t n = (size_t)w->n_values;
    if (due == NULL) {
        return MON_UNFIT;
    }
    if (core_reserve(&w->memory, &w->due, n) != 0 || core_reserve(&w->memory, &w->given, n) != 0) {
        return LIN_MEMORY;
    }
    int64_t *times = w->due.p;
    struct mon_deadline *given = w->given.p;
    int32_t n_given = 0;
    verdict = due(w, times);
    if (verdict != LIN_OK) {
        return verdict;
    }
    for (int32_t i = 0; i < w->n_values; i++) {
        if (MON_VALUES(w)[i].take_complete == LIN_NEVER && times[i] != LIN_NEVER) {
            given[n_given++] = (struct mon_deadline){times[i], i};
        }
    }
    return give(w, given, n_given) && monitor(w) == LIN_OK ? LIN_OK : MON_UNFIT;
}
