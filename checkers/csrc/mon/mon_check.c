/* The loop over keys, and the rules of the columns. */
#include "lin/lin_keys.h"
#include "mon_maybe.h"

static int check_columns(const struct mon_input *in, struct lin_report *report)
{
    if (in->model < 0 || in->model >= MON_MODELS || in->n_values < 1) {
        return lin_refuse(report, "no such model, or no values", 0);
    }
    return lin_check_offsets(in->offsets, in->n_keys, in->n_ops, report);
}

static int check_ops(const struct mon_input *in, int64_t first, int64_t last,
                     struct lin_report *report)
{
    int64_t before = INT64_MIN + 1;
    for (int64_t i = first; i < last; i++) {
        if (in->kind[i] >= MON_KINDS) {
            return lin_refuse(report, "kind out of range", i);
        }
        if (in->invoke[i] < before || in->complete[i] < in->invoke[i] ||
            in->invoke[i] == LIN_NEVER) {
            return lin_refuse(report, "times are out of order", i);
        }
        before = in->invoke[i];
    }
    return LIN_OK;
}

static int decide(struct mon_work *w, const struct mon_input *in, int64_t first, int64_t last)
{
    if (in->model == MON_REGISTER) {
        return mon_register(w, in, first, last);
    }
    int verdict = mon_gather(w, in, first, last);
    if (verdict != LIN_OK) {
        return verdict;
    }
    switch (in->model) {
    case MON_QUEUE:
        return mon_maybe(w, mon_queue, mon_queue_due);
    case MON_STACK:
        return mon_maybe(w, mon_stack, mon_stack_due);
    default:
        return mon_maybe(w, mon_priority, NULL);
    }
}

static void free_all(struct mon_work *w)
{
    struct core_array *arrays[] = {&w->values, &w->number, &w->ids,     &w->nothings,
                                   &w->maybes, &w->all,    &w->all_ids, &w->due,
                                   &w->given,  &w->heap,   &w->runs};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        core_release(&w->memory, arrays[i]);
    }
    for (size_t i = 0; i < sizeof w->extra / sizeof *w->extra; i++) {
        core_release(&w->memory, &w->extra[i]);
    }
}

int mon_check(const struct mon_input *in, const struct lin_limits *limits, uint8_t *verdict,
              struct lin_report *report)
{
    struct mon_work w = {
        .memory = core_memory_of(limits->memory_bytes),
        .values = {.size = sizeof(struct mon_value)},
        .number = {.size = sizeof(int32_t)},
        .ids = {.size = sizeof(int32_t)},
        .nothings = {.size = sizeof(struct mon_nothing)},
        .maybes = {.size = sizeof(int64_t)},
        .all = {.size = sizeof(struct mon_value)},
        .all_ids = {.size = sizeof(int32_t)},
        .due = {.size = sizeof(int64_t)},
        .given = {.size = sizeof(struct mon_deadline)},
        .heap = {.size = sizeof(int32_t)},
        .runs = {.size = sizeof(struct mon_nothing)},
    };
    for (size_t i = 0; i < sizeof w.extra / sizeof *w.extra; i++) {
        w.extra[i].size = 1;
    }
    *report = (struct lin_report){NULL, 0};
    int bad = check_columns(in, report);
    for (int64_t key = 0; key < in->n_keys && bad == LIN_OK; key++) {
        int64_t first = in->offsets[key], last = in->offsets[key + 1];
        if (core_stopped(limits->stop)) {
            verdict[key] = LIN_STOPPED;
            continue;
        }
        if (first < 0 || last < first || last > in->n_ops) {
            bad = lin_refuse(report, "offsets changed meanwhile", key);
        } else if ((bad = check_ops(in, first, last, report)) == LIN_OK) {
            verdict[key] = (uint8_t)decide(&w, in, first, last);
        }
    }
    free_all(&w);
    return bad == LIN_OK ? 0 : -1;
}
