/* What a configuration may do next: the rules of the search.
 *
 * Extensions are restricted to a normal form, into which every linearization can be brought:
 *
 * 1. An operation that observes the present value and does not change it (read, cas_false,
 *    cas a a) is linearized as soon as the value allows: it disturbs nobody.
 * 2. A blind write that nobody observes hides: it can be placed right before another blind write.
 *    So a blind write makes every other pending ok write `done`, without spending it, and a write
 *    of the present value is `done` at once. At its own completion a write that is not spent may
 *    take effect visibly one last time.
 * 3. Before its completion a write takes effect only for the sake of an observer that needs its
 *    value next. Unknown operations have no completion, so they are never used otherwise. A
 *    configuration between such a write and its observer is `transient`; it only goes forward.
 * 4. Of pending ok writes of one value the one that completes first is used, before unknown ones;
 *    of equal unknown operations the lowest.
 *
 * Together with the dominance of lin_set.h this bounds the work by what is observed, and neither by
 * the number of unknown operations nor by the orders of writes that nobody sees.
 */
#include "lin_search.h"

#include <string.h>

/* The used bit of the lowest unused member of a class that has been invoked; 0 = none. */
static uint32_t unused_member(const struct lin_search *s, uint64_t *config,
                              const struct lin_class *crashed)
{
    const uint64_t *used = lin_used(s, config);
    uint32_t bit = 1 + (uint32_t)s->plan.n_slots + (uint32_t)crashed->base;
    uint32_t end = bit + (uint32_t)crashed->available;
    while (bit < end) {
        uint64_t unused = ~used[bit / 64] >> (bit % 64);
        if (unused != 0) {
            bit += (uint32_t)__builtin_ctzll(unused);
            return bit < end ? bit : 0;
        }
        bit += 64 - bit % 64;
    }
    return 0;
}

static inline int satisfied(const struct lin_op *op, uint32_t value)
{
    return ((uint32_t)op->a == value) != (op->kind == LIN_CAS_FALSE);
}

/* Linearizes all that changes nothing now (rule 1). A write of the present value can take effect
 * unnoticed; it is not spent by that. (Without this a cas_false that only an unknown cas can help
 * would find the write undone: nobody waits for the present value there.) */
static void settle(struct lin_search *s, uint64_t *config)
{
    const struct lin_op *ops = LIN_OPS(&s->plan);
    uint32_t value = lin_value_of(config);
    for (int32_t i = 0; i < s->n_writers; i++) {
        const struct lin_op *op = &ops[s->writers[i]];
        if ((uint32_t)op->a == value) {
            lin_raise(lin_done(config), (uint32_t)op->slot);
        }
    }
    for (int32_t i = 0; i < s->n_observers; i++) {
        const struct lin_op *op = &ops[s->observers[i]];
        if (satisfied(op, value) && !lin_bit(lin_done(config), (uint32_t)op->slot)) {
            lin_raise(lin_done(config), (uint32_t)op->slot);
            lin_lower(lin_used(s, config), LIN_TRANSIENT);
        }
    }
}

/* X is linearized: frees its bits and keeps the configuration. */
int lin_keep(struct lin_search *s, uint64_t *config)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->completing];
    lin_lower(lin_done(config), (uint32_t)x->slot);
    lin_lower(lin_used(s, config), lin_used_bit(x));
    return lin_set_add(&s->next, &s->budget.memory, config, &s->budget.work) == 0 ? LIN_OK
                                                                                  : LIN_MEMORY;
}

/* Settles, then keeps the configuration or leaves it to be extended. A write X that hides is not
 * kept here: extending was for its visible use. */
int lin_put(struct lin_search *s, uint64_t *config)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->completing];
    settle(s, config);
    if (x->role != LIN_WRITER && lin_bit(lin_done(config), (uint32_t)x->slot)) {
        return lin_keep(s, config);
    }
    return lin_set_add(&s->open, &s->budget.memory, config, &s->budget.work) == 0 ? LIN_OK
                                                                                  : LIN_MEMORY;
}

/* Starts the extension of the configuration at hand: the value becomes `value`. */
static uint64_t *extend(struct lin_search *s, int32_t value)
{
    memcpy(s->extension, s->config, s->stride * sizeof *s->extension);
    lin_set_value(s->extension, (uint32_t)value);
    s->budget.work++;
    return s->extension;
}

