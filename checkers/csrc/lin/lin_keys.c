#include "lin_keys.h"

/* Keys of so many operations together are decided before the clock is read again. */
#ifndef OPS_PER_POLL
#define OPS_PER_POLL 8192
#endif

int lin_refuse(struct lin_report *report, const char *why, int64_t where)
{
    report->invalid = why;
    report->where = where;
    return LIN_INVALID;
}

int lin_check_offsets(const int64_t *offsets, int64_t n_keys, int64_t n_ops,
                      struct lin_report *report)
{
    int64_t before = 0;
    for (int64_t k = 0; k <= n_keys; k++) {
        int64_t at = offsets[k];
        if (at < before || at > n_ops || (k == 0 && at != 0) || (k == n_keys && at != n_ops)) {
            return lin_refuse(report, "offsets do not rise from 0 to the number of operations", k);
        }
        before = at;
    }
    return LIN_OK;
}

int lin_each_key(const struct lin_keys *keys, struct lin_report *report)
{
    int verdict = LIN_OK;
    int64_t unpolled = 0;
    for (int64_t key = 0; key < keys->n_keys && verdict < LIN_INVALID; key++) {
        int64_t first = keys->offsets[key], last = keys->offsets[key + 1];
        keys->bad[key] = -1;
        keys->prefix[key] = 0;
        if (first < 0 || last < first || last > keys->n_ops) {
            return lin_refuse(report, "offsets changed during the search", key);
        }
        core_budget_restart(keys->budget);
        unpolled += last - first + 1;
        verdict = LIN_OK;
        if (unpolled > OPS_PER_POLL || key == 0) {
            verdict = (int)core_poll_budget(keys->budget);
        }
        unpolled = unpolled > OPS_PER_POLL ? 0 : unpolled;
        if (verdict == LIN_OK) {
            verdict = keys->decide(keys->search, key, first, last);
        }
        keys->verdict[key] = (uint8_t)verdict;
        keys->steps[key] = keys->budget->work;
    }
    return verdict;
}
