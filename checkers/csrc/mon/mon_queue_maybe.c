/* Deadlines of the values of a queue that nobody is known to have taken.
 *
 * Value a must be out by the completion of each take of a value b that went in certainly after it:
 * that is a deadline of a alone, for b was taken by somebody known (else it has no completion, and
 * asks nothing of a). Where somebody found nothing at instant s, all values that certainly went in
 * before s must be out by s. Let G(s, t) be the number of values with put_complete < s or a
 * deadline of the first sort until t, and W(t) of takes of unknown outcome that began until t. Some
 * instants s can be had together if and only if G(s, t) <= W(t) for each of them and all t >= s:
 * until t the last one not after t asks for most. So each who found nothing needs an instant
 * in its interval that fits by itself. Later ones are better as long as neither a value has gone in
 * for certain nor one of the taken ones is in, which leaves few to be tried.
 */
#include "mon_counts.h"
#include "mon_maybe.h"

#include <stdlib.h>

struct frame {
    int64_t *soonest;          /* by value, and one more: completion of the takes from there on */
    struct mon_deadline *open; /* values that nobody is known to have taken, by put_complete */
    int64_t *times;            /* instants that matter, in their order */
    int32_t *fits;             /* by instant, and one more: the first from there on that fits */
    struct mon_counts slack;   /* by instant t: W(t) - G(s, t) + 1, of the present s */
    int32_t n_open, n_times;
};

static int by_time(const void *left, const void *right)
{
    int64_t x = *(const int64_t *)left, y = *(const int64_t *)right;
    return x < y ? -1 : x > y;
}

static int by_put(const void *left, const void *right)
{
    const struct mon_deadline *x = left, *y = right;
    return x->t < y->t ? -1 : x->t > y->t;
}

static int reserve(struct mon_work *w, struct frame *f)
{
    size_t n = (size_t)w->n_values, times = 3 * n + (size_t)w->n_nothings + 1;
    if (times > INT32_MAX / 8) {
        return -1;
    }
    const size_t sizes[4] = {sizeof(int64_t), sizeof(struct mon_deadline), sizeof(int64_t),
                             sizeof(int32_t)};
    const size_t needs[4] = {n + 1, n, times, times + 1};
    for (int i = 0; i < 4; i++) {
        w->extra[i].size = sizes[i];
        if (core_reserve(&w->memory, &w->extra[i], needs[i]) != 0) {
            return -1;
        }
    }
    *f = (struct frame){w->extra[0].p, w->extra[1].p, w->extra[2].p, w->extra[3].p, {0}, 0, 0};
    return 0;
}

