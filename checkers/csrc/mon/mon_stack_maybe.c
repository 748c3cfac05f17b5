/* Deadlines of the values of a stack that nobody is known to have taken.
 *
 * Such a value is treated as if it was in there until its deadline, at first forever. Where a run
 * has no value that can be at its bottom, its first instant s begins a run whatever the deadlines
 * are, for the value put then is not one of the open ones (which could be the bottom). The run must
 * end by the latest instant E at which one of those that can be its bottom can be taken. So some
 * instant x of those until E at which no taken value is in there must be bare, and all open values
 * that cover x have to be out by x. Likewise who found nothing needs a bare instant x. Of instants
 * covered by the same open values the latest leaves most. What was put to a bottom before stays
 * right when others are out sooner.
 *
 * Several x may be left: they are tried, those first that ask fewest values to be out, as long as
 * takes of unknown outcome began soon enough (Hall's condition). Where the last way fails nothing is
 * left; otherwise each further way begins anew with the other choice. What that may cost is limited.
 */
#include "mon_maybe.h"
#include "mon_stack.h"

#include <stdlib.h>

/* Of all keys of a call; about a nanosecond each. */
#ifndef MON_GUESS_WORK
#define MON_GUESS_WORK 2000000000
#endif

enum { FOUND = 1, NONE = 0, DEAR = -1 };

/* One of several instants was chosen. */
struct choice {
    int32_t at;   /* the place of the instant that was tried */
    int32_t more; /* others are left */
};

/* What a value's deadline was. */
struct change {
    int32_t solid, to;
};

struct guess {
    struct mon_work *w;
    struct mon_stack s;
    struct mon_deadline *open; /* solids that nobody is known to have taken, by put_complete */
    int32_t *bounds;           /* instants to choose from, the latest first */
    struct change *changes;
    struct mon_counts slack; /* by instant: takes of unknown outcome that began until then, less the
                                values with deadlines until then, and 1 */
    int32_t n_open, n_bounds, n_changes;
    int32_t n_choices, depth; /* known, and made in this attempt */
    int64_t work;
};

#define CHOICES(g) ((struct choice *)(g)->w->extra[10].p)

static int by_put(const void *left, const void *right)
{
    const struct mon_deadline *x = left, *y = right;
    return x->t < y->t ? -1 : x->t > y->t;
}

static int reserve(struct guess *g)
{
    struct mon_work *w = g->w;
    size_t n = (size_t)w->n_values;
    const size_t sizes[3] = {sizeof(struct mon_deadline), sizeof(int32_t), sizeof(struct change)};
    if (mon_stack_reserve(w, &g->s, n + 2 * (size_t)w->n_nothings) != 0) {
        return -1;
    }
    for (int i = 0; i < 3; i++) {
        w->extra[6 + i].size = sizes[i];
        if (core_reserve(&w->memory, &w->extra[6 + i], n + 1) != 0) {
            return -1;
        }
    }
    w->extra[9].size = w->extra[11].size = sizeof(struct mon_node);
    w->extra[10].size = sizeof(struct choice);
    g->open = w->extra[6].p;
    g->bounds = w->extra[7].p;
    g->changes = w->extra[8].p;
    return 0;
}

static void note(struct guess *g)
{
    struct mon_stack *s = &g->s;
    mon_stack_note(g->w, s);
    for (int32_t i = 0; i < s->n_solid; i++) {
        const struct mon_value *v = &s->solid[i].v;
        if (v->take_complete != LIN_NEVER) {
            s->times[s->n_times++] = v->take_complete;
        } else {
            g->open[g->n_open++] = (struct mon_deadline){v->put_complete, i};
        }
    }
    for (int32_t i = 0; i < g->w->n_nothings; i++) {
        s->times[s->n_times++] = MON_NOTHINGS(g->w)[i].invoke;
        s->times[s->n_times++] = MON_NOTHINGS(g->w)[i].complete;
    }
    mon_stack_sort(s);
    if (g->n_open > 0) {
        qsort(g->open, (size_t)g->n_open, sizeof *g->open, by_put);
    }
}

/* Everything as at first. */
static int begin(struct guess *g)
{
    struct mon_stack *s = &g->s;
    struct mon_work *w = g->w;
    const int64_t *maybes = w->maybes.p;
    size_t n = (size_t)s->n_times;
    if (mon_counts_begin(&s->taken, &w->memory, &w->extra[9], n) != 0 ||
        mon_stack_begin(w, s) != 0 ||
        mon_counts_begin(&g->slack, &w->memory, &w->extra[11], n) != 0) {
        return -1;
    }
    int32_t began = 0;
    for (int32_t t = 0; t < s->n_times; t++) {
        while (began < w->n_maybes && maybes[began] <= s->times[t]) {
            began++;
        }
        mon_counts_add(&g->slack, t, t, began + 1);
    }
    g->depth = 0;
    g->work += 200 * ((int64_t)n + s->n_solid);
    return 0;
}

static const struct mon_solid *solid_of(const struct guess *g, int32_t k)
{
    return &g->s.solid[g->open[k].value];
}

static int covers(const struct guess *g, int32_t k, int32_t x)
{
    const struct mon_solid *solid = solid_of(g, k);
    return !solid->gone && solid->from < x && solid->to > x;
}

