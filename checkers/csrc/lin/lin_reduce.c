#include "lin_reduce.h"
#include "lin_keys.h"
#include "lin_rule.h"

#include <string.h>

/* So many operations before the failure are tried alone first: most contradictions are recent. */
#ifndef LIN_RECENT
#define LIN_RECENT 64, 1024, 16384
#endif
static const int32_t recent[] = {LIN_RECENT};

struct reduce {
    struct core_budget budget;
    const struct lin_effort *effort;
    struct lin_rule rule;
    struct core_array rows;    /* lin_row: what is left */
    struct core_array origin;  /* int32: where each was */
    struct core_array numbers; /* int32 by value as it was: its number, or -1 */
    struct core_array kinds;   /* uint8, and four more columns, of what is tried */
    struct core_array as, bs;  /* int32 */
    struct core_array times;   /* int64: invocations, then completions */
    int32_t n, n_values, initial;
    int32_t numbered; /* rows when values were numbered */
    int64_t checks;
    int unsure; /* some check of this round came to no end */
};

#define ROWS(r) ((struct lin_row *)(r)->rows.p)
#define ORIGIN(r) ((int32_t *)(r)->origin.p)

static int stores(const struct lin_row *row)
{
    switch ((enum lin_kind)row->kind) {
    case LIN_WRITE:
    case LIN_WRITE_UNKNOWN:
        return 1;
    case LIN_CAS_TRUE:
    case LIN_CAS_UNKNOWN:
        return row->a != row->b;
    case LIN_READ:
    case LIN_READ_UNKNOWN:
    case LIN_CAS_FALSE:
    case LIN_KINDS:
        break;
    }
    return 0;
}

static int takes_b(const struct lin_row *row)
{
    return row->kind == LIN_CAS_TRUE || row->kind == LIN_CAS_UNKNOWN;
}

static int take(struct reduce *r, const struct lin_input *in, struct lin_report *report)
{
    int64_t before = INT64_MIN;
    for (int32_t i = 0; i < r->n; i++) {
        struct lin_row row = {
            in->invoke[i], in->complete[i], in->a[i], in->b[i], -1, in->kind[i], 0};
        if (row.kind >= LIN_KINDS || row.a < 0 || row.a >= in->n_values || row.b < 0 ||
            row.b >= in->n_values || row.invoke < before || row.complete < row.invoke ||
            (row.kind >= LIN_WRITE_UNKNOWN) != (row.complete == LIN_NEVER)) {
            return lin_refuse(report, "operation is malformed", i);
        }
        before = row.invoke;
        ROWS(r)[i] = row;
        ORIGIN(r)[i] = i;
    }
    return LIN_OK;
}

static int32_t number_of(struct reduce *r, int32_t value)
{
    int32_t *number = (int32_t *)r->numbers.p + value;
    if (*number < 0) {
        *number = r->n_values++;
    }
    return *number;
}

/* Gives the values that are left numbers without gaps. */
static int renumber(struct reduce *r, int32_t n_values)
{
    if (core_reserve(&r->budget.memory, &r->numbers, (size_t)n_values) != 0) {
        return LIN_MEMORY;
    }
    memset(r->numbers.p, 0xff, (size_t)n_values * sizeof(int32_t));
    r->n_values = 0;
    r->initial = number_of(r, r->initial);
    for (int32_t i = 0; i < r->n; i++) {
        struct lin_row *row = &ROWS(r)[i];
        row->a = number_of(r, row->a);
        row->b = takes_b(row) ? number_of(r, row->b) : row->a;
        row->stored = !stores(row) ? -1 : takes_b(row) ? row->b : row->a;
    }
    r->numbered = r->n;
    return LIN_OK;
}

/* Is what would be left of `n` rows illegal? A verdict. */
static int judge(struct reduce *r, int32_t n)
{
    uint8_t *kind = r->kinds.p, verdict = LIN_STOPPED;
    int32_t *a = r->as.p, *b = r->bs.p, at = 0;
    int64_t *invoke = r->times.p, *complete = invoke + n, bad, prefix, steps;
    for (int32_t i = 0; i < r->n; i++) {
        const struct lin_row *row = &ROWS(r)[i];
        if (!row->drop) {
            kind[at] = row->kind;
            a[at] = row->a;
            b[at] = row->b;
            invoke[at] = row->invoke;
            complete[at++] = row->complete;
        }
    }
    int64_t offsets[] = {0, n};
    struct lin_input in = {kind, a, b, invoke, complete, n, offsets, 1, r->n_values, r->initial};
    struct lin_output out = {&verdict, &bad, &prefix, &steps, NULL, 0};
    struct lin_limits limits = {core_left_ns(&r->budget),
                                (int64_t)(r->budget.memory.max - r->budget.memory.used),
                                r->effort->steps_max, r->budget.stop, 0};
    struct lin_report report;
    r->checks++;
    (void)lin_check(&in, &limits, &out, &report);
    r->unsure |= verdict != LIN_OK && verdict != LIN_ILLEGAL;
    return verdict;
}