/* d gets a blind write that spends bit `used`: other pending ok writes may hide before it. */
static void write_blindly(struct lin_search *s, uint64_t *d, uint32_t used)
{
    const uint64_t *writes = s->write_set.p;
    for (uint32_t w = 0; w < s->n_done; w++) {
        lin_done(d)[w] |= writes[w];
    }
    lin_raise(lin_used(s, d), used);
}

static void need(struct lin_search *s, int32_t value)
{
    if (s->needed[value] != s->epoch) {
        s->needed[value] = s->epoch;
        s->queue[s->n_queue++] = value;
    }
}

/* Marks the value that X waits for, and those from which a cas leads there, `reach` in all; what
 * others wait for is left to their own completions. Returns as mark_needed. */
static int mark_for_x(struct lin_search *s)
{
    const struct lin_op *ops = LIN_OPS(&s->plan), *x = &ops[s->completing];
    const struct lin_class *classes = LIN_CLASSES(&s->plan);
    if (x->role == LIN_WRITER || x->kind == LIN_CAS_FALSE) {
        return x->kind == LIN_CAS_FALSE;
    }
    need(s, x->a);
    for (int32_t i = 0; i < s->n_queue && s->n_queue < s->reach; i++) {
        for (int32_t k = 0; k < s->n_swappers && s->n_queue < s->reach; k++) {
            const struct lin_op *op = &ops[s->swappers[k]];
            if (op->b == s->queue[i] && !lin_bit(lin_done(s->config), (uint32_t)op->slot)) {
                need(s, op->a);
            }
        }
        for (int32_t k = LIN_VALUES(&s->plan)[s->queue[i]].cas_in; k >= 0 && s->n_queue < s->reach;
             k = classes[k].next_in) {
            s->budget.work++;
            if (unused_member(s, s->config, &classes[k])) {
                need(s, classes[k].a);
            }
        }
    }
    return 0;
}

/* Marks the values that observers of the configuration at hand wait for, and those from which
 * unknown cas lead there. Returns whether some cas_false waits for any other value than the present
 * one. */
static int mark_needed(struct lin_search *s)
{
    const struct lin_op *ops = LIN_OPS(&s->plan);
    const struct lin_class *classes = LIN_CLASSES(&s->plan);
    int any = 0;
    if (s->epoch == INT32_MAX) {
        memset(s->marks.p, 0, 2 * (size_t)s->plan.n_values * sizeof(int32_t));
        s->epoch = 0;
    }
    s->epoch++;
    s->n_queue = 0;
    if (s->focused) {
        return mark_for_x(s);
    }
    for (int32_t i = 0; i < s->n_observers; i++) {
        const struct lin_op *op = &ops[s->observers[i]];
        if (lin_bit(lin_done(s->config), (uint32_t)op->slot)) {
            continue;
        }
        if (op->kind == LIN_CAS_FALSE) {
            any = 1;
        } else {
            need(s, op->a);
        }
    }
    for (int32_t i = 0; i < s->n_swappers; i++) {
        const struct lin_op *op = &ops[s->swappers[i]];
        if (!lin_bit(lin_done(s->config), (uint32_t)op->slot)) {
            need(s, op->a);
        }
    }
    for (int32_t i = 0; i < s->n_queue; i++) {
        for (int32_t k = LIN_VALUES(&s->plan)[s->queue[i]].cas_in; k >= 0; k = classes[k].next_in) {
            s->budget.work++;
            if (s->needed[classes[k].a] != s->epoch && unused_member(s, s->config, &classes[k])) {
                need(s, classes[k].a);
            }
        }
    }
    return any;
}

/* Does anybody wait for a write of this value? The present value may be waited for too: a write of
 * it lets other writes hide. `any` comes from mark_needed. */
static inline int wanted(const struct lin_search *s, int32_t value, int any)
{
    return s->needed[value] == s->epoch || (any && (uint32_t)value != lin_value_of(s->config));
}

/* An unknown write of this class, if one is left. */
static int extend_by_unknown_write(struct lin_search *s, int32_t class, int any)
{
    const struct lin_class *k = &LIN_CLASSES(&s->plan)[class];
    uint32_t bit = unused_member(s, s->config, k);
    if (bit == 0 || s->written[k->b] == s->epoch || !wanted(s, k->b, any)) {
        return LIN_OK;
    }
    uint64_t *d = extend(s, k->b);
    write_blindly(s, d, s->reusable ? LIN_TRANSIENT : bit);
    lin_raise(lin_used(s, d), LIN_TRANSIENT);
    return lin_put(s, d);
}

