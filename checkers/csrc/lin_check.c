/* The loop over keys, and the budgets. */
#define _POSIX_C_SOURCE 200809L

#include "lin_search.h"

#include <time.h>

/* Units of work between two looks at the clock and the stop flag: some tens of microseconds. */
#ifndef WORK_PER_LOOK
#define WORK_PER_LOOK 8192
#endif

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int lin_look(struct lin_search *s)
{
    s->look_at = s->work + WORK_PER_LOOK;
    if (s->stop != NULL && __atomic_load_n(s->stop, __ATOMIC_RELAXED) != 0) {
        return LIN_STOPPED;
    }
    if (s->work_max > 0 && s->work > s->work_max) {
        return LIN_STEPS;
    }
    if (s->try_max > 0 && s->work > s->try_max) {
        return LIN_GAVE_UP;
    }
    return clock_ns() >= s->deadline_ns ? LIN_TIME : LIN_OK;
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

static void free_all(struct lin_search *s)
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
    struct lin_search s = {
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
        verdict = unseen > WORK_PER_LOOK || key == 0 ? lin_look(&s) : LIN_OK;
        unseen = unseen > WORK_PER_LOOK ? 0 : unseen;
        if (verdict == LIN_OK) {
            verdict = lin_plan_make(&s.plan, &s.mem, in, first, last, limits->exact_states, report);
        }
        if (verdict == LIN_OK) {
            verdict = lin_decide(&s, out, key, first);
        }
        out->verdict[key] = (uint8_t)verdict;
        out->steps[key] = s.work;
    }
    free_all(&s);
    return verdict == LIN_INVALID ? -1 : 0;
}
