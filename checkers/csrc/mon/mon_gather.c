/* From operations to values with tight times. */
#include "mon.h"

#include <string.h>

#define NUMBER(w) ((int32_t *)(w)->number.p)
#define IDS(w) ((int32_t *)(w)->ids.p)

static const int64_t *at(const int64_t *key, size_t stride, int32_t item)
{
    return key + (size_t)item * stride;
}

void mon_push(int32_t *heap, int32_t n, int32_t item, const int64_t *key, size_t stride)
{
    int64_t mine = *at(key, stride, item);
    while (n > 0 && *at(key, stride, heap[(n - 1) / 2]) > mine) {
        heap[n] = heap[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    heap[n] = item;
}

void mon_pop(int32_t *heap, int32_t n, const int64_t *key, size_t stride)
{
    int32_t last = heap[--n], hole = 0;
    int64_t mine = *at(key, stride, last);
    for (int32_t child; (child = 2 * hole + 1) < n; hole = child) {
        if (child + 1 < n && *at(key, stride, heap[child + 1]) < *at(key, stride, heap[child])) {
            child++;
        }
        if (*at(key, stride, heap[child]) >= mine) {
            break;
        }
        heap[hole] = heap[child];
    }
    heap[hole] = last;
}

/* Notes every put, everyone who found nothing and takes of unknown outcome; there was room for so
 * many when they were counted. */
static int note_puts(struct mon_work *w, const struct mon_input *in, int64_t first, int64_t last,
                     const size_t *counts)
{
    for (int64_t i = first; i < last; i++) {
        int room = (size_t)w->n_values < counts[MON_PUT];
        uint8_t kind = in->kind[i];
        if (kind == MON_NOTHING) {
            if ((size_t)w->n_nothings >= counts[kind] || in->complete[i] == LIN_NEVER) {
                return MON_UNFIT;
            }
            MON_NOTHINGS(w)[w->n_nothings++] = (struct mon_nothing){in->invoke[i], in->complete[i]};
        } else if (kind == MON_MAYBE) {
            if ((size_t)w->n_maybes >= counts[kind]) {
                return MON_UNFIT;
            }
            ((int64_t *)w->maybes.p)[w->n_maybes++] = in->invoke[i];
        } else if (kind == MON_PUT) {
            int32_t value = in->value[i];
            if (!room || value < 0 || value >= in->n_values || NUMBER(w)[value] >= 0) {
                return MON_UNFIT;
            }
            NUMBER(w)[value] = w->n_values;
            IDS(w)[w->n_values] = value;
            MON_VALUES(w)
            [w->n_values++] = (struct mon_value){in->invoke[i], in->complete[i], LIN_NEVER,
                                                 LIN_NEVER};
        }
    }
    return LIN_OK;
}

static int note_takes(struct mon_work *w, const struct mon_input *in, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        if (in->kind[i] != MON_TAKE) {
            continue;
        }
        int32_t value = in->value[i];
        if (value < 0 || value >= in->n_values || in->complete[i] == LIN_NEVER) {
            return MON_UNFIT;
        }
        if (NUMBER(w)[value] < 0) {
            return LIN_ILLEGAL;
        }
        struct mon_value *v = &MON_VALUES(w)[NUMBER(w)[value]];
        if (v->take_complete != LIN_NEVER) {
            return LIN_ILLEGAL; /* put once and taken twice */
        }
        v->take_invoke = in->invoke[i];
        v->take_complete = in->complete[i];
    }
    return LIN_OK;
}

/* Leaves out puts of unknown outcome that nobody took, and makes the times tight: a value went in
 * before it came out. */
static int tighten(struct mon_work *w)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < w->n_values; i++) {
        struct mon_value v = MON_VALUES(w)[i];
        if (v.put_complete == LIN_NEVER && v.take_complete == LIN_NEVER) {
            continue;
        }
        if (v.take_complete < v.put_invoke) {
            return LIN_ILLEGAL;
        }
        v.put_complete = v.put_complete < v.take_complete ? v.put_complete : v.take_complete;
        v.take_invoke = v.take_invoke > v.put_invoke ? v.take_invoke : v.put_invoke;
        MON_VALUES(w)[kept] = v;
        IDS(w)[kept++] = IDS(w)[i];
    }
    w->n_values = kept;
    return LIN_OK;
}

