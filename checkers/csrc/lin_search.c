/* The search of one key, and the loop over keys.
 *
 * Events are taken in order. An invocation makes an operation available; a completion of X keeps
 * those configurations in which X has been linearized, after the others have been extended by
 * whatever it takes to linearize X, and no further: the rest can wait for its own completion. A
 * history is linearizable when some configuration survives every completion.
 *
 * Extensions are restricted to a normal form, into which every linearization can be brought:
 *
 * 1. An operation that observes the present value and does not change it (read, cas_false,
 *    cas a a) is linearized as soon as the value allows: it disturbs nobody.
 * 2. A blind write that nobody observes hides: it can be placed right before another blind write.
 *    So a blind write makes every other pending ok write `done`, without spending it. At its own
 *    completion a write that is not spent may take effect visibly one last time.
 * 3. Before its completion a write takes effect only for the sake of an observer that needs its
 *    value next. Unknown operations have no completion, so they are never used otherwise. A
 *    configuration between such a write and its observer is `transient`; it only goes forward.
 * 4. Of pending ok writes of one value the one that completes first is used, before unknown ones;
 *    of equal unknown operations the lowest.
 *
 * Together with the dominance of lin_set.h this bounds the work by what is observed, and neither by
 * the number of unknown operations nor by the orders of writes that nobody sees.
 */
#define _POSIX_C_SOURCE 200809L

#include "lin.h"
#include "lin_plan.h"
#include "lin_set.h"

#include <string.h>
#include <time.h>

/* Units of work between two looks at the clock and the stop flag: some tens of microseconds. */
#ifndef WORK_PER_LOOK
#define WORK_PER_LOOK 8192
#endif

/* Not a verdict: one attempt at a key was too dear, another kind may not be. */
#define GAVE_UP 100

/* Work of the first, exact attempt: some milliseconds. Nearly every key is decided by it. */
#ifndef FIRST_WORK
#define FIRST_WORK 500000
#endif

/* Widths of the attempts that keep the cheapest configurations only. */
static const uint32_t WIDTHS[] = {8, 64, 512};

/* Bit of `used` that marks a transient configuration; smaller is better, like the others. */
#define TRANSIENT 0u

struct search {
    struct lin_mem mem;
    struct lin_plan plan;
    struct lin_set now;  /* configurations after the last completion */
    struct lin_set next; /* after this one */
    struct lin_set open; /* to be extended */
    struct lin_array buffers;   /* uint64: two configurations */
    struct lin_array pending;   /* int32: writers, observers, swappers */
    struct lin_array marks;     /* int32 by value: epoch needed, epoch written; then the queue */
    struct lin_array write_set; /* uint64: done bits of pending ok writes */
    uint64_t *c;       /* the configuration at hand */
    uint64_t *d;       /* its extension */
    int32_t *writers;  /* pending ok writes, soonest completion first */
    int32_t *observers;
    int32_t *swappers;
    int32_t n_writers, n_observers, n_swappers;
    int32_t *needed, *written, *queue;
    int32_t n_queue;
    int32_t epoch;
    uint32_t n_done;
    uint32_t stride;
    int32_t x; /* the operation that completes */
    int64_t work, work_max, look_at;
    int64_t try_max; /* work after which the present attempt gives up; 0 = none */
    int reusable;    /* unknown operations are not spent by use: allows too much */
    int64_t deadline_ns;
    const int32_t *stop;
};

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int look(struct search *s)
{
    s->look_at = s->work + WORK_PER_LOOK;
    if (s->stop != NULL && __atomic_load_n(s->stop, __ATOMIC_RELAXED) != 0) {
        return LIN_STOPPED;
    }
    if (s->work_max > 0 && s->work > s->work_max) {
        return LIN_STEPS;
    }
    if (s->try_max > 0 && s->work > s->try_max) {
        return GAVE_UP;
    }
    return clock_ns() >= s->deadline_ns ? LIN_TIME : LIN_OK;
}

static inline uint64_t *done_of(uint64_t *c)
{
    return c + 1;
}

static inline uint64_t *used_of(const struct search *s, uint64_t *c)
{
    return c + 1 + s->n_done;
}

/* Raised for a writer that took effect visibly and for a swapper; observers spend nothing. */
static inline uint32_t used_bit(const struct lin_op *op)
{
    return 1 + (uint32_t)op->slot;
}

