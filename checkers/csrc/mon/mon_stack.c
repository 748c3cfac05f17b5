/* Last in, first out.
 *
 * At an instant at which no value is in there for certain the stack may as well be empty: what
 * might be in there can go in later or come out sooner without crossing anything. So the history
 * falls into runs, each the union of overlapping times in which some value is in there for certain.
 * During a run the stack is never empty, so the value at its bottom went in before the run begins
 * and came out after it ends, and any value that could do so can be put to the bottom. Such values
 * are taken out, which makes the run fall into smaller ones; a run without one is a contradiction.
 * (The decrease-and-conquer scheme of Lee and Mathur, OOPSLA 2025.)
 *
 * Instants are the ends of certain times, numbered in order. A segment tree counts by how many
 * certain times each instant is covered; another one finds puts that span the beginning of a run.
 */
#include "mon.h"

#include <stdlib.h>
#include <string.h>

struct node {
    int32_t least; /* of the covers below, `added` included */
    int32_t added; /* to all below */
};

struct solid {
    struct mon_value v;
    int32_t from, to; /* numbers of put_complete and take_invoke */
};

struct run {
    int32_t from, to;
};

struct stack {
    struct solid *solid; /* values that were in there for certain, in order of put_invoke */
    int64_t *times;
    struct node *covers;
    int64_t *reach;  /* by solid, as a tree: latest put_complete of those that are left */
    int32_t *starts; /* by instant: solids that begin there */
    struct run *runs;
    int32_t *found;
    int32_t n_solid, n_times, n_runs, n_found, leaves;
};

static int by_time(const void *left, const void *right)
{
    int64_t x = *(const int64_t *)left, y = *(const int64_t *)right;
    return x < y ? -1 : x > y;
}

static int32_t number_of(const struct stack *s, int64_t t)
{
    int32_t low = 0, n = s->n_times;
    while (n > 1) {
        int32_t half = n / 2;
        if (s->times[low + half] <= t) {
            low += half;
            n -= half;
        } else {
            n = half;
        }
    }
    return low;
}

/* Adds `by` to the covers of [from, to], below node `at` that stands for [low, high]. */
static void add(struct node *covers, int32_t at, int32_t low, int32_t high, int32_t from,
                int32_t to, int32_t by)
{
    if (from > high || to < low) {
        return;
    }
    if (from <= low && high <= to) {
        covers[at].least += by;
        covers[at].added += by;
        return;
    }
    int32_t middle = low + (high - low) / 2;
    add(covers, 2 * at, low, middle, from, to, by);
    add(covers, 2 * at + 1, middle + 1, high, from, to, by);
    int32_t x = covers[2 * at].least, y = covers[2 * at + 1].least;
    covers[at].least = (x < y ? x : y) + covers[at].added;
}

/* The first instant in [from, to] that nothing covers, or -1; `above` was added on the way. */
static int32_t bare(const struct node *covers, int32_t at, int32_t low, int32_t high, int32_t from,
                    int32_t to, int32_t above)
{
    if (from > high || to < low || covers[at].least + above > 0) {
        return -1;
    }
    if (low == high) {
        return low;
    }
    int32_t middle = low + (high - low) / 2;
    above += covers[at].added;
    int32_t found = bare(covers, 2 * at, low, middle, from, to, above);
    return found >= 0 ? found : bare(covers, 2 * at + 1, middle + 1, high, from, to, above);
}

/* Puts that began until `until` and may have ended at time t or later. */
static void find_puts(struct stack *s, int32_t at, int32_t low, int32_t high, int32_t until,
                      int64_t t)
{
    if (low >= until || s->reach[at] < t) {
        return;
    }
    if (low == high) {
        s->found[s->n_found++] = low;
        return;
    }
    int32_t middle = low + (high - low) / 2;
    find_puts(s, 2 * at, low, middle, until, t);
    find_puts(s, 2 * at + 1, middle + 1, high, until, t);
}

static void set_reach(struct stack *s, int32_t i, int64_t reach)
{
    int32_t at = s->leaves + i;
    s->reach[at] = reach;
    for (at /= 2; at > 0; at /= 2) {
        int64_t x = s->reach[2 * at], y = s->reach[2 * at + 1];
        s->reach[at] = x > y ? x : y;
    }
}

static void cover(struct stack *s, const struct solid *solid, int32_t by)
{
    add(s->covers, 1, 0, s->leaves - 1, solid->from + 1, solid->to - 1, by);
    s->starts[solid->from] += by;
}

