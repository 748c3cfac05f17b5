/* What lin_reduce leaves of a history is as illegal as the whole; of a legal one it leaves all. */
#ifndef DSTEST_TEST_REDUCED_H
#define DSTEST_TEST_REDUCED_H

#include "lin/lin_reduce.h"

#include <stdlib.h>
#include <string.h>

/* `verdict` = LIN_OK or LIN_ILLEGAL, of `in` as one key where that is known,
 * else LIN_INVALID: it may be malformed. Returns what is wrong, or NULL. */
static const char *wrongly_reduced(const struct lin_input *in, const struct lin_limits *limits,
                                   int verdict)
{
    size_t n = (size_t)in->n_ops, kept = 0;
    uint8_t *stays = malloc(n), *kind = malloc(n + 1), after = LIN_STOPPED;
    int32_t *ab = malloc(2 * n * sizeof *ab + 1);
    int64_t *times = malloc(2 * n * sizeof *times + 1), bad, prefix, steps;
    struct lin_effort effort = {400, 5000};
    struct lin_report report;
    const char *wrong = NULL;
    int minimal, code = lin_reduce(in, limits, &effort, stays, &minimal, &report);
    if (code != 0) {
        wrong = verdict != LIN_INVALID         ? "a good history was refused"
                : code == -1 && report.invalid ? NULL
                                               : "no reason";
    } else if (verdict != LIN_INVALID) {
        for (size_t i = 0; i < n; i++) {
            kind[kept] = in->kind[i];
            ab[kept] = in->a[i];
            ab[n + kept] = in->b[i];
            times[kept] = in->invoke[i];
            times[n + kept] = in->complete[i];
            kept += stays[i];
        }
        int64_t offsets[] = {0, (int64_t)kept};
        struct lin_input part = {kind,          ab,      ab + n, times,        times + n,
                                 (int64_t)kept, offsets, 1,      in->n_values, in->initial};
        struct lin_output out = {&after, &bad, &prefix, &steps, NULL, 0};
        struct lin_limits plenty = {60000000000, 1 << 28, 200000, NULL, 0};
        if (verdict == LIN_OK && kept != n) {
            wrong = "something of a legal history was left out";
        } else if (lin_check(&part, &plenty, &out, &report) != 0 ||
                   (after != verdict && after <= LIN_ILLEGAL)) {
            wrong = "what is left is not as illegal";
        }
    }
    free(stays);
    free(kind);
    free(ab);
    free(times);
    return wrong;
}

#endif