/* The used bit of the lowest unused member of a class that has been invoked; 0 = none. */
static uint32_t unused_member(const struct search *s, uint64_t *c, const struct lin_class *class)
{
    const uint64_t *used = used_of(s, c);
    uint32_t bit = 1 + (uint32_t)s->plan.n_slots + (uint32_t)class->base;
    uint32_t end = bit + (uint32_t)class->available;
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
 * unnoticed; it is not spent by that. */
static void settle(struct search *s, uint64_t *c)
{
    const struct lin_op *ops = LIN_OPS(&s->plan);
    uint32_t value = lin_value_of(c);
    for (int32_t i = 0; i < s->n_writers; i++) {
        const struct lin_op *op = &ops[s->writers[i]];
        if ((uint32_t)op->a == value) {
            lin_raise(done_of(c), (uint32_t)op->slot);
        }
    }
    for (int32_t i = 0; i < s->n_observers; i++) {
        const struct lin_op *op = &ops[s->observers[i]];
        if (satisfied(op, value) && !lin_bit(done_of(c), (uint32_t)op->slot)) {
            lin_raise(done_of(c), (uint32_t)op->slot);
            lin_lower(used_of(s, c), TRANSIENT);
        }
    }
}

/* X is linearized: frees its bits and keeps the configuration. */
static int keep(struct search *s, uint64_t *c)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->x];
    lin_lower(done_of(c), (uint32_t)x->slot);
    lin_lower(used_of(s, c), used_bit(x));
    return lin_set_add(&s->next, &s->mem, c, &s->work) == 0 ? LIN_OK : LIN_MEMORY;
}

/* Settles, then keeps the configuration or leaves it to be extended. A write X that hides is not
 * kept here: extending was for its visible use. */
static int put(struct search *s, uint64_t *c)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->x];
    settle(s, c);
    if (x->role != LIN_WRITER && lin_bit(done_of(c), (uint32_t)x->slot)) {
        return keep(s, c);
    }
    return lin_set_add(&s->open, &s->mem, c, &s->work) == 0 ? LIN_OK : LIN_MEMORY;
}

/* Starts the extension d of c: the value becomes `value`. */
static uint64_t *extend(struct search *s, int32_t value)
{
    memcpy(s->d, s->c, s->stride * sizeof *s->d);
    lin_set_value(s->d, (uint32_t)value);
    s->work++;
    return s->d;
}

/* d gets a blind write that spends bit `used`: other pending ok writes may hide before it. */
static void write_blindly(struct search *s, uint64_t *d, uint32_t used)
{
    const uint64_t *writes = s->write_set.p;
    for (uint32_t w = 0; w < s->n_done; w++) {
        done_of(d)[w] |= writes[w];
    }
    lin_raise(used_of(s, d), used);
}

static void need(struct search *s, int32_t value)
{
    if (s->needed[value] != s->epoch) {
        s->needed[value] = s->epoch;
        s->queue[s->n_queue++] = value;
    }
}

/* Marks the values that the observers of c wait for, and those from which unknown cas lead there.
 * Returns whether some cas_false waits for any other value than the present one. */
