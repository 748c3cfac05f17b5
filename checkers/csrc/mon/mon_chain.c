/* Chains of unique values; see mon_chain.h. */
#include "mon_chain.h"
#include "lin/lin_keys.h"

#include <stdlib.h>
#include <string.h>

enum { NOBODY = -1 };

struct value {
    int64_t invoke, complete;   /* of what stored it; INT64_MIN for the initial one */
    int64_t soonest, latest;    /* completion and invocation of those that saw it */
    int64_t held_from, held_to; /* it was there for certain between the two */
    int64_t at, until;          /* as tried */
    int32_t global;
    int32_t from, next; /* by cas */
    uint8_t stored, needed;
};

/* A cas that found something other than `value`. */
struct other {
    int64_t invoke, complete;
    int32_t value;
};

struct chain {
    int64_t begins, ends; /* of a backward zone: the instant tried */
    int32_t head;
    int32_t backward;
};

struct work {
    struct core_memory memory;
    struct core_array values;  /* value */
    struct core_array number;  /* int32 by global value: its value, or -1 */
    struct core_array others;  /* other */
    struct core_array chains;  /* chain: the forward ones, then the others */
    struct core_array pending; /* int32: values whose past is to be followed */
    int32_t n_values, n_others, n_chains, n_pending, n_needed;
};

#define VALUES(w) ((struct value *)(w)->values.p)
#define NUMBER(w) ((int32_t *)(w)->number.p)
#define OTHERS(w) ((struct other *)(w)->others.p)
#define CHAINS(w) ((struct chain *)(w)->chains.p)
#define PENDING(w) ((int32_t *)(w)->pending.p)

static int64_t least(int64_t x, int64_t y)
{
    return x < y ? x : y;
}