/* How many open values certainly went in before instant x. */
static int32_t before(const struct guess *g, int32_t x)
{
    int32_t low = 0;
    for (int32_t n = g->n_open; n > 0;) {
        int32_t half = n / 2;
        if (solid_of(g, low + half)->from < x) {
            low += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return low;
}

static void move(struct guess *g, int32_t i, int32_t to)
{
    struct mon_solid *solid = &g->s.solid[i];
    int32_t was = solid->to;
    mon_stack_cover(&g->s, solid, -1);
    solid->to = to;
    mon_stack_cover(&g->s, solid, 1);
    if (to < was) {
        mon_counts_add(&g->slack, to, was - 1, -1);
    } else {
        mon_counts_add(&g->slack, was, to - 1, 1);
    }
    g->work += 400;
}

/* Finds the instants in [from, to] that may become bare; none of them is. */
static void find_bounds(struct guess *g, int32_t from, int32_t to)
{
    int32_t k = before(g, to);
    g->n_bounds = 0;
    while (from <= to && (to = mon_counts_last(&g->s.taken, from, to)) >= 0) {
        g->bounds[g->n_bounds++] = to;
        while (k > 0 && !covers(g, k - 1, to)) {
            k--;
            g->work++;
        }
        if (k == 0) {
            break;
        }
        to = solid_of(g, k - 1)->from;
    }
}

/* Makes instant x bare, which no open value covers that went in before `low`. Returns whether takes
 * of unknown outcome began soon enough; where not, everything stays. */
static int free_instant(struct guess *g, int32_t x, int32_t low)
{
    g->n_changes = 0;
    for (int32_t k = before(g, x) - 1; k >= 0 && solid_of(g, k)->from >= low; k--, g->work++) {
        if (covers(g, k, x)) {
            int32_t i = g->open[k].value;
            g->changes[g->n_changes++] = (struct change){i, g->s.solid[i].to};
            move(g, i, x);
        }
    }
    if (mon_counts_first(&g->slack, 0, g->s.n_times - 1) < 0) {
        return 1;
    }
    while (g->n_changes > 0) {
        struct change change = g->changes[--g->n_changes];
        move(g, change.solid, change.to);
    }
    return 0;
}

/* Makes some instant in [from, to] bare. FOUND, NONE, DEAR, or -LIN_MEMORY. */
static int settle(struct guess *g, int32_t from, int32_t to, int32_t low)
{
    if (mon_counts_first(&g->s.covers, from, to) >= 0) {
        return FOUND;
    }
    find_bounds(g, from, to);
    int32_t at = g->n_bounds > 1 && g->depth < g->n_choices ? CHOICES(g)[g->depth].at : 0;
    while (at < g->n_bounds && !free_instant(g, g->bounds[g->n_bounds - 1 - at], low)) {
        at++;
    }
    if (g->work > MON_GUESS_WORK) {
        return DEAR;
    }
    if (at >= g->n_bounds) {
        return NONE;
    }
    if (g->n_bounds > 1) {
        if (core_reserve(&g->w->memory, &g->w->extra[10], (size_t)g->depth + 1) != 0) {
            return -LIN_MEMORY;
        }
        CHOICES(g)[g->depth++] = (struct choice){at, at + 1 < g->n_bounds};
    }
    return FOUND;
}

/* The latest instant at which a run can end that has no bottom. */
static int32_t latest_end(const struct guess *g, struct mon_run run)
{
    const struct mon_stack *s = &g->s;
    int64_t latest = INT64_MIN;
    for (int32_t i = 0; i < s->n_found; i++) {
        const struct mon_value *v = &s->solid[s->found[i]].v;
        if (v->put_complete < s->times[run.to] && v->take_complete > latest) {
            latest = v->take_complete;
        }
    }
    return mon_stack_number(s, latest);
}

/* One way. FOUND, NONE, DEAR, or -LIN_MEMORY. */
static int attempt(struct guess *g)
{
    struct mon_stack *s = &g->s;
    if (begin(g) != 0) {
        return -LIN_MEMORY;
    }
    for (int32_t i = 0; i < g->w->n_nothings; i++) {
        const struct mon_nothing *op = &MON_NOTHINGS(g->w)[i];
        int32_t from = mon_stack_number(s, op->invoke), to = mon_stack_number(s, op->complete);
        int settled = settle(g, from, to, 0);
        if (settled != FOUND) {
            return settled;
        }
    }
    s->n_runs = 0;
    mon_stack_runs(s, 0, s->n_times - 1);
    while (s->n_runs > 0) {
        struct mon_run run = s->runs[--s->n_runs];
        if (!mon_stack_peel(s, run)) {
            int settled = settle(g, run.from + 1, latest_end(g, run), run.from);
            if (settled != FOUND) {
                return settled;
            }
        }
        mon_stack_runs(s, run.from, run.to);
    }
    return FOUND;
}

int mon_stack_due(struct mon_work *w, int64_t *due)
{
    struct guess g = {.w = w, .work = w->guessed};
    if (reserve(&g) != 0) {
        return LIN_MEMORY;
    }
    note(&g);
    int found;
    while ((found = attempt(&g)) == NONE) {
        g.n_choices = g.depth;
        while (g.n_choices > 0 && !CHOICES(&g)[g.n_choices - 1].more) {
            g.n_choices--;
        }
        if (g.n_choices == 0) {
            break;
        }
        CHOICES(&g)[g.n_choices - 1].at++;
    }
    w->guessed = g.work;
    if (found == NONE) {
        return LIN_ILLEGAL;
    }
    if (found != FOUND) {
        return found == DEAR ? MON_UNFIT : LIN_MEMORY;
    }
    for (int32_t i = 0; i < w->n_values; i++) {
        due[i] = LIN_NEVER;
    }
    for (int32_t k = 0; k < g.n_open; k++) {
        due[solid_of(&g, k)->number] = g.s.times[solid_of(&g, k)->to];
    }
    return LIN_OK;
}