static int mark_needed(struct search *s)
{
    const struct lin_op *ops = LIN_OPS(&s->plan);
    const struct lin_class *classes = LIN_CLASSES(&s->plan);
    int any = 0;
    s->epoch++;
    s->n_queue = 0;
    for (int32_t i = 0; i < s->n_observers; i++) {
        const struct lin_op *op = &ops[s->observers[i]];
        if (lin_bit(done_of(s->c), (uint32_t)op->slot)) {
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
        if (!lin_bit(done_of(s->c), (uint32_t)op->slot)) {
            need(s, op->a);
        }
    }
    for (int32_t i = 0; i < s->n_queue; i++) {
        for (int32_t k = LIN_VALUES(&s->plan)[s->queue[i]].cas_in; k >= 0;
             k = classes[k].next_in) {
            s->work++;
            if (s->needed[classes[k].a] != s->epoch && unused_member(s, s->c, &classes[k])) {
                need(s, classes[k].a);
            }
        }
    }
    return any;
}

/* Does anybody wait for a write of this value? The present value may be waited for too: a write of
 * it lets other writes hide. `any` comes from mark_needed. */
static inline int wanted(const struct search *s, int32_t value, int any)
{
    return s->needed[value] == s->epoch || (any && (uint32_t)value != lin_value_of(s->c));
}

/* An unknown write of this class, if one is left. */
static int extend_by_unknown_write(struct search *s, int32_t class, int any)
{
    const struct lin_class *k = &LIN_CLASSES(&s->plan)[class];
    uint32_t bit = unused_member(s, s->c, k);
    if (bit == 0 || s->written[k->b] == s->epoch || !wanted(s, k->b, any)) {
        return LIN_OK;
    }
    uint64_t *d = extend(s, k->b);
    write_blindly(s, d, s->reusable ? TRANSIENT : bit);
    lin_raise(used_of(s, d), TRANSIENT);
    return put(s, d);
}

/* Writes of needed values, rules 3 and 4. */
static int extend_by_writes(struct search *s, int any)
{
    const struct lin_op *ops = LIN_OPS(&s->plan);
    for (int32_t i = 0; i < s->n_writers; i++) {
        const struct lin_op *op = &ops[s->writers[i]];
        if (lin_bit(used_of(s, s->c), used_bit(op)) ||
            s->written[op->a] == s->epoch) {
            continue;
        }
        s->written[op->a] = s->epoch;
        if (s->writers[i] == s->x || !wanted(s, op->a, any)) {
            continue;
        }
        uint64_t *d = extend(s, op->a);
        write_blindly(s, d, used_bit(op));
        lin_raise(used_of(s, d), TRANSIENT);
        int verdict = put(s, d);
        if (verdict) {
            return verdict;
        }
    }
    int32_t n = any ? s->plan.n_classes : s->n_queue;
    for (int32_t i = 0; i < n; i++) {
        int32_t class = any ? i : LIN_VALUES(&s->plan)[s->queue[i]].write_class;
        s->work++;
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

static int extend_by_unknown_cas(struct search *s, int any)
{
    const struct lin_class *classes = LIN_CLASSES(&s->plan);
    uint32_t value = lin_value_of(s->c);
    for (int32_t k = LIN_VALUES(&s->plan)[value].cas_out; k >= 0; k = classes[k].next_out) {
        s->work++;
        uint32_t bit = unused_member(s, s->c, &classes[k]);
        if (bit == 0 || !wanted(s, classes[k].b, any)) {
            continue;
        }
        uint64_t *d = extend(s, classes[k].b);
        lin_raise(used_of(s, d), s->reusable ? TRANSIENT : bit);
        lin_raise(used_of(s, d), TRANSIENT);
        int verdict = put(s, d);
        if (verdict) {
            return verdict;
        }
    }
    return LIN_OK;
}

static int extend_by_swaps(struct search *s)
{
    const struct lin_op *ops = LIN_OPS(&s->plan);
    uint32_t value = lin_value_of(s->c);
    for (int32_t i = 0; i < s->n_swappers; i++) {
        const struct lin_op *op = &ops[s->swappers[i]];
        if ((uint32_t)op->a != value || lin_bit(done_of(s->c), (uint32_t)op->slot)) {
            continue;
        }
        uint64_t *d = extend(s, op->b);
        lin_raise(done_of(d), (uint32_t)op->slot);
        lin_raise(used_of(s, d), used_bit(op)); /* spent: dominance must not prefer it */
        lin_lower(used_of(s, d), TRANSIENT);
        int verdict = put(s, d);
        if (verdict) {
            return verdict;
        }
    }
    return LIN_OK;
}

/* All extensions of c by one operation. */
static int extend_all(struct search *s)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->x];
    int transient = lin_bit(used_of(s, s->c), TRANSIENT);
    int verdict = LIN_OK;
    if (x->role == LIN_WRITER && !transient) {
        uint64_t *d = extend(s, x->a);
        write_blindly(s, d, used_bit(x));
        settle(s, d);
        verdict = keep(s, d);
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

/* X completes. LIN_ILLEGAL where no configuration survives; `open` then holds all that was tried. */
static int complete(struct search *s)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->x];
    uint32_t slot = (uint32_t)x->slot;
    lin_set_clear(&s->next);
    lin_set_clear(&s->open);
    for (uint32_t i = 0; i < s->now.n; i++) {
        memcpy(s->d, lin_set_at(&s->now, i), s->stride * sizeof *s->d);
        if (lin_value_of(s->d) == LIN_DEAD) {
            continue;
        }
        int done = lin_bit(done_of(s->d), slot), verdict = LIN_OK;
        int spent = x->role == LIN_WRITER && lin_bit(used_of(s, s->d), used_bit(x));
        if (!done || (x->role == LIN_WRITER && !spent)) {
            memcpy(s->c, s->d, s->stride * sizeof *s->c);
            verdict = put(s, s->c);
        }
        if (done && verdict == LIN_OK) {
            verdict = keep(s, s->d);
        }
        if (verdict == LIN_OK && s->work >= s->look_at) {
            verdict = look(s);
        }
        if (verdict) {
            return verdict;
        }
    }
    for (uint32_t i = 0; i < s->open.n; i++) {
        memcpy(s->c, lin_set_at(&s->open, i), s->stride * sizeof *s->c);
        if (lin_value_of(s->c) == LIN_DEAD) {
            continue;
        }
        int verdict = extend_all(s);
        if (verdict == LIN_OK && s->work >= s->look_at) {
            verdict = look(s);
        }
        if (verdict) {
            return verdict;
        }
    }
    return s->next.n == 0 ? LIN_ILLEGAL : LIN_OK;
}

static void invoke(struct search *s, int32_t i)
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

static void retire(struct search *s)
{
    const struct lin_op *x = &LIN_OPS(&s->plan)[s->x];
    struct lin_set swap = s->now;
    s->now = s->next;
    s->next = swap;
    if (x->role == LIN_WRITER) {
        drop(s->writers, &s->n_writers, s->x);
        lin_lower(s->write_set.p, (uint32_t)x->slot);
    } else if (x->role == LIN_OBSERVER) {
        drop(s->observers, &s->n_observers, s->x);
    } else {
        drop(s->swappers, &s->n_swappers, s->x);
    }
}

/* Sizes everything for the planned key and starts with one configuration. */
static int prepare(struct search *s)
{
    uint32_t slots = (uint32_t)s->plan.n_slots;
    uint32_t n_used = (1 + slots + (uint32_t)s->plan.n_crash_bits + 63) / 64;
    uint32_t n_values = (uint32_t)s->plan.n_values;
    s->n_done = (slots + 63) / 64;
    s->stride = 1 + s->n_done + n_used;
    if (lin_reserve(&s->mem, &s->buffers, 2 * (size_t)s->stride) != 0 ||
        lin_reserve(&s->mem, &s->pending, 3 * (size_t)slots) != 0 ||
        lin_reserve(&s->mem, &s->write_set, s->n_done) != 0 ||
        lin_reserve(&s->mem, &s->marks, 3 * (size_t)n_values) != 0 ||
        lin_set_shape(&s->now, &s->mem, n_values, s->stride, s->n_done) != 0 ||
        lin_set_shape(&s->next, &s->mem, n_values, s->stride, s->n_done) != 0 ||
        lin_set_shape(&s->open, &s->mem, n_values, s->stride, s->n_done) != 0) {
        return LIN_MEMORY;
    }
    s->c = s->buffers.p;
    s->d = s->c + s->stride;
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
    memset(s->c, 0, s->stride * sizeof *s->c);
    lin_set_value(s->c, (uint32_t)s->plan.initial);
    return lin_set_add(&s->now, &s->mem, s->c, &s->work) == 0 ? LIN_OK : LIN_MEMORY;
}

/* Values that the register may hold when X cannot complete, each once. */
static void report_states(struct search *s, int32_t *states, int64_t n)
{
    int64_t found = 0;
    s->epoch++;
    for (uint32_t i = 0; i < s->open.n && found < n; i++) {
        uint32_t value = lin_value_of(lin_set_at(&s->open, i));
        if (value != LIN_DEAD && s->needed[value] != s->epoch) {
            s->needed[value] = s->epoch;
            states[found++] = LIN_VALUES(&s->plan)[value].global;
        }
    }
}

/* One attempt at the planned key. */
static int attempt(struct search *s, const struct lin_output *out, int64_t key, int64_t first)
{
    int verdict = prepare(s);
    const int32_t *events = s->plan.events.p;
    int64_t completions = 0;
    for (int32_t e = 0; e < s->plan.n_events && verdict == LIN_OK; e++) {
        if (!(events[e] & 1)) {
            invoke(s, events[e] / 2);
            continue;
        }
        s->x = events[e] / 2;
        s->work++;
        verdict = complete(s);
        if (verdict == LIN_OK) {
            retire(s);
            completions++;
            verdict = s->work >= s->look_at ? look(s) : LIN_OK;
        } else if (verdict == LIN_ILLEGAL) {
            out->bad[key] = first + s->x;
            report_states(s, out->states + key * out->n_states, out->n_states);
        }
    }
    out->prefix[key] = completions;
    return verdict;
}

static void set_width(struct search *s, uint32_t width)
{
    s->now.width = s->next.width = s->open.width = width;
}

/* Decides the planned key. An exact attempt that proves too dear is followed by two cheap kinds
 * that can each settle one side for good: with reusable unknown operations everything possible
 * stays possible, so a contradiction is one; with limited width every configuration kept is real,
 * so a survivor is a linearization. What is left after those gets the whole budget. */
static int check_key(struct search *s, const struct lin_output *out, int64_t key, int64_t first)
{
    set_width(s, 0);
    s->reusable = 0;
    s->try_max = FIRST_WORK;
    int verdict = attempt(s, out, key, first);
    if (verdict != GAVE_UP && verdict != LIN_MEMORY) {
        return verdict;
    }
    s->try_max = 0;
    if (s->plan.n_crash_bits > 0) {
        s->reusable = 1;
        s->try_max = s->work + 40 * (int64_t)FIRST_WORK;
        verdict = attempt(s, out, key, first);
        s->reusable = 0;
        s->try_max = 0;
        if (verdict != LIN_OK && verdict != LIN_MEMORY && verdict != GAVE_UP) {
            return verdict;
        }
    }
    for (size_t i = 0; i < sizeof WIDTHS / sizeof *WIDTHS; i++) {
        set_width(s, WIDTHS[i]);
        verdict = attempt(s, out, key, first);
        int pruned = s->now.pruned | s->next.pruned | s->open.pruned;
        if (verdict != LIN_MEMORY && !(verdict == LIN_ILLEGAL && pruned)) {
            return verdict;
        }
        out->bad[key] = -1;
    }
    set_width(s, 0);
    return attempt(s, out, key, first);
}

static int check_offsets(const struct lin_input *in, struct lin_report *report)
{
    int64_t before = 0;
    for (int64_t k = 0; k <= in->n_keys; k++) {
        int64_t at = in->offsets[k];
        if (at < before || at > in->n_ops || (k == 0 && at != 0) ||
            (k == in->n_keys && at != in->n_ops)) {
            report->invalid = "offsets do not rise from 0 to the number of operations";
            report->where = k;
            return -1;
        }
        before = at;
    }
    if (in->n_values < 1 || in->initial < 0 || in->initial >= in->n_values) {
        report->invalid = "initial value is not below n_values";
        report->where = 0;
        return -1;
    }
    return 0;
}

static void free_all(struct search *s)
{
    struct lin_array *arrays[] = {&s->buffers, &s->pending, &s->marks, &s->write_set};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        lin_release(&s->mem, arrays[i]);
    }
    lin_set_free(&s->now, &s->mem);
    lin_set_free(&s->next, &s->mem);
    lin_set_free(&s->open, &s->mem);
    lin_plan_free(&s->plan, &s->mem);
}

