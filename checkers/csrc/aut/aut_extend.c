/* What a configuration may do next.
 *
 * 1. An operation that never changes a state is linearized as soon as it is possible: it disturbs
 *    nobody.
 * 2. Of pending operations of one class the one that completes first is linearized first: any
 *    linearization stays one when the two change places. Of equal unknown ones, the lowest.
 * 3. An unknown operation that leads back to the same state is not used.
 * 4. A step that any state allows and that only adds (`affine`) commutes with its like. While no
 *    operation that asks something of the state is pending, X alone is linearized.
 */
#include "aut_search.h"

#include <string.h>

static int settle(struct aut_search *s, uint64_t *config)
{
    for (int32_t i = 0; i < s->n_observers; i++) {
        const struct aut_op *op = &AUT_OPS(s)[s->observers[i]];
        if (aut_bit(aut_seen(&s->shape, config), op->slot)) {
            continue;
        }
        const int64_t *to;
        int count = aut_step(&s->steps, &s->budget.memory, (int64_t)config[0], op->class, &to);
        s->budget.work++;
        if (count < 0) {
            return -count;
        }
        if (count > 0) {
            aut_raise(aut_seen(&s->shape, config), op->slot);
        }
    }
    return LIN_OK;
}

static int has_done(struct aut_search *s, uint64_t *config, const struct aut_op *op)
{
    return op->pure ? aut_bit(aut_seen(&s->shape, config), op->slot)
                    : aut_bit(aut_done(config), op->slot);
}

/* Settles, then keeps a configuration that has linearized X, without X's bit, or leaves it to be
 * extended. */
static int put(struct aut_search *s, uint64_t *config)
{
    const struct aut_op *x = &AUT_OPS(s)[s->completing];
    int verdict = settle(s, config);
    if (verdict != LIN_OK) {
        return verdict;
    }
    struct aut_set *set = &s->open;
    if (has_done(s, config, x)) {
        aut_lower(x->pure ? aut_seen(&s->shape, config) : aut_done(config), x->slot);
        set = &s->next;
    }
    return aut_set_add(set, &s->budget.memory, config, &s->budget.work) == 0 ? LIN_OK : LIN_MEMORY;
}

/* All extensions of the configuration at hand by one operation of this class; `used` = the bit that
 * an unknown one spends, else -1; `slot` = the bit of a pending one. */
static int extend(struct aut_search *s, int32_t class, int32_t slot, int32_t used)
{
    int64_t state = (int64_t)s->config[0], targets[AUT_TARGETS];
    const int64_t *to;
    int count = aut_step(&s->steps, &s->budget.memory, state, class, &to);
    s->budget.work++;
    if (count < 0) {
        return -count;
    }
    if (count > 0) {
        memcpy(targets, to, (size_t)count * sizeof *to);
    }
    for (int i = 0; i < count; i++) {
        if (used >= 0 && targets[i] == state) {
            continue;
        }
        memcpy(s->extension, s->config, s->shape.stride * sizeof *s->extension);
        s->extension[0] = (uint64_t)targets[i];
        if (used >= 0) {
            aut_raise(aut_used(&s->shape, s->extension), used);
        } else {
            aut_raise(aut_done(s->extension), slot);
        }
        int verdict = put(s, s->extension);
        if (verdict != LIN_OK) {
            return verdict;
        }
    }
    return LIN_OK;
}

/* The used bit of the lowest unused member that has been invoked, or -1. */
static int32_t unused_member(struct aut_search *s, const struct aut_crashed *crashed)
{
    const uint64_t *used = aut_used(&s->shape, s->config);
    int32_t bit = crashed->base, end = crashed->base + crashed->available;
    while (bit < end) {
        uint64_t unused = ~used[bit / 64] >> (bit % 64);
        if (unused != 0) {
            bit += __builtin_ctzll(unused);
            return bit < end ? bit : -1;
        }
        bit += 64 - bit % 64;
    }
    return -1;
}

static int asks_nothing(const struct aut_input *in, int32_t class)
{
    return in->ask == NULL && in->lo[class] == INT64_MIN && in->hi[class] == INT64_MAX;
}

/* Rule 4: may X be linearized at once, without any other? */
static int x_alone(struct aut_search *s)
{
    if (s->n_observers > 0 || !asks_nothing(s->in, AUT_OPS(s)[s->completing].class)) {
        return 0;
    }
    for (int32_t i = 0; i < s->n_changers; i++) {
        if (!asks_nothing(s->in, AUT_OPS(s)[s->changers[i]].class)) {
            return 0;
        }
    }
    for (int32_t k = 0; k < s->n_active; k++) {
        if (!asks_nothing(s->in, ((struct aut_crashed *)s->crashed.p)[k].class)) {
            return 0;
        }
    }
    return 1;
}

static int extend_all(struct aut_search *s)
{
    int64_t *tried = s->tried.p;
    int alone = x_alone(s);
    s->stamp++;
    for (int32_t i = 0; i < s->n_changers; i++) {
        const struct aut_op *op = &AUT_OPS(s)[s->changers[i]];
        if (aut_bit(aut_done(s->config), op->slot) || tried[op->class] == s->stamp ||
            (alone && s->changers[i] != s->completing)) {
            continue;
        }
        tried[op->class] = s->stamp;
        int verdict = extend(s, op->class, op->slot, -1);
        if (verdict != LIN_OK) {
            return verdict;
        }
    }
    for (int32_t k = 0; k < s->n_active && !alone; k++) {
        const struct aut_crashed *crashed = (struct aut_crashed *)s->crashed.p + k;
        int32_t bit = unused_member(s, crashed);
        int verdict = bit < 0 ? LIN_OK : extend(s, crashed->class, -1, bit);
        if (verdict != LIN_OK) {
            return verdict;
        }
    }
    return LIN_OK;
}

int aut_complete(struct aut_search *s)
{
    aut_set_clear(&s->next);
    aut_set_clear(&s->open);
    for (uint32_t i = 0; i < s->now.n; i++) {
        memcpy(s->config, aut_at(&s->now, i), s->shape.stride * sizeof *s->config);
        if (aut_dead(s->config)) {
            continue;
        }
        int verdict = put(s, s->config);
        if (verdict == LIN_OK) {
            verdict = (int)core_poll_when_due(&s->budget);
        }
        if (verdict != LIN_OK) {
            return verdict;
        }
    }
    for (uint32_t i = 0; i < s->open.n; i++) {
        memcpy(s->config, aut_at(&s->open, i), s->shape.stride * sizeof *s->config);
        if (aut_dead(s->config)) {
            continue;
        }
        int verdict = extend_all(s);
        if (verdict == LIN_OK) {
            verdict = (int)core_poll_when_due(&s->budget);
        }
        if (verdict != LIN_OK) {
            return verdict;
        }
    }
    return s->next.n == 0 ? LIN_ILLEGAL : LIN_OK;
}
