/* The budget of one call of the core: memory, a deadline, a stop flag and units of work.
 * No Python in here.
 */
#ifndef DSTEST_CORE_BUDGET_H
#define DSTEST_CORE_BUDGET_H

#include <stddef.h>
#include <stdint.h>

/* Units of work between two readings of the clock: some tens of microseconds. */
#ifndef WORK_PER_POLL
#define WORK_PER_POLL 8192
#endif

/* What has been spent. The numbers are those of enum lin_verdict. */
enum core_spent {
    CORE_WITHIN = 0,
    CORE_TIME = 2,     /* the deadline passed */
    CORE_MEMORY = 3,   /* the memory budget was spent, or the allocator said no */
    CORE_STOPPED = 4,  /* the caller raised the stop flag */
    CORE_WORK = 5,     /* the work limit was reached */
    CORE_GAVE_UP = 100 /* the present attempt was too dear; another kind may not be */
};

struct core_memory {
    size_t used, max; /* bytes */
};

struct core_budget {
    struct core_memory memory;
    int64_t deadline_ns; /* of the monotonic clock */
    const int32_t *stop; /* not zero = give up; may be NULL */
    int64_t work;        /* units done */
    int64_t work_max;    /* 0 = any number */
    int64_t attempt_max; /* work after which the present attempt gives up; 0 = none */
    int64_t poll_at;     /* work at which clock and stop flag are read again */
};

/* From now on; a negative limit is 0. */
void core_budget_begin(struct core_budget *budget, int64_t time_ns, int64_t memory_bytes,
                       const int32_t *stop);

/* The time until the deadline. */
int64_t core_left_ns(const struct core_budget *budget);

/* Work is counted from 0 again. */
static inline void core_budget_restart(struct core_budget *budget)
{
    budget->work = 0;
    budget->poll_at = WORK_PER_POLL;
}

/* Reads stop flag, work and clock. */
enum core_spent core_poll_budget(struct core_budget *budget);

/* For inner loops: as core_poll_budget where enough work was done since. */
static inline enum core_spent core_poll_when_due(struct core_budget *budget)
{
    return budget->work >= budget->poll_at ? core_poll_budget(budget) : CORE_WITHIN;
}

int core_stopped(const int32_t *stop);

struct core_memory core_memory_of(int64_t bytes);

/* Every allocation is charged before it is made: 0, or -1 where there is not so much left. */
int core_charge(struct core_memory *memory, size_t bytes);
void core_refund(struct core_memory *memory, size_t bytes);

#endif