int lin_check(const struct lin_input *in, const struct lin_limits *limits,
              const struct lin_output *out, struct lin_report *report)
{
    struct search s = {
        .mem = {0, limits->memory_bytes < 0 ? 0 : (size_t)limits->memory_bytes},
        .buffers = {.size = sizeof(uint64_t)},
        .pending = {.size = sizeof(int32_t)},
        .marks = {.size = sizeof(int32_t)},
        .write_set = {.size = sizeof(uint64_t)},
        .work_max = limits->steps_max,
        .stop = limits->stop,
    };
    *report = (struct lin_report){NULL, 0};
    if (check_offsets(in, report) != 0) {
        return -1;
    }
    int64_t now = clock_ns();
    int64_t time_ns = limits->time_ns < 0 ? 0 : limits->time_ns;
    s.deadline_ns = time_ns > INT64_MAX - now ? INT64_MAX : now + time_ns;
    lin_plan_init(&s.plan);
    lin_set_init(&s.now);
    lin_set_init(&s.next);
    lin_set_init(&s.open);
    int verdict = LIN_OK;
    int64_t unseen = 0;
    for (int64_t key = 0; key < in->n_keys && verdict != LIN_INVALID; key++) {
        int64_t first = in->offsets[key], last = in->offsets[key + 1];
        out->bad[key] = -1;
        out->prefix[key] = 0;
        for (int64_t i = 0; i < out->n_states; i++) {
            out->states[key * out->n_states + i] = -1;
        }
        if (first < 0 || last < first || last > in->n_ops) {
            report->invalid = "offsets changed during the search";
            report->where = key;
            verdict = LIN_INVALID;
            break;
        }
        s.work = 0;
        s.look_at = WORK_PER_LOOK;
        unseen += last - first + 1;
        verdict = unseen > WORK_PER_LOOK || key == 0 ? look(&s) : LIN_OK;
        unseen = unseen > WORK_PER_LOOK ? 0 : unseen;
        if (verdict == LIN_OK) {
            verdict = lin_plan_make(&s.plan, &s.mem, in, first, last, limits->exact_states, report);
        }
        if (verdict == LIN_OK) {
            verdict = check_key(&s, out, key, first);
        }
        out->verdict[key] = (uint8_t)verdict;
        out->steps[key] = s.work;
    }
    free_all(&s);
    return verdict == LIN_INVALID ? -1 : 0;
}
