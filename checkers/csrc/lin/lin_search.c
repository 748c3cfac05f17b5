/* The search of one key.
 *
 * Events are taken in order. An invocation makes an operation available; a completion of X keeps
 * those configurations in which X has been linearized, after the others have been extended by
 * whatever it takes to linearize X, and no further: the rest can wait for its own completion. A
 * history is linearizable when some configuration survives every completion. The extensions are
 * those of lin_extend.c.
 */
#include "lin_search.h"

#include <string.h>

/* Work of the first, exact attempt: some milliseconds. Nearly every key is decided by it. */
#ifndef FIRST_WORK
#define FIRST_WORK 500000
#endif

/* Work of each of the cheap attempts that follow. */
#define NARROW_WORK (40 * (int64_t)FIRST_WORK)

/* Widths of the attempts that keep the cheapest configurations only. */
#ifndef LIN_WIDTHS
#define LIN_WIDTHS 8, 64, 512
#endif
static const uint32_t widths[] = {LIN_WIDTHS};

/* Widths of the attempts before those, which at each completion think of nothing else. With
 * hundreds of clients they find what the others are too slow for. */
#ifndef LIN_FOCUSED
#define LIN_FOCUSED 1, 4, 16
#endif
static const uint32_t focused[] = {LIN_FOCUSED};
#define REACH_MAX 64

/* X completes. LIN_ILLEGAL where nothing survives; `open` then holds all that was tried. */
static int complete(struct lin_search *s)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->completing];
    uint32_t slot = (uint32_t)x->slot;
    lin_set_clear(&s->next);
    lin_set_clear(&s->open);
    for (uint32_t i = 0; i < s->now.n; i++) {
        memcpy(s->extension, lin_set_at(&s->now, i), s->stride * sizeof *s->extension);
        if (lin_value_of(s->extension) == LIN_DEAD) {
            continue;
        }
        int done = lin_bit(lin_done(s->extension), slot), verdict = LIN_OK;
        int spent = x->role == LIN_WRITER && lin_bit(lin_used(s, s->extension), lin_used_bit(x));
        if (!done || (x->role == LIN_WRITER && !spent)) {
            memcpy(s->config, s->extension, s->stride * sizeof *s->config);
            verdict = lin_put(s, s->config);
        }
        if (done && verdict == LIN_OK) {
            verdict = lin_keep(s, s->extension);
        }
        if (verdict == LIN_OK) {
            verdict = (int)core_poll_when_due(&s->budget);
        }
        if (verdict) {
            return verdict;
        }
    }
    for (uint32_t i = 0; i < s->open.n; i++) {
        memcpy(s->config, lin_set_at(&s->open, i), s->stride * sizeof *s->config);
        if (lin_value_of(s->config) == LIN_DEAD) {
            continue;
        }
        int verdict = lin_extend_all(s);
        if (verdict == LIN_OK) {
            verdict = (int)core_poll_when_due(&s->budget);
        }
        if (verdict) {
            return verdict;
        }
    }
    return s->next.n == 0 ? LIN_ILLEGAL : LIN_OK;
}

/* As complete, focused on X: looks further only where what is near does not do. */
static int complete_focused(struct lin_search *s)
{
    int verdict = LIN_ILLEGAL;
    for (s->reach = 1; verdict == LIN_ILLEGAL && s->reach <= REACH_MAX; s->reach *= 4) {
        verdict = complete(s);
    }
    return verdict;
}

static void invoke(struct lin_search *s, int32_t i)
{
    struct lin_op *ops = LIN_OPS(&s->plan);
    struct lin_op *op = &ops[i];
    int32_t at;
    switch ((enum lin_role)op->role) {
    case LIN_CRASHED:
        LIN_CLASSES(&s->plan)[op->slot].available++;
        break;
    case LIN_WRITER:
        for (at = s->n_writers++; at > 0 && ops[s->writers[at - 1]].complete > op->complete; at--) {
            s->writers[at] = s->writers[at - 1];
        }
        s->writers[at] = i;
        lin_raise(s->write_set.p, (uint32_t)op->slot);
        break;
    case LIN_OBSERVER:
        s->observers[s->n_observers++] = i;
        break;
    case LIN_SWAPPER:
        s->swappers[s->n_swappers++] = i;
        break;
    default:
        break;
    }
}

static void drop(int32_t *list, int32_t *n, int32_t i)
{
    int32_t at = 0;
    while (list[at] != i) {
        at++;
    }
    --*n;
    memmove(list + at, list + at + 1, (size_t)(*n - at) * sizeof *list);
}

static void retire(struct lin_search *s)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->completing];
    struct lin_set swap = s->now;
    s->now = s->next;
    s->next = swap;
    if (x->role == LIN_WRITER) {
        drop(s->writers, &s->n_writers, s->completing);
        lin_lower(s->write_set.p, (uint32_t)x->slot);
    } else if (x->role == LIN_OBSERVER) {
        drop(s->observers, &s->n_observers, s->completing);
    } else {
        drop(s->swappers, &s->n_swappers, s->completing);
    }
}

