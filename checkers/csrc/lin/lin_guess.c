/* A guess that goes back where it was wrong.
 *
 * Of configurations with the same value, or with the same value and done bits, only the cheapest
 * few are kept, those that have spent fewest operations. Each that is kept is real, so one that
 * survives all completions is a linearization. Where none is left, something was spent too soon,
 * most often not long ago: the search goes back to a point some completions before, and keeps more
 * until it is past the place where it got stuck; with each failure at one place it goes back
 * further and keeps more.
 */
#include "lin_search.h"

#include <string.h>

/* Completions between two points, and how many the first step goes back; long histories have points
 * further apart. */
#ifndef LIN_APART
#define LIN_APART 16
#endif
enum { POINTS_MAX = 4096 };

/* Failures at one place, after which it is given up. Each keeps twice as many and goes back twice as
 * far as the one before, until so many completions past the place. */
enum { TRIES = 12, PAST = 16 };

struct guess {
    struct lin_search *s;
    int64_t completions;
    int64_t stuck; /* completions before the furthest failure */
    int64_t apart;
    size_t n_points, n_kept;
    int tries; /* further failures there */
    const struct lin_manner *manner;
};

#define POINTS(g) ((struct lin_point *)(g)->s->points.p)

static int note_point(struct guess *g, int32_t event)
{
    struct lin_search *s = g->s;
    struct lin_point point = {g->completions, g->n_kept, event, 0};
    if (core_reserve(&s->budget.memory, &s->points, g->n_points + 1) != 0 ||
        core_reserve(&s->budget.memory, &s->kept, g->n_kept + (size_t)s->now.n * s->stride) != 0) {
        return LIN_MEMORY;
    }
    for (uint32_t i = 0; i < s->now.n; i++) {
        const uint64_t *config = lin_set_at(&s->now, i);
        if (lin_value_of(config) != LIN_DEAD) {
            memcpy((uint64_t *)s->kept.p + g->n_kept, config, s->stride * sizeof *config);
            g->n_kept += s->stride;
            point.n++;
        }
    }
    POINTS(g)[g->n_points++] = point;
    return LIN_OK;
}

/* Goes back, to keep more. Returns LIN_OK with the next event, or CORE_GAVE_UP. */
static int go_back(struct guess *g, int32_t *event)
{
    struct lin_search *s = g->s;
    g->tries = g->completions > g->stuck ? 0 : g->tries + 1;
    if (g->completions > g->stuck) {
        g->stuck = g->completions;
    }
    if (g->tries == TRIES) {
        return CORE_GAVE_UP;
    }
    int64_t back = (int64_t)LIN_APART << (g->tries + 1);
    while (g->n_points > 1 && POINTS(g)[g->n_points - 1].completions > g->stuck - back) {
        g->n_points--;
    }
    struct lin_point point = POINTS(g)[g->n_points - 1];
    g->n_kept = point.at + (size_t)point.n * s->stride;
    g->completions = point.completions;
    *event = point.event;
    lin_pend(s, point.event);
    s->budget.work += point.event;
    lin_set_width(s, g->manner->width << (g->tries + 1), g->manner->by_done);
    lin_set_clear(&s->now);
    for (uint32_t i = 0; i < point.n; i++) {
        const uint64_t *config = (uint64_t *)s->kept.p + point.at + (size_t)i * s->stride;
        if (lin_set_add(&s->now, &s->budget.memory, config, &s->budget.work) != 0) {
            return LIN_MEMORY;
        }
    }
    return LIN_OK;
}

static int run(struct guess *g)
{
    struct lin_search *s = g->s;
    const int32_t *events = s->plan.events.p;
    int verdict = note_point(g, 0);
    for (int32_t e = 0; e < s->plan.n_events && verdict == LIN_OK;) {
        verdict = lin_event(s, events[e]);
        if (verdict == LIN_ILLEGAL) {
            verdict = go_back(g, &e);
            continue;
        }
        if (events[e++] & 1) {
            g->completions++;
            if (verdict == LIN_OK &&
                g->completions - POINTS(g)[g->n_points - 1].completions >= g->apart) {
                verdict = note_point(g, e);
            }
            if (g->completions == g->stuck + PAST) {
                lin_set_width(s, g->manner->width, g->manner->by_done);
            }
        }
    }
    return verdict;
}

int lin_guess(struct lin_search *s, const struct lin_manner *manner, int64_t *completions)
{
    struct guess g = {.s = s, .stuck = -1, .manner = manner};
    g.apart = s->plan.n_events / (2 * POINTS_MAX) + LIN_APART;
    s->focused = manner->focused;
    s->budget.attempt_max = s->budget.work + manner->work;
    lin_set_width(s, manner->width, manner->by_done);
    int verdict = lin_prepare(s);
    if (verdict == LIN_OK) {
        verdict = run(&g);
    }
    s->budget.attempt_max = 0;
    s->focused = 0;
    core_release(&s->budget.memory, &s->points);
    core_release(&s->budget.memory, &s->kept);
    *completions = g.completions;
    return verdict;
}
