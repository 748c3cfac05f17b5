/* The loop over keys, and the budgets. */
#define _POSIX_C_SOURCE 200809L

#include "aut_search.h"

#include <time.h>

/* Units of work between two looks at the clock and the stop flag. */
#ifndef WORK_PER_LOOK
#define WORK_PER_LOOK 8192
#endif

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int aut_look(struct aut_search *s)
{
    s->look_at = s->work + WORK_PER_LOOK;
    if (s->stop != NULL && __atomic_load_n(s->stop, __ATOMIC_RELAXED) != 0) {
        return LIN_STOPPED;
    }
    if (s->work_max > 0 && s->work > s->work_max) {
        return LIN_STEPS;
    }
    if (s->try_max > 0 && s->work > s->try_max) {
        return AUT_GAVE_UP;
    }
    return clock_ns() >= s->deadline_ns ? LIN_TIME : LIN_OK;
}

static int check_offsets(const struct aut_input *in, struct lin_report *report)
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
    return 0;
}

static void free_all(struct aut_search *s)
{
    struct lin_array *arrays[] = {&s->ops,   &s->crashed, &s->of_class,
                                  &s->tried, &s->lists,   &s->buffers};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        lin_release(&s->mem, arrays[i]);
    }
    aut_set_free(&s->now, &s->mem);
    aut_set_free(&s->next, &s->mem);
    aut_set_free(&s->open, &s->mem);
    aut_steps_free(&s->steps, &s->mem);
}

static void start(struct aut_search *s, const struct aut_input *in, const struct lin_limits *limits)
{
    *s = (struct aut_search){
        .mem = {0, limits->memory_bytes < 0 ? 0 : (size_t)limits->memory_bytes},
        .in = in,
        .ops = {.size = sizeof(struct aut_op)},
        .crashed = {.size = sizeof(struct aut_crashed)},
        .of_class = {.size = sizeof(int32_t)},
        .tried = {.size = sizeof(int64_t)},
        .lists = {.size = sizeof(int32_t)},
        .buffers = {.size = sizeof(uint64_t)},
        .work_max = limits->steps_max,
        .stop = limits->stop,
    };
    int64_t now = clock_ns(), time_ns = limits->time_ns < 0 ? 0 : limits->time_ns;
    s->deadline_ns = time_ns > INT64_MAX - now ? INT64_MAX : now + time_ns;
    aut_steps_init(&s->steps, in);
    aut_set_init(&s->now);
    aut_set_init(&s->next);
    aut_set_init(&s->open);
}

int aut_check(const struct aut_input *in, const struct lin_limits *limits,
              const struct aut_output *out, struct lin_report *report)
{
    struct aut_search s;
    *report = (struct lin_report){NULL, 0};
    if (check_offsets(in, report) != 0) {
        return -1;
    }
    start(&s, in, limits);
    int verdict = LIN_OK;
    int64_t unseen = 0;
    for (int64_t key = 0; key < in->n_keys && verdict != LIN_INVALID && verdict != AUT_RAISED;
         key++) {
        int64_t first = in->offsets[key], last = in->offsets[key + 1];
        out->bad[key] = -1;
        out->prefix[key] = out->n_found[key] = 0;
        if (first < 0 || last < first || last > in->n_ops) {
            report->invalid = "offsets changed during the search";
            report->where = key;
            verdict = LIN_INVALID;
            break;
        }
        s.work = 0;
        s.look_at = WORK_PER_LOOK;
        unseen += last - first + 1;
        verdict = unseen > WORK_PER_LOOK || key == 0 ? aut_look(&s) : LIN_OK;
        unseen = unseen > WORK_PER_LOOK ? 0 : unseen;
        if (verdict == LIN_OK) {
            verdict = aut_plan(&s, first, last, report);
        }
        if (verdict == LIN_OK) {
            verdict = aut_decide(&s, out, key, first);
        }
        out->verdict[key] = (uint8_t)verdict;
        out->steps[key] = s.work;
    }
    free_all(&s);
    if (verdict == AUT_RAISED && report->invalid == NULL) {
        report->invalid = "a step could not be had";
    }
    return verdict == LIN_INVALID || verdict == AUT_RAISED ? -1 : 0;
}