static int64_t most(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

/* The number of a global value, made on first sight. Two for each operation were reserved. */
static int32_t number_of(struct work *w, int32_t global)
{
    int32_t *number = NUMBER(w);
    if (number[global] < 0) {
        number[global] = w->n_values;
        VALUES(w)
        [w->n_values++] = (struct value){
            .invoke = LIN_NEVER,
            .complete = LIN_NEVER,
            .soonest = LIN_NEVER,
            .latest = INT64_MIN,
            .global = global,
            .from = NOBODY,
            .next = NOBODY,
        };
    }
    return number[global];
}

static void need(struct work *w, int32_t v)
{
    if (!VALUES(w)[v].needed) {
        VALUES(w)[v].needed = 1;
        PENDING(w)[w->n_pending++] = v;
        w->n_needed++;
    }
}

static int store(struct work *w, int32_t v, int32_t from, int64_t invoke, int64_t complete)
{
    struct value *value = &VALUES(w)[v];
    if (value->stored) {
        return MON_UNFIT;
    }
    value->stored = 1;
    value->from = from;
    value->invoke = invoke;
    value->complete = complete;
    if (complete != LIN_NEVER) {
        need(w, v);
    }
    return LIN_OK;
}

/* One operation as it was read, once. */
struct copied {
    int64_t invoke, complete;
    int32_t a, b;
    uint8_t kind;
};

static int gather(struct work *w, const struct copied *op)
{
    int cas = op->kind == LIN_CAS_TRUE || op->kind == LIN_CAS_UNKNOWN;
    if (op->kind == LIN_READ_UNKNOWN || (op->kind == LIN_CAS_UNKNOWN && op->a == op->b)) {
        return LIN_OK;
    }
    int32_t a = number_of(w, op->a);
    if (op->kind == LIN_READ || (cas && op->a == op->b)) {
        struct value *value = &VALUES(w)[a];
        value->soonest = least(value->soonest, op->complete);
        value->latest = most(value->latest, op->invoke);
        need(w, a);
        return LIN_OK;
    }
    if (op->kind == LIN_CAS_FALSE) {
        OTHERS(w)[w->n_others++] = (struct other){op->invoke, op->complete, a};
        return LIN_OK;
    }
    return cas ? store(w, number_of(w, op->b), a, op->invoke, op->complete)
               : store(w, a, NOBODY, op->invoke, op->complete);
}

static int gather_all(struct work *w, const struct lin_input *in, int64_t first, int64_t last,
                      struct lin_report *report)
{
    int64_t before = INT64_MIN + 1;
    int32_t initial = number_of(w, in->initial);
    int verdict = store(w, initial, NOBODY, INT64_MIN, INT64_MIN);
    for (int64_t i = first; i < last && verdict == LIN_OK; i++) {
        struct copied op = {in->invoke[i], in->complete[i], in->a[i], in->b[i], in->kind[i]};
        if (op.kind >= LIN_KINDS || op.a < 0 || op.a >= in->n_values || op.b < 0 ||
            op.b >= in->n_values) {
            return lin_refuse(report, "kind or value out of range", i);
        }
        if (op.invoke < before || op.complete < op.invoke ||
            (op.complete == LIN_NEVER) != (op.kind >= LIN_WRITE_UNKNOWN)) {
            return lin_refuse(report, "times are out of order", i);
        }
        before = op.invoke;
        verdict = gather(w, &op);
    }
    return verdict;
}

/* Follows the past of every value that was seen. */
static int link(struct work *w)
{
    while (w->n_pending > 0) {
        int32_t v = PENDING(w)[--w->n_pending];
        struct value *value = &VALUES(w)[v];
        if (!value->stored) {
            return LIN_ILLEGAL; /* by nobody */
        }
        if (value->from == NOBODY) {
            CHAINS(w)[w->n_chains++] = (struct chain){.head = v};
            continue;
        }
        if (VALUES(w)[value->from].next != NOBODY) {
            return LIN_ILLEGAL; /* replaced twice */
        }
        VALUES(w)[value->from].next = v;
        need(w, value->from);
    }
    return LIN_OK;
}

/* The zone of a chain and the times at which its values are there for certain. Counts its values;
 * LIN_ILLEGAL where something begins after the end of what comes later. */
static int walk(struct work *w, struct chain *chain, int32_t *seen)
{
    struct value *values = VALUES(w);
    int64_t latest = INT64_MIN, soonest = LIN_NEVER;
    int32_t last = chain->head;
    for (int32_t v = chain->head; v != NOBODY; v = values[v].next) {
        struct value *value = &values[v];
        int64_t stored = most(latest, value->invoke);
        if (value->complete < latest || value->soonest < stored) {
            return LIN_ILLEGAL;
        }
        if (v != chain->head) {
            values[value->from].held_to = stored;
        }
        latest = most(stored, value->latest);
        value->held_to = latest;
        last = v;
        ++*seen;
    }
    for (int32_t v = last;; v = values[v].from) {
        soonest = least(soonest, least(values[v].complete, values[v].soonest));
        values[v].held_from = soonest;
        if (v == chain->head) {
            break;
        }
    }
    chain->begins = soonest;
    chain->ends = latest;
    chain->backward = soonest >= latest;
    return LIN_OK;
}

static int by_zone(const void *left, const void *right)
{
    const struct chain *x = left, *y = right;
    if (x->backward != y->backward) {
        return x->backward - y->backward;
    }
    return (x->begins > y->begins) - (x->begins < y->begins);
}

/* By the instants tried; a backward zone comes before the forward one that begins with it. */
static int by_instant(const void *left, const void *right)
{
    const struct chain *x = left, *y = right;
    if (x->begins != y->begins) {
        return (x->begins > y->begins) - (x->begins < y->begins);
    }
    return y->backward - x->backward;
}

/* Checks the zones against each other, and gives each backward one an instant. */
static int place(struct work *w)
{
    struct chain *chains = CHAINS(w);
    int32_t forward = 0;
    if (w->n_chains > 1) {
        qsort(chains, (size_t)w->n_chains, sizeof *chains, by_zone);
    }
    for (; forward < w->n_chains && !chains[forward].backward; forward++) {
        if (forward > 0 && chains[forward].begins < chains[forward - 1].ends) {
            return LIN_ILLEGAL;
        }
    }
    for (int32_t i = forward; i < w->n_chains; i++) {
        int32_t low = 0, n = forward;
        while (n > 0) { /* forward zones that begin before it */
            int32_t half = n / 2;
            int before = chains[low + half].begins < chains[i].ends;
            low = before ? low + half + 1 : low;
            n = before ? n - half - 1 : half;
        }
        int64_t instant = chains[i].ends;
        if (low > 0 && chains[low - 1].ends > instant) {
            instant = chains[low - 1].ends;
            if (instant > chains[i].begins) {
                return LIN_ILLEGAL;
            }
        }
        chains[i].begins = chains[i].ends = instant;
    }
    return LIN_OK;
}

/* Lets the values of a chain come as soon as they can, or as late, and the last of them go at
 * `until`. */
static void schedule(struct work *w, const struct chain *chain, int64_t until, int late)
{
    struct value *values = VALUES(w);
    int64_t now = chain->begins;
    for (int32_t v = chain->head; v != NOBODY; v = values[v].next) {
        struct value *value = &values[v];
        now = most(now, value->invoke);
        value->at = late ? least(chain->ends, value->held_from) : now;
        if (v != chain->head) {
            values[value->from].until = value->at;
        }
        value->until = until;
        now = most(now, value->latest);
    }
}

/* Was something else there at some time? */
static int served(const struct value *value, const struct other *other)
{
    return !value->needed || value->at >= other->invoke || value->until <= other->complete;
}

static int serve_others(struct work *w)
{
    struct chain *chains = CHAINS(w);
    int verdict = LIN_OK;
    if (w->n_chains > 1) {
        qsort(chains, (size_t)w->n_chains, sizeof *chains, by_instant);
    }
    for (int32_t late = 0; late < 2; late++) {
        for (int32_t i = 0; i < w->n_chains; i++) {
            int64_t until = i + 1 < w->n_chains ? chains[i + 1].begins : LIN_NEVER;
            schedule(w, &chains[i], until, late);
        }
        verdict = LIN_OK;
        for (int32_t i = 0; i < w->n_others && verdict != LIN_ILLEGAL; i++) {
            const struct other *other = &OTHERS(w)[i];
            const struct value *value = &VALUES(w)[other->value];
            if (!served(value, other)) {
                int never = value->held_from < other->invoke && value->held_to > other->complete;
                verdict = never ? LIN_ILLEGAL : MON_UNFIT;
            }
        }
        if (verdict != MON_UNFIT) {
            break;
        }
    }
    return verdict;
}

static int reserve(struct work *w, const struct lin_input *in, size_t n)
{
    size_t fresh = w->number.cap, values = 2 * n + 1;
    if (n > INT32_MAX / 8 || core_reserve(&w->memory, &w->number, (size_t)in->n_values) != 0) {
        return LIN_MEMORY;
    }
    if (w->number.cap > fresh) {
        memset(NUMBER(w) + fresh, 0xff, (w->number.cap - fresh) * sizeof(int32_t));
    }
    values = values < (size_t)in->n_values ? values : (size_t)in->n_values;
    if (core_reserve(&w->memory, &w->values, values) != 0 ||
        core_reserve(&w->memory, &w->pending, values) != 0 ||
        core_reserve(&w->memory, &w->others, n) != 0 ||
        core_reserve(&w->memory, &w->chains, values) != 0) {
        return LIN_MEMORY;
    }
    w->n_values = w->n_others = w->n_chains = w->n_pending = w->n_needed = 0;
    return LIN_OK;
}

static int decide(struct work *w, const struct lin_input *in, int64_t first, int64_t last,
                  struct lin_report *report)
{
    int verdict = reserve(w, in, (size_t)(last - first));
    if (verdict != LIN_OK) {
        return verdict;
    }
    verdict = gather_all(w, in, first, last, report);
    for (int32_t v = 0; v < w->n_values; v++) {
        NUMBER(w)[VALUES(w)[v].global] = -1;
    }
    if (verdict == LIN_OK) {
        verdict = link(w);
    }
    int32_t seen = 0;
    for (int32_t i = 0; i < w->n_chains && verdict == LIN_OK; i++) {
        verdict = walk(w, &CHAINS(w)[i], &seen);
    }
    if (verdict == LIN_OK && seen < w->n_needed) {
        verdict = LIN_ILLEGAL; /* a circle of cas */
    }
    if (verdict == LIN_OK) {
        verdict = place(w);
    }
    return verdict == LIN_OK && w->n_others > 0 ? serve_others(w) : verdict;
}

int mon_chains(const struct lin_input *in, const struct lin_limits *limits, uint8_t *verdict,
               struct lin_report *report)
{
    struct work w = {
        .memory = core_memory_of(limits->memory_bytes),
        .values = {.size = sizeof(struct value)},
        .number = {.size = sizeof(int32_t)},
        .others = {.size = sizeof(struct other)},
        .chains = {.size = sizeof(struct chain)},
        .pending = {.size = sizeof(int32_t)},
    };
    *report = (struct lin_report){NULL, 0};
    int bad = 0;
    if (in->n_values < 1 || in->initial < 0 || in->initial >= in->n_values) {
        bad = lin_refuse(report, "initial value is not below n_values", 0);
    }
    for (int64_t key = 0; key < in->n_keys && bad != LIN_INVALID; key++) {
        int64_t first = in->offsets[key], last = in->offsets[key + 1];
        if (core_stopped(limits->stop)) {
            verdict[key] = LIN_STOPPED;
            continue;
        }
        if (first < 0 || last < first || last > in->n_ops) {
            bad = lin_refuse(report, "offsets do not rise from 0 to the number of operations", key);
            continue;
        }
        bad = decide(&w, in, first, last, report);
        verdict[key] = (uint8_t)bad;
    }
    struct core_array *arrays[] = {&w.values, &w.number, &w.others, &w.chains, &w.pending};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        core_release(&w.memory, arrays[i]);
    }
    return bad == LIN_INVALID ? -1 : 0;
}