/* Writes of needed values, rules 3 and 4. */
static int extend_by_writes(struct lin_search *s, int any)
{
    const struct lin_op *ops = LIN_OPS(&s->plan);
    for (int32_t i = 0; i < s->n_writers; i++) {
        const struct lin_op *op = &ops[s->writers[i]];
        if (lin_bit(lin_used(s, s->config), lin_used_bit(op)) || s->written[op->a] == s->epoch) {
            continue;
        }
        s->written[op->a] = s->epoch;
        if (s->writers[i] == s->completing || !wanted(s, op->a, any)) {
            continue;
        }
        uint64_t *d = extend(s, op->a);
        write_blindly(s, d, lin_used_bit(op));
        lin_raise(lin_used(s, d), LIN_TRANSIENT);
        int verdict = lin_put(s, d);
        if (verdict) {
            return verdict;
        }
    }
    int32_t n = any ? s->plan.n_classes : s->n_queue;
    for (int32_t i = 0; i < n; i++) {
        int32_t class = any ? i : LIN_VALUES(&s->plan)[s->queue[i]].write_class;
        s->budget.work++;
        if (class < 0 || LIN_CLASSES(&s->plan)[class].a >= 0) {
            continue;
        }
        int verdict = extend_by_unknown_write(s, class, any);
        if (verdict) {
            return verdict;
        }
    }
    return LIN_OK;
}

static int extend_by_unknown_cas(struct lin_search *s, int any)
{
    const struct lin_class *classes = LIN_CLASSES(&s->plan);
    uint32_t value = lin_value_of(s->config);
    for (int32_t k = LIN_VALUES(&s->plan)[value].cas_out; k >= 0; k = classes[k].next_out) {
        s->budget.work++;
        uint32_t bit = unused_member(s, s->config, &classes[k]);
        if (bit == 0 || !wanted(s, classes[k].b, any)) {
            continue;
        }
        uint64_t *d = extend(s, classes[k].b);
        lin_raise(lin_used(s, d), s->reusable ? LIN_TRANSIENT : bit);
        lin_raise(lin_used(s, d), LIN_TRANSIENT);
        int verdict = lin_put(s, d);
        if (verdict) {
            return verdict;
        }
    }
    return LIN_OK;
}

static int extend_by_swaps(struct lin_search *s)
{
    const struct lin_op *ops = LIN_OPS(&s->plan);
    uint32_t value = lin_value_of(s->config);
    for (int32_t i = 0; i < s->n_swappers; i++) {
        const struct lin_op *op = &ops[s->swappers[i]];
        if ((uint32_t)op->a != value || lin_bit(lin_done(s->config), (uint32_t)op->slot)) {
            continue;
        }
        uint64_t *d = extend(s, op->b);
        lin_raise(lin_done(d), (uint32_t)op->slot);
        lin_raise(lin_used(s, d), lin_used_bit(op)); /* spent: dominance must not prefer it */
        lin_lower(lin_used(s, d), LIN_TRANSIENT);
        int verdict = lin_put(s, d);
        if (verdict) {
            return verdict;
        }
    }
    return LIN_OK;
}

/* All extensions of the configuration at hand by one operation. */
int lin_extend_all(struct lin_search *s)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->completing];
    int transient = lin_bit(lin_used(s, s->config), LIN_TRANSIENT);
    int verdict = LIN_OK;
    if (x->role == LIN_WRITER && !transient) {
        uint64_t *d = extend(s, x->a);
        write_blindly(s, d, lin_used_bit(x));
        settle(s, d);
        verdict = lin_keep(s, d);
    }
    if (verdict == LIN_OK) {
        verdict = extend_by_swaps(s);
    }
    if (verdict != LIN_OK) {
        return verdict;
    }
    int any = mark_needed(s);
    if (!any && s->n_queue == 0) {
        return LIN_OK;
    }
    if (!transient) {
        verdict = extend_by_writes(s, any);
    }
    return verdict != LIN_OK ? verdict : extend_by_unknown_cas(s, any);
}
