/* What is tried on one key, from the cheapest to the dearest. */
#include "lin_search.h"

#include <string.h>

/* Work of the first, exact attempt: some milliseconds. Nearly every key is decided by it. */
#ifndef FIRST_WORK
#define FIRST_WORK 500000
#endif

/* Work of each of the cheap attempts that follow. */
#ifndef NARROW_WORK
#define NARROW_WORK (40 * (int64_t)FIRST_WORK)
#endif

/* Widths of the attempts that keep the cheapest configurations only. */
#ifndef LIN_WIDTHS
#define LIN_WIDTHS 8, 64, 512
#endif
static const uint32_t widths[] = {LIN_WIDTHS};

/* Work of attempts that look at all that is pending, beside, for each event. */
#ifndef LIN_WORK_PER_EVENT
#define LIN_WORK_PER_EVENT 4000
#endif

/* Values that the register may hold when X cannot complete, each once. */
static void report_states(struct lin_search *s, int32_t *states, int64_t n)
{
    int64_t found = 0;
    memset(s->needed, 0, (size_t)s->plan.n_values * sizeof *s->needed);
    s->epoch = 1;
    for (uint32_t i = 0; i < s->open.n && found < n; i++) {
        uint32_t value = lin_value_of(lin_set_at(&s->open, i));
        if (value != LIN_DEAD && s->needed[value] != s->epoch) {
            s->needed[value] = s->epoch;
            states[found++] = LIN_VALUES(&s->plan)[value].global;
        }
    }
}

/* One attempt at the planned key. */
static int attempt(struct lin_search *s, const struct lin_output *out, int64_t key, int64_t first)
{
    int verdict = lin_prepare(s);
    const int32_t *events = s->plan.events.p;
    int64_t completions = 0;
    for (int32_t e = 0; e < s->plan.n_events && verdict == LIN_OK; e++) {
        verdict = lin_event(s, events[e]);
        completions += verdict == LIN_OK && (events[e] & 1);
        if (verdict == LIN_ILLEGAL) {
            out->bad[key] = first + s->completing;
            if (out->n_states > 0) { /* there may be no array */
                report_states(s, out->states + key * out->n_states, out->n_states);
            }
        }
    }
    out->prefix[key] = completions;
    return verdict;
}

/* Attempts that keep only some configurations, each of which is real: a survivor is a
 * linearization, its absence tells nothing. CORE_GAVE_UP where there was none. */
static int attempt_narrow(struct lin_search *s, const struct lin_output *out, int64_t key,
                          int64_t first)
{
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        lin_set_width(s, widths[i], 0);
        int verdict = attempt(s, out, key, first);
        int pruned = s->now.pruned | s->next.pruned | s->open.pruned;
        if (verdict != LIN_MEMORY && !(verdict == LIN_ILLEGAL && pruned)) {
            return verdict;
        }
        out->bad[key] = -1;
    }
    return CORE_GAVE_UP;
}

/* One guess after the other; CORE_GAVE_UP where none is right. */
static int guess(struct lin_search *s, const struct lin_manner *manners, size_t n, int64_t *prefix)
{
    for (size_t i = 0; i < n; i++) {
        int verdict = lin_guess(s, &manners[i], prefix);
        if (verdict != CORE_GAVE_UP && verdict != LIN_MEMORY) {
            return verdict;
        }
    }
    return CORE_GAVE_UP;
}

/* With unknown operations that are not spent by use, and so much more work. Only LIN_ILLEGAL tells
 * something, and what ends everything; else CORE_GAVE_UP. */
static int attempt_reusable(struct lin_search *s, const struct lin_output *out, int64_t key,
                            int64_t first, int64_t more)
{
    lin_set_width(s, 0, 0);
    s->reusable = 1;
    s->budget.attempt_max = s->budget.work + NARROW_WORK + more;
    int verdict = attempt(s, out, key, first);
    s->reusable = 0;
    s->budget.attempt_max = 0;
    return verdict == LIN_OK || verdict == LIN_MEMORY ? CORE_GAVE_UP : verdict;
}

/* Decides the planned key. An exact attempt that proves too dear is followed by cheap kinds that
 * can each settle one side for good: in a guess and with limited width every configuration kept is
 * real, so a survivor is a linearization; with reusable unknown operations everything possible
 * stays possible, so a contradiction is one. Focused guesses are quick with hundreds of clients,
 * those that tell done bits apart with few clients, however long. What is left gets the whole
 * budget. */
int lin_decide(struct lin_search *s, const struct lin_output *out, int64_t key, int64_t first)
{
    lin_set_width(s, 0, 0);
    s->reusable = s->focused = 0;
    s->budget.attempt_max = FIRST_WORK;
    int verdict = attempt(s, out, key, first);
    s->budget.attempt_max = 0;
    if (verdict != CORE_GAVE_UP && verdict != LIN_MEMORY) {
        return verdict;
    }
    int64_t more = LIN_WORK_PER_EVENT * (int64_t)s->plan.n_events;
    const struct lin_manner near[] = {{1, 0, 1, NARROW_WORK}, {1, 0, 4, NARROW_WORK}};
    const struct lin_manner far[] = {{0, 1, 1, NARROW_WORK + more}, {1, 0, 4, 10 * NARROW_WORK}};
    verdict = guess(s, near, sizeof near / sizeof *near, &out->prefix[key]);
    if (verdict == CORE_GAVE_UP && s->plan.n_crash_bits > 0) {
        verdict = attempt_reusable(s, out, key, first, more);
    }
    if (verdict == CORE_GAVE_UP) {
        verdict = guess(s, far, sizeof far / sizeof *far, &out->prefix[key]);
    }
    if (verdict == CORE_GAVE_UP) {
        verdict = attempt_narrow(s, out, key, first);
    }
    if (verdict != CORE_GAVE_UP) {
        return verdict;
    }
    lin_set_width(s, 0, 0);
    return attempt(s, out, key, first);
}