/* Sizes everything for the planned key and starts with one configuration. */
static int prepare(struct lin_search *s)
{
    uint32_t slots = (uint32_t)s->plan.n_slots;
    uint32_t n_used = (1 + slots + (uint32_t)s->plan.n_crash_bits + 63) / 64;
    uint32_t n_values = (uint32_t)s->plan.n_values;
    s->n_done = (slots + 63) / 64;
    s->stride = 1 + s->n_done + n_used;
    if (core_reserve(&s->budget.memory, &s->buffers, 2 * (size_t)s->stride) != 0 ||
        core_reserve(&s->budget.memory, &s->pending, 3 * (size_t)slots) != 0 ||
        core_reserve(&s->budget.memory, &s->write_set, s->n_done) != 0 ||
        core_reserve(&s->budget.memory, &s->marks, 3 * (size_t)n_values) != 0 ||
        lin_set_shape(&s->now, &s->budget.memory, n_values, s->stride, s->n_done) != 0 ||
        lin_set_shape(&s->next, &s->budget.memory, n_values, s->stride, s->n_done) != 0 ||
        lin_set_shape(&s->open, &s->budget.memory, n_values, s->stride, s->n_done) != 0) {
        return LIN_MEMORY;
    }
    s->config = s->buffers.p;
    s->extension = s->config + s->stride;
    s->writers = s->pending.p;
    s->n_writers = s->n_observers = s->n_swappers = 0;
    if (slots > 0) {
        s->observers = s->writers + slots;
        s->swappers = s->observers + slots;
        memset(s->write_set.p, 0, s->n_done * sizeof(uint64_t));
    }
    memset(s->marks.p, 0, 3 * (size_t)n_values * sizeof(int32_t));
    s->needed = s->marks.p;
    s->written = s->needed + n_values;
    s->queue = s->written + n_values;
    s->epoch = 0;
    for (int32_t k = 0; k < s->plan.n_classes; k++) {
        LIN_CLASSES(&s->plan)[k].available = 0;
    }
    memset(s->config, 0, s->stride * sizeof *s->config);
    lin_set_value(s->config, (uint32_t)s->plan.initial);
    return lin_set_add(&s->now, &s->budget.memory, s->config, &s->budget.work) == 0 ? LIN_OK
                                                                                    : LIN_MEMORY;
}

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
    int verdict = prepare(s);
    const int32_t *events = s->plan.events.p;
    int64_t completions = 0;
    for (int32_t e = 0; e < s->plan.n_events && verdict == LIN_OK; e++) {
        if (!(events[e] & 1)) {
            invoke(s, events[e] / 2);
            continue;
        }
        s->completing = events[e] / 2;
        s->budget.work++;
        verdict = s->focused ? complete_focused(s) : complete(s);
        if (verdict == LIN_OK) {
            retire(s);
            completions++;
            verdict = (int)core_poll_when_due(&s->budget);
        } else if (verdict == LIN_ILLEGAL) {
            out->bad[key] = first + s->completing;
            if (out->n_states > 0) { /* there may be no array */
                report_states(s, out->states + key * out->n_states, out->n_states);
            }
        }
    }
    out->prefix[key] = completions;
    return verdict;
}

static void set_width(struct lin_search *s, uint32_t width)
{
    s->now.width = s->next.width = s->open.width = width;
}

/* Attempts that keep only some configurations, each of which is real: a survivor is a
 * linearization, its absence tells nothing. CORE_GAVE_UP where there was none. */
static int attempt_narrow(struct lin_search *s, const struct lin_output *out, int64_t key,
                          int64_t first, const uint32_t *of, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        set_width(s, of[i]);
        s->budget.attempt_max = s->focused ? s->budget.work + NARROW_WORK : 0;
        int verdict = attempt(s, out, key, first);
        int pruned = s->focused | s->now.pruned | s->next.pruned | s->open.pruned;
        s->budget.attempt_max = 0;
        if (verdict != LIN_MEMORY && verdict != CORE_GAVE_UP &&
            !(verdict == LIN_ILLEGAL && pruned)) {
            return verdict;
        }
        out->bad[key] = -1;
    }
    return CORE_GAVE_UP;
}

/* Decides the planned key. An exact attempt that proves too dear is followed by cheap kinds that
 * can each settle one side for good: with limited width every configuration kept is real, so a
 * survivor is a linearization; with reusable unknown operations everything possible stays
 * possible, so a contradiction is one. What is left after those gets the whole budget. */
int lin_decide(struct lin_search *s, const struct lin_output *out, int64_t key, int64_t first)
{
    set_width(s, 0);
    s->reusable = s->focused = 0;
    s->budget.attempt_max = FIRST_WORK;
    int verdict = attempt(s, out, key, first);
    s->budget.attempt_max = 0;
    if (verdict != CORE_GAVE_UP && verdict != LIN_MEMORY) {
        return verdict;
    }
    s->focused = 1;
    verdict = attempt_narrow(s, out, key, first, focused, sizeof focused / sizeof *focused);
    s->focused = 0;
    if (verdict != CORE_GAVE_UP) {
        return verdict;
    }
    if (s->plan.n_crash_bits > 0) {
        set_width(s, 0);
        s->reusable = 1;
        s->budget.attempt_max = s->budget.work + NARROW_WORK;
        verdict = attempt(s, out, key, first);
        s->reusable = 0;
        s->budget.attempt_max = 0;
        if (verdict != LIN_OK && verdict != LIN_MEMORY && verdict != CORE_GAVE_UP) {
            return verdict;
        }
    }
    verdict = attempt_narrow(s, out, key, first, widths, sizeof widths / sizeof *widths);
    if (verdict != CORE_GAVE_UP) {
        return verdict;
    }
    set_width(s, 0);
    return attempt(s, out, key, first);
}
