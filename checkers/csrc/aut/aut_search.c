/* The search of one key: invocations make operations available, completions of X keep those
 * configurations in which X has been linearized, after the others have been extended by whatever
 * it takes, and no further (Lowe, Concurrency and Computation 29(4), 2017). The extensions are
 * those of aut_extend.c. */
#include "aut_search.h"

#include <string.h>

/* Work of the first, exact attempt: so much, and so much more for each operation. */
#ifndef AUT_FIRST_WORK
#define AUT_FIRST_WORK 2000000
#endif
#ifndef WORK_PER_OP
#define WORK_PER_OP 40
#endif

/* How many more are looked at than kept. */
#define OPEN_WIDTH 64

/* Configurations kept by attempts that may only say yes. */
#ifndef AUT_WIDTHS
#define AUT_WIDTHS 16, 256, 4096
#endif
static const uint32_t widths[] = {AUT_WIDTHS};

static void insert_sorted(const struct aut_op *ops, int32_t *list, int32_t *n, int32_t op)
{
    int32_t at = (*n)++;
    for (; at > 0 && ops[list[at - 1]].complete > ops[op].complete; at--) {
        list[at] = list[at - 1];
    }
    list[at] = op;
}

static void invoke(struct aut_search *s, int32_t i)
{
    struct aut_op *ops = AUT_OPS(s);
    if (ops[i].complete == LIN_NEVER) {
        int32_t k = ((int32_t *)s->of_class.p)[ops[i].class];
        if (k >= 0) {
            ((struct aut_crashed *)s->crashed.p)[k].available++;
            s->n_active = k < s->n_active ? s->n_active : k + 1;
        }
        return;
    }
    if (ops[i].pure) {
        insert_sorted(ops, s->observers, &s->n_observers, i);
    } else {
        insert_sorted(ops, s->changers, &s->n_changers, i);
    }
}

/* The pending operation that completes first, or -1. Both lists are sorted. */
static int32_t soonest(const struct aut_search *s)
{
    const struct aut_op *ops = AUT_OPS(s);
    if (s->n_changers == 0) {
        return s->n_observers == 0 ? -1 : s->observers[0];
    }
    if (s->n_observers == 0 || ops[s->changers[0]].complete <= ops[s->observers[0]].complete) {
        return s->changers[0];
    }
    return s->observers[0];
}

static void retire(struct aut_search *s)
{
    struct aut_set swap = s->now;
    s->now = s->next;
    s->next = swap;
    if (s->n_changers > 0 && s->changers[0] == s->completing) {
        memmove(s->changers, s->changers + 1, (size_t)--s->n_changers * sizeof *s->changers);
    } else {
        memmove(s->observers, s->observers + 1, (size_t)--s->n_observers * sizeof *s->observers);
    }
}

static int prepare(struct aut_search *s)
{
    s->shape.n_done = ((uint32_t)s->n_done_bits + 63) / 64;
    s->shape.n_seen = ((uint32_t)s->n_seen_bits + 63) / 64;
    s->shape.n_used = ((uint32_t)s->n_used_bits + 63) / 64;
    s->shape.stride = 2 + s->shape.n_done + s->shape.n_seen + s->shape.n_used;
    if (core_reserve(&s->budget.memory, &s->buffers, 2 * (size_t)s->shape.stride) != 0 ||
        aut_set_shape(&s->now, &s->budget.memory, &s->shape) != 0 ||
        aut_set_shape(&s->next, &s->budget.memory, &s->shape) != 0 ||
        aut_set_shape(&s->open, &s->budget.memory, &s->shape) != 0) {
        return LIN_MEMORY;
    }
    s->config = s->buffers.p;
    s->extension = s->config + s->shape.stride;
    s->n_changers = s->n_observers = s->n_active = 0;
    for (int32_t k = 0; k < s->n_crashed; k++) {
        ((struct aut_crashed *)s->crashed.p)[k].available = 0;
    }
    memset(s->config, 0, s->shape.stride * sizeof *s->config);
    for (int64_t i = 0; i < s->in->n_initial; i++) {
        s->config[0] = (uint64_t)s->in->initial[i];
        if (aut_set_add(&s->now, &s->budget.memory, s->config, &s->budget.work) != 0) {
            return LIN_MEMORY;
        }
    }
    return LIN_OK;
}

/* The states in a set, each once, in order of discovery. Returns whether there was room. */
static int report_states(const struct aut_set *set, const struct aut_output *out, int64_t key)
{
    int64_t *states = out->states + key * out->n_states, found = 0;
    for (uint32_t i = 0; i < set->n; i++) {
        int64_t state = (int64_t)aut_at(set, i)[0], at = 0;
        while (at < found && states[at] != state) {
            at++;
        }
        if (at == found && found == out->n_states) {
            out->n_found[key] = found;
            return 0;
        }
        if (at == found) {
            states[found++] = state;
        }
    }
    out->n_found[key] = found;
    return 1;
}

static int finish(struct aut_search *s, const struct aut_output *out, int64_t key, int64_t first,
                  int64_t *completions)
{
    s->budget.work++;
    int verdict = aut_complete(s);
    if (verdict == LIN_OK) {
        retire(s);
        ++*completions;
        return (int)core_poll_when_due(&s->budget);
    }
    if (verdict == LIN_ILLEGAL) {
        out->bad[key] = first + s->completing;
        (void)report_states(&s->open, out, key);
    }
    return verdict;
}

/* One attempt at the planned key. On a tie the invocation comes first: intervals are closed. */
static int attempt(struct aut_search *s, const struct aut_output *out, int64_t key, int64_t first)
{
    int verdict = prepare(s);
    int64_t completions = 0;
    int32_t next = 0;
    while (verdict == LIN_OK && (next < s->n_ops || soonest(s) >= 0)) {
        s->completing = soonest(s);
        if (next < s->n_ops &&
            (s->completing < 0 || AUT_OPS(s)[next].invoke <= AUT_OPS(s)[s->completing].complete)) {
            invoke(s, next++);
        } else {
            verdict = finish(s, out, key, first, &completions);
        }
    }
    out->prefix[key] = completions;
    if (verdict == LIN_OK) {
        int pruned = s->now.pruned | s->next.pruned | s->open.pruned;
        if (!report_states(&s->now, out, key) || pruned) {
            out->n_found[key] = -1;
        }
    }
    return verdict;
}

static void set_width(struct aut_search *s, uint32_t width)
{
    s->now.width = s->next.width = width;
    s->open.width = width * OPEN_WIDTH;
}

/* Decides the planned key. An exact attempt that proves too dear is followed by some that keep
 * only a few configurations: each one kept is real, so a survivor is a linearization. What is left
 * after those gets the whole budget. */
int aut_decide(struct aut_search *s, const struct aut_output *out, int64_t key, int64_t first)
{
    set_width(s, 0);
    s->budget.attempt_max = s->budget.work + AUT_FIRST_WORK + WORK_PER_OP * (int64_t)s->n_ops;
    int verdict = attempt(s, out, key, first);
    s->budget.attempt_max = 0;
    if (verdict != CORE_GAVE_UP && verdict != LIN_MEMORY) {
        return verdict;
    }
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        set_width(s, widths[i]);
        verdict = attempt(s, out, key, first);
        int pruned = s->now.pruned | s->next.pruned | s->open.pruned;
        if (verdict != LIN_MEMORY && !(verdict == LIN_ILLEGAL && pruned)) {
            return verdict;
        }
        out->bad[key] = -1;
        out->n_found[key] = 0;
    }
    set_width(s, 0);
    return attempt(s, out, key, first);
}
