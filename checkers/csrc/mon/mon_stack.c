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
 * Instants are the ends of certain times, numbered in order. It is counted by how many certain
 * times each instant is covered; a tree finds puts that span the beginning of a run.
 */
#include "mon_stack.h"

#include <stdlib.h>
#include <string.h>

static int by_time(const void *left, const void *right)
{
    int64_t x = *(const int64_t *)left, y = *(const int64_t *)right;
    return x < y ? -1 : x > y;
}

int32_t mon_stack_number(const struct mon_stack *s, int64_t t)
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

/* Below node `at`, which stands for [low, high]. */
static void find(struct mon_stack *s, int32_t at, int32_t low, int32_t high, int32_t until,
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
    find(s, 2 * at, low, middle, until, t);
    find(s, 2 * at + 1, middle + 1, high, until, t);
}

void mon_stack_find(struct mon_stack *s, int64_t begin)
{
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
    find(s, 1, 0, s->leaves - 1, until, begin);
}

static void set_reach(struct mon_stack *s, int32_t i, int64_t reach)
{
    int32_t at = s->leaves + i;
    s->reach[at] = reach;
    for (at /= 2; at > 0; at /= 2) {
        int64_t x = s->reach[2 * at], y = s->reach[2 * at + 1];
        s->reach[at] = x > y ? x : y;
    }
}

void mon_stack_cover(struct mon_stack *s, const struct mon_solid *solid, int32_t by)
{
    mon_counts_add(&s->covers, solid->from + 1, solid->to - 1, by);
    if (s->taken.nodes != NULL && solid->v.take_complete != LIN_NEVER) {
        mon_counts_add(&s->taken, solid->from + 1, solid->to - 1, by);
    }
    s->starts[solid->from] += by;
}

void mon_stack_runs(struct mon_stack *s, int32_t from, int32_t to)
{
    while (from < to) {
        int32_t end = mon_counts_first(&s->covers, from + 1, to);
        end = end < 0 ? to : end;
        if (s->starts[from] > 0) {
            s->runs[s->n_runs++] = (struct mon_run){from, end};
        }
        from = end;
    }
}

int mon_stack_peel(struct mon_stack *s, struct mon_run run)
{
    int64_t begin = s->times[run.from], end = s->times[run.to];
    mon_stack_find(s, begin);
    int any = 0;
    for (int32_t i = 0; i < s->n_found; i++) {
        struct mon_solid *solid = &s->solid[s->found[i]];
        if (solid->v.put_complete < end && solid->v.take_complete >= end) {
            mon_stack_cover(s, solid, -1);
            set_reach(s, s->found[i], INT64_MIN);
            solid->gone = 1;
            any = 1;
        }
    }
    return any;
}

int mon_stack_reserve(struct mon_work *w, struct mon_stack *s, size_t more)
{
    size_t n = (size_t)w->n_values, points = 2 * n + 2 + more;
    *s = (struct mon_stack){.leaves = 1};
    if (points > INT32_MAX / 8) {
        return -1;
    }
    while ((size_t)s->leaves < n) {
        s->leaves *= 2;
    }
    const size_t sizes[5] = {sizeof(struct mon_solid), sizeof(int64_t), sizeof(int64_t),
                             sizeof(int32_t), sizeof(struct mon_run)};
    const size_t needs[5] = {n, points, 2 * (size_t)s->leaves, points, points};
    for (int i = 0; i < 5; i++) {
        w->extra[i].size = sizes[i];
        if (core_reserve(&w->memory, &w->extra[i], needs[i]) != 0) {
            return -1;
        }
    }
    s->solid = w->extra[0].p;
    s->times = w->extra[1].p;
    s->reach = w->extra[2].p;
    s->starts = w->extra[3].p;
    s->runs = w->extra[4].p;
    s->found = w->heap.p;
    return 0;
}

void mon_stack_note(struct mon_work *w, struct mon_stack *s)
{
    for (int32_t i = 0; i < w->n_values; i++) {
        struct mon_value v = MON_VALUES(w)[i];
        if (v.put_complete < v.take_invoke) {
            s->solid[s->n_solid++] = (struct mon_solid){.v = v, .number = i};
            s->times[s->n_times++] = v.put_complete;
            s->times[s->n_times++] = v.take_invoke;
        }
    }
}

void mon_stack_sort(struct mon_stack *s)
{
    if (s->n_times == 0) {
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
}

int mon_stack_begin(struct mon_work *w, struct mon_stack *s)
{
    w->extra[5].size = sizeof(struct mon_node);
    if (mon_counts_begin(&s->covers, &w->memory, &w->extra[5], (size_t)s->n_times) != 0) {
        return -1;
    }
    memset(s->starts, 0, (size_t)s->n_times * sizeof *s->starts);
    for (int32_t i = 0; i < 2 * s->leaves; i++) {
        s->reach[i] = INT64_MIN;
    }
    for (int32_t i = 0; i < s->n_solid; i++) {
        struct mon_solid *solid = &s->solid[i];
        solid->from = mon_stack_number(s, solid->v.put_complete);
        solid->to = mon_stack_number(s, solid->v.take_invoke);
        solid->gone = 0;
        mon_stack_cover(s, solid, 1);
        set_reach(s, i, solid->v.put_complete);
    }
    s->n_runs = 0;
    mon_stack_runs(s, 0, s->n_times - 1);
    return 0;
}

int mon_stack(struct mon_work *w)
{
    struct mon_stack s;
    if (mon_stack_reserve(w, &s, 0) != 0) {
        return LIN_MEMORY;
    }
    mon_stack_note(w, &s);
    mon_stack_sort(&s);
    if (s.n_solid > 0 && mon_stack_begin(w, &s) != 0) {
        return LIN_MEMORY;
    }
    while (s.n_runs > 0) {
        struct mon_run run = s.runs[--s.n_runs];
        if (!mon_stack_peel(&s, run)) {
            return LIN_ILLEGAL;
        }
        mon_stack_runs(&s, run.from, run.to);
    }
    return mon_find_nothing(w);
}
