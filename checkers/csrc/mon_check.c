/* The loop over keys, and the rules of the columns. */
#include "mon.h"

static int refuse(struct lin_report *report, const char *why, int64_t where)
{
    report->invalid = why;
    report->where = where;
    return -1;
}

static int check_columns(const struct mon_input *in, struct lin_report *report)
{
    int64_t before = 0;
    if (in->model < 0 || in->model >= MON_MODELS || in->n_values < 1) {
        return refuse(report, "no such model, or no values", 0);
    }
    for (int64_t k = 0; k <= in->n_keys; k++) {
        int64_t at = in->offsets[k];
        if (at < before || at > in->n_ops || (k == 0 && at != 0) ||
            (k == in->n_keys && at != in->n_ops)) {
            return refuse(report, "offsets do not rise from 0 to the number of operations", k);
        }
        before = at;
    }
    return 0;
}

static int check_ops(const struct mon_input *in, int64_t first, int64_t last,
                     struct lin_report *report)
{
    int64_t before = INT64_MIN + 1;
    for (int64_t i = first; i < last; i++) {
        if (in->kind[i] >= MON_KINDS) {
            return refuse(report, "kind out of range", i);
        }
        if (in->invoke[i] < before || in->complete[i] < in->invoke[i] ||
            in->invoke[i] == LIN_NEVER) {
            return refuse(report, "times are out of order", i);
        }
        before = in->invoke[i];
    }
    return 0;
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
        return mon_queue(w);
    case MON_STACK:
        return mon_stack(w);
    default:
        return mon_priority(w);
    }
}

static void free_all(struct mon_work *w)
{
    struct lin_array *arrays[] = {&w->values,   &w->number, &w->ids,
                                  &w->nothings, &w->heap,   &w->runs};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        lin_release(&w->mem, arrays[i]);
    }
    for (size_t i = 0; i < sizeof w->extra / sizeof *w->extra; i++) {
        lin_release(&w->mem, &w->extra[i]);
    }
}

int mon_check(const struct mon_input *in, const struct lin_limits *limits, uint8_t *verdict,
              struct lin_report *report)
{
    struct mon_work w = {
        .mem = {0, limits->memory_bytes < 0 ? 0 : (size_t)limits->memory_bytes},
        .values = {.size = sizeof(struct mon_value)},
        .number = {.size = sizeof(int32_t)},
        .ids = {.size = sizeof(int32_t)},
        .nothings = {.size = sizeof(struct mon_nothing)},
        .heap = {.size = sizeof(int32_t)},
        .runs = {.size = sizeof(struct mon_nothing)},
    };
    for (size_t i = 0; i < sizeof w.extra / sizeof *w.extra; i++) {
        w.extra[i].size = 1;
    }
    *report = (struct lin_report){NULL, 0};
    int bad = check_columns(in, report);
    for (int64_t key = 0; key < in->n_keys && bad == 0; key++) {
        int64_t first = in->offsets[key], last = in->offsets[key + 1];
        if (limits->stop != NULL && __atomic_load_n(limits->stop, __ATOMIC_RELAXED) != 0) {
            verdict[key] = LIN_STOPPED;
            continue;
        }
        if (first < 0 || last < first || last > in->n_ops) {
            bad = refuse(report, "offsets changed meanwhile", key);
        } else if (check_ops(in, first, last, report) != 0) {
            bad = -1;
        } else {
            verdict[key] = (uint8_t)decide(&w, in, first, last);
        }
    }
    free_all(&w);
    return bad;
}
