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

/* Focused: values looked at on the way to that of X, at most. */
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
    if (x->role == LIN_WRITER) {
        drop(s->writers, &s->n_writers, s->completing);
        lin_lower(s->write_set.p, (uint32_t)x->slot);
    } else if (x->role == LIN_OBSERVER) {
        drop(s->observers, &s->n_observers, s->completing);
    } else {
        drop(s->swappers, &s->n_swappers, s->completing);
    }
}

static void pend_none(struct lin_search *s)
{
    s->n_writers = s->n_observers = s->n_swappers = 0;
    if (s->n_done > 0) {
        memset(s->write_set.p, 0, s->n_done * sizeof(uint64_t));
    }
    for (int32_t k = 0; k < s->plan.n_classes; k++) {
        LIN_CLASSES(&s->plan)[k].available = 0;
    }
}

void lin_pend(struct lin_search *s, int32_t event)
{
    const int32_t *events = s->plan.events.p;
    pend_none(s);
    for (int32_t e = 0; e < event; e++) {
        if (events[e] & 1) {
            s->completing = events[e] / 2;
            retire(s);
        } else {
            invoke(s, events[e] / 2);
        }
    }
}

int lin_prepare(struct lin_search *s)
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
    if (slots > 0) {
        s->observers = s->writers + slots;
        s->swappers = s->observers + slots;
    }
    pend_none(s);
    memset(s->marks.p, 0, 3 * (size_t)n_values * sizeof(int32_t));
    s->needed = s->marks.p;
    s->written = s->needed + n_values;
    s->queue = s->written + n_values;
    s->epoch = 0;
    memset(s->config, 0, s->stride * sizeof *s->config);
    lin_set_value(s->config, (uint32_t)s->plan.initial);
    return lin_set_add(&s->now, &s->budget.memory, s->config, &s->budget.work) == 0 ? LIN_OK
                                                                                    : LIN_MEMORY;
}

int lin_event(struct lin_search *s, int32_t event)
{
    if (!(event & 1)) {
        invoke(s, event / 2);
        return LIN_OK;
    }
    s->completing = event / 2;
    s->budget.work++;
    int verdict = s->focused ? complete_focused(s) : complete(s);
    if (verdict == LIN_OK) {
        struct lin_set swap = s->now;
        s->now = s->next;
        s->next = swap;
        retire(s);
        verdict = (int)core_poll_when_due(&s->budget);
    }
    return verdict;
}

void lin_set_width(struct lin_search *s, uint32_t width, int by_done)
{
    s->now.width = s->next.width = s->open.width = width;
    s->now.by_done = s->next.by_done = s->open.by_done = by_done;
}