/* Notes the runs between the bare instants of [from, to]. */
static void note_runs(struct stack *s, int32_t from, int32_t to)
{
    while (from < to) {
        int32_t end = bare(s->covers, 1, 0, s->leaves - 1, from + 1, to, 0);
        end = end < 0 ? to : end;
        if (s->starts[from] > 0) {
            s->runs[s->n_runs++] = (struct run){from, end};
        }
        from = end;
    }
}

/* Takes the bottom values out of a run. Returns whether there was one. */
static int peel(struct stack *s, struct run run)
{
    int64_t begin = s->times[run.from], end = s->times[run.to];
    int32_t until = 0;
    for (int32_t n = s->n_solid; n > 0;) {
        int32_t half = n / 2;
        if (s->solid[until + half].v.put_invoke <= begin) {
            until += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    s->n_found = 0;
    find_puts(s, 1, 0, s->leaves - 1, until, begin);
    int any = 0;
    for (int32_t i = 0; i < s->n_found; i++) {
        const struct solid *solid = &s->solid[s->found[i]];
        if (solid->v.put_complete < end && solid->v.take_complete >= end) {
            cover(s, solid, -1);
            set_reach(s, s->found[i], INT64_MIN);
            any = 1;
        }
    }
    return any;
}

static int reserve(struct mon_work *w, struct stack *s)
{
    size_t n = (size_t)w->n_values, points = 2 * n + 2;
    s->leaves = 1;
    while ((size_t)s->leaves < points) {
        s->leaves *= 2;
    }
    const size_t sizes[6] = {sizeof(struct solid), sizeof(int64_t), sizeof(struct node),
                             sizeof(int64_t),      sizeof(int32_t), sizeof(struct run)};
    const size_t needs[6] = {n,      points, 2 * (size_t)s->leaves, 2 * (size_t)s->leaves,
                             points, points};
    for (int i = 0; i < 6; i++) {
        w->extra[i].size = sizes[i];
        if (core_reserve(&w->memory, &w->extra[i], needs[i]) != 0) {
            return -1;
        }
    }
    s->solid = w->extra[0].p;
    s->times = w->extra[1].p;
    s->covers = w->extra[2].p;
    s->reach = w->extra[3].p;
    s->starts = w->extra[4].p;
    s->runs = w->extra[5].p;
    s->found = w->heap.p;
    return 0;
}

static void fill(struct mon_work *w, struct stack *s)
{
    for (int32_t i = 0; i < w->n_values; i++) {
        struct mon_value v = MON_VALUES(w)[i];
        if (v.put_complete < v.take_invoke) {
            s->solid[s->n_solid++].v = v;
            s->times[s->n_times++] = v.put_complete;
            s->times[s->n_times++] = v.take_invoke;
        }
    }
    if (s->n_solid == 0) {
        return;
    }
    qsort(s->times, (size_t)s->n_times, sizeof *s->times, by_time);
    int32_t distinct = 1;
    for (int32_t i = 1; i < s->n_times; i++) {
        if (s->times[i] != s->times[distinct - 1]) {
            s->times[distinct++] = s->times[i];
        }
    }
    s->n_times = distinct;
    memset(s->covers, 0, 2 * (size_t)s->leaves * sizeof *s->covers);
    memset(s->starts, 0, (size_t)s->n_times * sizeof *s->starts);
    for (int32_t i = 0; i < 2 * s->leaves; i++) {
        s->reach[i] = INT64_MIN;
    }
    for (int32_t i = 0; i < s->n_solid; i++) {
        struct solid *solid = &s->solid[i];
        solid->from = number_of(s, solid->v.put_complete);
        solid->to = number_of(s, solid->v.take_invoke);
        cover(s, solid, 1);
        set_reach(s, i, solid->v.put_complete);
    }
}

int mon_stack(struct mon_work *w)
{
    struct stack s = {.n_solid = 0};
    if (w->n_values > INT32_MAX / 16 || reserve(w, &s) != 0) {
        return LIN_MEMORY;
    }
    fill(w, &s);
    if (s.n_solid > 0) {
        note_runs(&s, 0, s.n_times - 1);
    }
    while (s.n_runs > 0) {
        struct run run = s.runs[--s.n_runs];
        if (!peel(&s, run)) {
            return LIN_ILLEGAL;
        }
        note_runs(&s, run.from, run.to);
    }
    return mon_find_nothing(w);
}