int mon_gather(struct mon_work *w, const struct mon_input *in, int64_t first, int64_t last)
{
    size_t n = (size_t)(last - first), fresh = w->number.cap;
    w->n_values = w->n_nothings = w->n_maybes = 0;
    if (core_reserve(&w->memory, &w->number, (size_t)in->n_values) != 0) {
        return LIN_MEMORY;
    }
    if (w->number.cap > fresh) {
        memset(NUMBER(w) + fresh, 0xff, (w->number.cap - fresh) * sizeof(int32_t));
    }
    size_t counts[MON_KINDS] = {0}, puts;
    for (int64_t i = first; i < last; i++) {
        counts[in->kind[i] % MON_KINDS]++;
    }
    puts = counts[MON_PUT];
    if (n > INT32_MAX / 8 || core_reserve(&w->memory, &w->values, puts) != 0 ||
        core_reserve(&w->memory, &w->ids, puts) != 0 ||
        core_reserve(&w->memory, &w->heap, puts) != 0 ||
        core_reserve(&w->memory, &w->maybes, counts[MON_MAYBE]) != 0 ||
        core_reserve(&w->memory, &w->nothings, counts[MON_NOTHING]) != 0) {
        return LIN_MEMORY;
    }
    int verdict = note_puts(w, in, first, last, counts);
    if (verdict == LIN_OK) {
        verdict = note_takes(w, in, first, last);
    }
    for (int32_t i = 0; i < w->n_values; i++) {
        NUMBER(w)[IDS(w)[i]] = -1;
    }
    return verdict == LIN_OK ? tighten(w) : verdict;
}

/* Adds a value to the runs; values come in order of put_complete. */
static void cover(struct mon_work *w, const struct mon_value *v, int taken)
{
    struct mon_nothing *runs = w->runs.p;
    if (v->put_complete >= v->take_invoke || (taken && v->take_complete == LIN_NEVER)) {
        return;
    }
    if (w->n_runs > 0 && v->put_complete < runs[w->n_runs - 1].complete) {
        struct mon_nothing *run = &runs[w->n_runs - 1];
        run->complete = run->complete > v->take_invoke ? run->complete : v->take_invoke;
    } else {
        runs[w->n_runs++] = (struct mon_nothing){v->put_complete, v->take_invoke};
    }
}

int mon_make_runs(struct mon_work *w, int taken)
{
    const struct mon_value *values = MON_VALUES(w);
    const int64_t *ends = &values->put_complete;
    size_t stride = sizeof *values / sizeof *ends;
    int32_t *heap = w->heap.p, pending = 0;
    w->n_runs = 0;
    if (core_reserve(&w->memory, &w->runs, (size_t)w->n_values) != 0) {
        return LIN_MEMORY;
    }
    for (int32_t next = 0; next < w->n_values || pending > 0;) {
        if (next < w->n_values &&
            (pending == 0 || values[next].put_invoke <= values[heap[0]].put_complete)) {
            mon_push(heap, pending++, next++, ends, stride);
        } else {
            cover(w, &values[heap[0]], taken);
            mon_pop(heap, pending--, ends, stride);
        }
    }
    return LIN_OK;
}

int mon_find_nothing(struct mon_work *w)
{
    if (w->n_nothings == 0 || w->n_values == 0) {
        return LIN_OK;
    }
    int verdict = mon_make_runs(w, 0);
    const struct mon_nothing *runs = w->runs.p;
    int32_t before = -1; /* the last run that begins before the operation */
    for (int32_t i = 0; i < w->n_nothings && verdict == LIN_OK; i++) {
        const struct mon_nothing *op = &MON_NOTHINGS(w)[i];
        while (before + 1 < w->n_runs && runs[before + 1].invoke < op->invoke) {
            before++;
        }
        if (before >= 0 && runs[before].complete > op->complete) {
            verdict = LIN_ILLEGAL;
        }
    }
    return verdict;
}
