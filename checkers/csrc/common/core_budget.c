#define _POSIX_C_SOURCE 200809L

#include "core_budget.h"

#include <time.h>

static int64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

struct core_memory core_memory_of(int64_t bytes)
{
    return (struct core_memory){0, bytes < 0 ? 0 : (size_t)bytes};
}

void core_budget_begin(struct core_budget *budget, int64_t time_ns, int64_t memory_bytes,
                       const int32_t *stop)
{
    int64_t now = clock_ns();
    time_ns = time_ns < 0 ? 0 : time_ns;
    *budget = (struct core_budget){
        .memory = core_memory_of(memory_bytes),
        .deadline_ns = time_ns > INT64_MAX - now ? INT64_MAX : now + time_ns,
        .stop = stop,
        .poll_at = WORK_PER_POLL,
    };
}

int64_t core_left_ns(const struct core_budget *budget)
{
    int64_t left = budget->deadline_ns - clock_ns();
    return left < 0 ? 0 : left;
}

int core_stopped(const int32_t *stop)
{
    return stop != NULL && __atomic_load_n(stop, __ATOMIC_RELAXED) != 0;
}

enum core_spent core_poll_budget(struct core_budget *budget)
{
    budget->poll_at = budget->work + WORK_PER_POLL;
    if (core_stopped(budget->stop)) {
        return CORE_STOPPED;
    }
    if (budget->work_max > 0 && budget->work > budget->work_max) {
        return CORE_WORK;
    }
    if (budget->attempt_max > 0 && budget->work > budget->attempt_max) {
        return CORE_GAVE_UP;
    }
    return clock_ns() >= budget->deadline_ns ? CORE_TIME : CORE_WITHIN;
}

int core_charge(struct core_memory *memory, size_t bytes)
{
    if (bytes > memory->max - memory->used) {
        return -1;
    }
    memory->used += bytes;
    return 0;
}

void core_refund(struct core_memory *memory, size_t bytes)
{
    memory->used -= bytes;
}