/* The number of the first instant that is not before t. */
static int32_t number_of(const struct frame *f, int64_t t)
{
    int32_t low = 0;
    for (int32_t n = f->n_times; n > 0;) {
        int32_t half = n / 2;
        if (f->times[low + half] < t) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

/* Deadlines by order alone. */
static void order(const struct mon_work *w, struct frame *f, int64_t *due)
{
    const struct mon_value *values = MON_VALUES(w);
    f->soonest[w->n_values] = LIN_NEVER;
    for (int32_t i = w->n_values - 1; i >= 0; i--) {
        int64_t t = values[i].take_complete;
        f->soonest[i] = t < f->soonest[i + 1] ? t : f->soonest[i + 1];
        due[i] = LIN_NEVER;
        if (t == LIN_NEVER) {
            f->open[f->n_open++] = (struct mon_deadline){values[i].put_complete, i};
        }
    }
    if (f->n_open > 0) {
        qsort(f->open, (size_t)f->n_open, sizeof *f->open, by_put);
    }
    int32_t after = 0;
    for (int32_t k = 0; k < f->n_open; k++) {
        while (after < w->n_values && values[after].put_invoke <= f->open[k].t) {
            after++;
        }
        due[f->open[k].value] = f->soonest[after];
    }
}

static void note_times(const struct mon_work *w, struct frame *f, const int64_t *due)
{
    for (int32_t k = 0; k < f->n_open; k++) {
        f->times[f->n_times++] = f->open[k].t;
        if (due[f->open[k].value] != LIN_NEVER) {
            f->times[f->n_times++] = due[f->open[k].value];
        }
    }
    for (int32_t i = 0; i < w->n_nothings; i++) {
        f->times[f->n_times++] = MON_NOTHINGS(w)[i].complete;
    }
    for (int32_t i = 0; i < w->n_runs; i++) {
        f->times[f->n_times++] = ((struct mon_nothing *)w->runs.p)[i].invoke;
    }
    int32_t distinct = 0;
    if (f->n_times > 0) {
        qsort(f->times, (size_t)f->n_times, sizeof *f->times, by_time);
    }
    for (int32_t i = 0; i < f->n_times; i++) {
        if (i == 0 || f->times[i] != f->times[distinct - 1]) {
            f->times[distinct++] = f->times[i];
        }
    }
    f->n_times = distinct;
}

/* The slack before anybody found nothing. Returns whether there is enough. */
static int begin_slack(const struct mon_work *w, struct frame *f, const int64_t *due)
{
    const int64_t *maybes = w->maybes.p;
    int32_t began = 0;
    for (int32_t t = 0; t < f->n_times; t++) {
        while (began < w->n_maybes && maybes[began] <= f->times[t]) {
            began++;
        }
        mon_counts_add(&f->slack, t, t, began + 1);
    }
    for (int32_t k = 0; k < f->n_open; k++) {
        int64_t t = due[f->open[k].value];
        if (t != LIN_NEVER) {
            mon_counts_add(&f->slack, number_of(f, t), f->n_times - 1, -1);
        }
    }
    return mon_counts_first(&f->slack, 0, f->n_times - 1) < 0;
}

/* Finds the instants that fit. */
static void find_fitting(const struct mon_work *w, struct frame *f, const int64_t *due)
{
    const struct mon_nothing *runs = w->runs.p;
    int32_t run = 0, gone_in = 0;
    for (int32_t s = 0; s < f->n_times; s++) {
        int64_t t = f->times[s];
        for (; gone_in < f->n_open && f->open[gone_in].t < t; gone_in++) {
            mon_counts_add(&f->slack, 0, number_of(f, due[f->open[gone_in].value]) - 1, -1);
        }
        while (run < w->n_runs && runs[run].complete <= t) {
            run++;
        }
        int bare = run == w->n_runs || runs[run].invoke >= t;
        f->fits[s] = bare && mon_counts_first(&f->slack, s, f->n_times - 1) < 0;
    }
    f->fits[f->n_times] = f->n_times;
    for (int32_t s = f->n_times - 1; s >= 0; s--) {
        f->fits[s] = f->fits[s] ? s : f->fits[s + 1];
    }
}

/* An instant for everyone who found nothing, and what that asks of the values. Returns whether
 * there is one. */
static int empty(const struct mon_work *w, struct frame *f, int64_t *due)
{
    int32_t k = 0;
    for (int32_t i = 0; i < w->n_nothings; i++) {
        const struct mon_nothing *op = &MON_NOTHINGS(w)[i];
        int32_t s = f->fits[number_of(f, op->invoke)];
        if (s == f->n_times || f->times[s] > op->complete) {
            return 0;
        }
        /* invocations come in order, and so do the first instants that fit */
        while (k < f->n_open && f->open[k].t < f->times[s]) {
            int64_t *mine = &due[f->open[k++].value];
            *mine = f->times[s] < *mine ? f->times[s] : *mine;
        }
    }
    return 1;
}

int mon_queue_due(struct mon_work *w, int64_t *due)
{
    struct frame f;
    if (reserve(w, &f) != 0 || mon_make_runs(w, 1) != LIN_OK) {
        return LIN_MEMORY;
    }
    order(w, &f, due);
    note_times(w, &f, due);
    w->extra[4].size = sizeof(struct mon_node);
    if (mon_counts_begin(&f.slack, &w->memory, &w->extra[4], (size_t)f.n_times) != 0) {
        return LIN_MEMORY;
    }
    if (!begin_slack(w, &f, due)) {
        return LIN_ILLEGAL;
    }
    find_fitting(w, &f, due);
    return empty(w, &f, due) ? LIN_OK : LIN_ILLEGAL;
}