static void leave_out(struct reduce *r)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->n; i++) {
        if (!ROWS(r)[i].drop) {
            ORIGIN(r)[n] = ORIGIN(r)[i];
            ROWS(r)[n++] = ROWS(r)[i];
        }
    }
    r->n = n;
}

/* Leaves out the rows [first, last) as far as the rule allows, if fewer than `most` are left and
 * these are illegal. 1 where that was done, 0 where not, -1 where memory is short. */
static int try_without(struct reduce *r, int32_t first, int32_t last, int32_t most)
{
    int32_t n = 0;
    for (int32_t i = 0; i < r->n; i++) {
        ROWS(r)[i].drop = i >= first && i < last;
    }
    if (lin_rule_apply(&r->rule, &r->budget.memory, ROWS(r), r->n, r->n_values) != LIN_OK) {
        return -1;
    }
    for (int32_t i = 0; i < r->n; i++) {
        n += !ROWS(r)[i].drop;
    }
    if (n >= most || judge(r, n) != LIN_ILLEGAL) {
        return 0;
    }
    leave_out(r);
    return r->n < r->numbered / 2 && renumber(r, r->n_values) != LIN_OK ? -1 : 1;
}

/* Whether nothing more can go. */
static int halve(struct reduce *r)
{
    int done = 0;
    for (size_t i = 0; i < sizeof recent / sizeof *recent && done == 0; i++) {
        done = try_without(r, 0, r->n - recent[i], r->n / 2);
    }
    for (int32_t chunk = r->n > 1 ? r->n / 2 : 1; done >= 0; chunk = chunk > 1 ? chunk / 2 : 1) {
        int32_t before = r->n;
        r->unsure = 0;
        for (int32_t at = 0; at < r->n;) {
            if (r->checks >= r->effort->checks_max || core_poll_budget(&r->budget) != CORE_WITHIN) {
                return 0;
            }
            int32_t end = chunk < r->n - at ? at + chunk : r->n;
            done = try_without(r, at, end, r->n);
            if (done < 0) {
                return 0;
            }
            at += done ? 0 : chunk;
        }
        if (chunk == 1 && r->n == before) {
            return !r->unsure;
        }
    }
    return 0;
}

static int reserve(struct reduce *r, int64_t n)
{
    struct core_array *arrays[] = {&r->rows, &r->origin, &r->kinds, &r->as, &r->bs};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        if (core_reserve(&r->budget.memory, arrays[i], (size_t)n + 1) != 0) {
            return LIN_MEMORY;
        }
    }
    return core_reserve(&r->budget.memory, &r->times, 2 * (size_t)n + 1) == 0 ? LIN_OK : LIN_MEMORY;
}

static void release(struct reduce *r)
{
    struct core_array *arrays[] = {&r->rows, &r->origin, &r->numbers, &r->kinds,
                                   &r->as,   &r->bs,     &r->times};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        core_release(&r->budget.memory, arrays[i]);
    }
    lin_rule_free(&r->rule, &r->budget.memory);
}

int lin_reduce(const struct lin_input *in, const struct lin_limits *limits,
               const struct lin_effort *effort, uint8_t *stays, int *minimal,
               struct lin_report *report)
{
    struct reduce r = {
        .effort = effort,
        .rows = {.size = sizeof(struct lin_row)},
        .origin = {.size = sizeof(int32_t)},
        .numbers = {.size = sizeof(int32_t)},
        .kinds = {.size = sizeof(uint8_t)},
        .as = {.size = sizeof(int32_t)},
        .bs = {.size = sizeof(int32_t)},
        .times = {.size = sizeof(int64_t)},
        .initial = in->initial,
    };
    *report = (struct lin_report){NULL, 0};
    *minimal = 0;
    if (in->n_values < 1 || in->initial < 0 || in->initial >= in->n_values ||
        in->n_ops > INT32_MAX / 8) {
        lin_refuse(report, "initial value is not below n_values, or too many operations", 0);
        return -1;
    }
    memset(stays, 1, (size_t)in->n_ops);
    core_budget_begin(&r.budget, limits->time_ns, limits->memory_bytes, limits->stop);
    lin_rule_init(&r.rule);
    r.n = (int32_t)in->n_ops;
    int verdict = reserve(&r, in->n_ops);
    if (verdict == LIN_OK) {
        verdict = take(&r, in, report);
    }
    if (verdict == LIN_OK) {
        verdict = renumber(&r, in->n_values);
    }
    if (verdict == LIN_OK) {
        *minimal = halve(&r);
        memset(stays, 0, (size_t)in->n_ops);
        for (int32_t i = 0; i < r.n; i++) {
            stays[ORIGIN(&r)[i]] = 1;
        }
    }
    release(&r);
    return verdict == LIN_INVALID ? -1 : 0;
}
