/* One check from columns to verdicts. */
#include "lin_keys.h"
#include "lin_search.h"

#include <string.h>

struct check {
    struct lin_search search;
    const struct lin_input *in;
    const struct lin_output *out;
    struct lin_report *report;
    int exact_states;
};

static void start(struct lin_search *s, const struct lin_limits *limits)
{
    *s = (struct lin_search){
        .buffers = {.size = sizeof(uint64_t)},
        .pending = {.size = sizeof(int32_t)},
        .marks = {.size = sizeof(int32_t)},
        .write_set = {.size = sizeof(uint64_t)},
        .points = {.size = sizeof(struct lin_point)},
        .kept = {.size = sizeof(uint64_t)},
    };
    core_budget_begin(&s->budget, limits->time_ns, limits->memory_bytes, limits->stop);
    s->budget.work_max = limits->steps_max;
    lin_plan_init(&s->plan);
    lin_set_init(&s->now);
    lin_set_init(&s->next);
    lin_set_init(&s->open);
}

static void free_all(struct lin_search *s)
{
    struct core_array *arrays[] = {&s->buffers,   &s->pending, &s->marks,
                                   &s->write_set, &s->points,  &s->kept};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        core_release(&s->budget.memory, arrays[i]);
    }
    lin_set_free(&s->now, &s->budget.memory);
    lin_set_free(&s->next, &s->budget.memory);
    lin_set_free(&s->open, &s->budget.memory);
    lin_plan_free(&s->plan, &s->budget.memory);
}

static int decide(void *of, int64_t key, int64_t first, int64_t last)
{
    struct check *check = of;
    struct lin_search *s = &check->search;
    int verdict = lin_plan_make(&s->plan, &s->budget.memory, check->in, first, last,
                                check->exact_states, check->report);
    return verdict == LIN_OK ? lin_decide(s, check->out, key, first) : verdict;
}

int lin_check(const struct lin_input *in, const struct lin_limits *limits,
              const struct lin_output *out, struct lin_report *report)
{
    struct check check = {
        .in = in, .out = out, .report = report, .exact_states = limits->exact_states};
    struct lin_keys keys = {
        .offsets = in->offsets,
        .n_keys = in->n_keys,
        .n_ops = in->n_ops,
        .verdict = out->verdict,
        .bad = out->bad,
        .prefix = out->prefix,
        .steps = out->steps,
        .decide = decide,
        .search = &check,
        .budget = &check.search.budget,
    };
    *report = (struct lin_report){NULL, 0};
    if (lin_check_offsets(in->offsets, in->n_keys, in->n_ops, report) != LIN_OK) {
        return -1;
    }
    if (in->n_values < 1 || in->initial < 0 || in->initial >= in->n_values) {
        lin_refuse(report, "initial value is not below n_values", 0);
        return -1;
    }
    if (in->n_keys > 0 && out->n_states > 0) { /* -1 has all bits set */
        memset(out->states, 0xff, (size_t)(in->n_keys * out->n_states) * sizeof *out->states);
    }
    start(&check.search, limits);
    int verdict = lin_each_key(&keys, report);
    free_all(&check.search);
    return verdict == LIN_INVALID ? -1 : 0;
}
