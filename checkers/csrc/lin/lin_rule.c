#include "lin_rule.h"

#include <string.h>

#define SEEN(rule) ((struct lin_seen *)(rule)->seen.p)
#define DIFFER(rule) ((struct lin_seen *)(rule)->differ.p)
#define CERTAIN(rule) ((struct lin_seen *)(rule)->certain.p)
#define FIRST(rule) ((int32_t *)(rule)->first.p)
#define STAYS(rule) ((int32_t *)(rule)->stays.p)

void lin_rule_init(struct lin_rule *rule)
{
    *rule = (struct lin_rule){
        .seen = {.size = sizeof(struct lin_seen)},
        .differ = {.size = sizeof(struct lin_seen)},
        .certain = {.size = sizeof(struct lin_seen)},
        .first = {.size = sizeof(int32_t)},
        .stays = {.size = sizeof(int32_t)},
    };
}

void lin_rule_free(struct lin_rule *rule, struct core_memory *memory)
{
    struct core_array *arrays[] = {&rule->seen, &rule->differ, &rule->certain, &rule->first,
                                   &rule->stays};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        core_release(memory, arrays[i]);
    }
}

static int finds_its_value(const struct lin_row *row)
{
    return row->kind == LIN_READ || row->kind == LIN_CAS_TRUE || row->kind == LIN_CAS_UNKNOWN;
}

static int64_t later(int64_t x, int64_t y)
{
    return x > y ? x : y;
}

/* Observers of each value that stay. Counts, then places: `first` is shifted by one meanwhile. */
static void gather_seen(struct lin_rule *rule, const struct lin_row *rows, int32_t n)
{
    int32_t *first = FIRST(rule), *stays = STAYS(rule);
    memset(first, 0, ((size_t)rule->n_values + 2) * sizeof *first);
    memset(stays, 0, (size_t)rule->n_values * sizeof *stays);
    for (int32_t i = 0; i < n; i++) {
        if (!rows[i].drop) {
            first[rows[i].a + 2] += finds_its_value(&rows[i]);
            if (rows[i].stored >= 0) {
                stays[rows[i].stored]++;
            }
        }
    }
    for (int32_t v = 2; v < rule->n_values + 2; v++) {
        first[v] += first[v - 1];
    }
    for (int32_t i = 0; i < n; i++) {
        if (!rows[i].drop && finds_its_value(&rows[i])) {
            int32_t at = first[rows[i].a + 1]++;
            SEEN(rule)[at] = (struct lin_seen){rows[i].invoke, rows[i].complete, 0, 0};
        }
    }
    for (int32_t v = 0; v < rule->n_values; v++) {
        for (int32_t at = first[v] + 1; at < first[v + 1]; at++) {
            SEEN(rule)[at].last = later(SEEN(rule)[at].last, SEEN(rule)[at - 1].last);
        }
    }
}

/* The two latest completions, of observers that found something other than different values. */
static void gather_differ(struct lin_rule *rule, const struct lin_row *rows, int32_t n)
{
    struct lin_seen now = {0, INT64_MIN, INT64_MIN, -1};
    rule->n_differ = 0;
    for (int32_t i = 0; i < n; i++) {
        if (rows[i].drop || rows[i].kind != LIN_CAS_FALSE) {
            continue;
        }
        now.invoke = rows[i].invoke;
        if (rows[i].a == now.value) {
            now.last = later(now.last, rows[i].complete);
        } else if (rows[i].complete > now.last) {
            now.other = now.last;
            now.last = rows[i].complete;
            now.value = rows[i].a;
        } else {
            now.other = later(now.other, rows[i].complete);
        }
        DIFFER(rule)[rule->n_differ++] = now;
    }
}

static void gather_certain(struct lin_rule *rule, const struct lin_row *rows, int32_t n)
{
    int64_t soonest = LIN_NEVER;
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        count += !rows[i].drop && rows[i].stored >= 0 && rows[i].complete != LIN_NEVER;
    }
    rule->n_certain = count;
    for (int32_t i = n - 1; i >= 0; i--) {
        if (!rows[i].drop && rows[i].stored >= 0 && rows[i].complete != LIN_NEVER) {
            soonest = rows[i].complete < soonest ? rows[i].complete : soonest;
            CERTAIN(rule)[--count] = (struct lin_seen){rows[i].invoke, soonest, 0, 0};
        }
    }
}

/* How many of these were invoked at `time` or before. */
static int32_t until(const struct lin_seen *seen, int32_t n, int64_t time)
{
    int32_t low = 0;
    while (low < n) {
        int32_t middle = low + (n - low) / 2;
        if (seen[middle].invoke <= time) {
            low = middle + 1;
        } else {
            n = middle;
        }
    }
    return low;
}

/* May an operation that stays owe its result to this store? */
static int is_owed(const struct lin_rule *rule, const struct lin_row *store)
{
    int32_t at = until(CERTAIN(rule), rule->n_certain, store->complete);
    int64_t replaced = at < rule->n_certain ? CERTAIN(rule)[at].last : LIN_NEVER;
    const int32_t *first = FIRST(rule);
    const struct lin_seen *seen = SEEN(rule) + first[store->stored];
    at = until(seen, first[store->stored + 1] - first[store->stored], replaced);
    if (at > 0 && seen[at - 1].last >= store->invoke) {
        return 1;
    }
    at = until(DIFFER(rule), rule->n_differ, replaced);
    if (at == 0) {
        return 0;
    }
    const struct lin_seen *other = &DIFFER(rule)[at - 1];
    return (other->value == store->stored ? other->other : other->last) >= store->invoke;
}

/* Is this the last store to go of a value that stays observed? Called from the last row on. */
static int is_last(struct lin_rule *rule, const struct lin_row *store)
{
    int32_t *first = FIRST(rule), *stays = STAYS(rule);
    int lost = stays[store->stored] == 0 && first[store->stored + 1] > first[store->stored];
    stays[store->stored] += lost;
    return lost;
}

int lin_rule_apply(struct lin_rule *rule, struct core_memory *memory, struct lin_row *rows,
                   int32_t n, int32_t n_values)
{
    size_t count = (size_t)n + 1;
    if (core_reserve(memory, &rule->seen, count) != 0 ||
        core_reserve(memory, &rule->differ, count) != 0 ||
        core_reserve(memory, &rule->certain, count) != 0 ||
        core_reserve(memory, &rule->first, (size_t)n_values + 2) != 0 ||
        core_reserve(memory, &rule->stays, (size_t)n_values) != 0) {
        return LIN_MEMORY;
    }
    rule->n_values = n_values;
    for (int again = 1; again;) {
        again = 0;
        gather_seen(rule, rows, n);
        gather_differ(rule, rows, n);
        gather_certain(rule, rows, n);
        for (int32_t i = n - 1; i >= 0; i--) {
            if (rows[i].drop && rows[i].stored >= 0) {
                int stays = is_last(rule, &rows[i]);
                if (stays || is_owed(rule, &rows[i])) {
                    rows[i].drop = 0;
                    again = 1;
                }
            }
        }
    }
    return LIN_OK;
}
