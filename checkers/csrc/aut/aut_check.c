/* One check from columns to verdicts. */
#include "aut_search.h"
#include "lin/lin_keys.h"

struct check {
    struct aut_search search;
    const struct aut_output *out;
    struct lin_report *report;
};

static void start(struct aut_search *s, const struct aut_input *in, const struct lin_limits *limits)
{
    *s = (struct aut_search){
        .in = in,
        .ops = {.size = sizeof(struct aut_op)},
        .crashed = {.size = sizeof(struct aut_crashed)},
        .of_class = {.size = sizeof(int32_t)},
        .tried = {.size = sizeof(int64_t)},
        .lists = {.size = sizeof(int32_t)},
        .buffers = {.size = sizeof(uint64_t)},
    };
    core_budget_begin(&s->budget, limits->time_ns, limits->memory_bytes, limits->stop);
    s->budget.work_max = limits->steps_max;
    aut_steps_init(&s->steps, in);
    aut_set_init(&s->now);
    aut_set_init(&s->next);
    aut_set_init(&s->open);
}

static void free_all(struct aut_search *s)
{
    struct core_array *arrays[] = {&s->ops,   &s->crashed, &s->of_class,
                                   &s->tried, &s->lists,   &s->buffers};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        core_release(&s->budget.memory, arrays[i]);
    }
    aut_set_free(&s->now, &s->budget.memory);
    aut_set_free(&s->next, &s->budget.memory);
    aut_set_free(&s->open, &s->budget.memory);
    aut_steps_free(&s->steps, &s->budget.memory);
}

static int decide(void *of, int64_t key, int64_t first, int64_t last)
{
    struct check *check = of;
    int verdict = aut_plan(&check->search, first, last, check->report);
    return verdict == LIN_OK ? aut_decide(&check->search, check->out, key, first) : verdict;
}

int aut_check(const struct aut_input *in, const struct lin_limits *limits,
              const struct aut_output *out, struct lin_report *report)
{
    struct check check = {.out = out, .report = report};
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
    for (int64_t key = 0; key < in->n_keys; key++) {
        out->n_found[key] = 0;
    }
    start(&check.search, in, limits);
    int verdict = lin_each_key(&keys, report);
    free_all(&check.search);
    if (verdict == AUT_RAISED && report->invalid == NULL) {
        report->invalid = "a step could not be had";
    }
    return verdict == LIN_INVALID || verdict == AUT_RAISED ? -1 : 0;
}
