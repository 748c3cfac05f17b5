/* Which models does a history satisfy? */
#include "iso_cycles.h"
#include "txn/txn_index.h"

#include <stdlib.h>
#include <string.h>

/* After so many repairs of the positions all edges of the windows are added, which decides. */
#ifndef ISO_REPAIRS
#define ISO_REPAIRS 6
#endif

/* From so many on going back from each stale read is cheaper than clocks. */
#ifndef ISO_MANY_SESSIONS
#define ISO_MANY_SESSIONS 64
#endif

/* What follows from a model: the ones that hold where it holds. */
static const unsigned implied[ISO_MODELS] = {
    [ISO_SESSION_CAUSAL] = ~0u,
    [ISO_SESSION_ATOMIC] = 1u << ISO_SESSION_VIEW | 1u << ISO_ATOMIC | 1u << ISO_VIEW,
    [ISO_SESSION_VIEW] = 1u << ISO_VIEW,
    [ISO_CAUSAL] = 1u << ISO_ATOMIC | 1u << ISO_VIEW,
    [ISO_ATOMIC] = 1u << ISO_VIEW,
};

static int by_after(const void *a, const void *b)
{
    const struct iso_edge *x = a, *y = b;
    if (x->after != y->after) {
        return x->after < y->after ? -1 : 1;
    }
    return x->before < y->before ? -1 : x->before > y->before;
}

static int by_first(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Edges from `from` on that lead before the initial value are violations of their own and go; of
 * the others the windows (first << 32 | last), sorted and merged. How many windows; `*violated` is
 * set where there was such a one. */
static uint32_t windows_of(struct iso *h, enum iso_model model, size_t from, uint64_t *window,
                           int *violated)
{
    size_t kept = from, count = 0;
    uint32_t merged = 0;
    for (size_t i = from; i < h->n_edges; i++) {
        struct iso_edge edge = h->edge[i];
        if (edge.after != ISO_NONE) {
            h->edge[kept++] = edge;
            window[count++] = (uint64_t)edge.after << 32 | edge.before;
        } else if (!*violated) {
            *violated = 1;
            iso_before_initial(h, model, &edge);
        }
    }
    h->n_edges = kept;
    qsort(window, count, sizeof *window, by_first);
    for (size_t i = 0; i < count; i++) {
        uint64_t begin = window[i] >> 32, end = (uint32_t)window[i];
        if (merged > 0 && (uint32_t)window[merged - 1] >= begin) {
            uint64_t held = (uint32_t)window[merged - 1];
            window[merged - 1] = window[merged - 1] >> 32 << 32 | (end > held ? end : held);
        } else {
            window[merged++] = window[i];
        }
    }
    return merged;
}

static void sort_edges(struct iso *h)
{
    size_t used = 0;
    qsort(h->edge, h->n_edges, sizeof *h->edge, by_after);
    for (size_t i = 0; i < h->n_edges; i++) {
        if (used == 0 || by_after(&h->edge[used - 1], &h->edge[i]) != 0) {
            h->edge[used++] = h->edge[i];
        }
    }
    h->n_edges = used;
}

static void demands(struct iso *h, enum iso_model model, enum iso_which which, uint32_t first)
{
    if (!iso_is_causal(model)) {
        iso_demands(h, model, which, first);
    } else if (which == ISO_AGAINST && (model == ISO_CAUSAL || h->n_sessions > ISO_MANY_SESSIONS)) {
        iso_way_demands(h, model != ISO_CAUSAL);
    } else if (model == ISO_SESSION_CAUSAL ||
               (iso_cover(h) == TXN_DONE && iso_index_keys(h) == TXN_DONE)) {
        iso_clock_demands(h, which, first);
    }
}

/* All edges that lead forward within the windows, too. */
static void complete(struct iso *h, enum iso_model model, const uint64_t *window, uint32_t count)
{
    h->window = iso_nones(h, h->n);
    if (iso_failed(h)) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = (uint32_t)(window[i] >> 32);
        for (uint32_t at = first; at <= (uint32_t)window[i]; at++) {
            h->window[at] = first;
        }
    }
    demands(h, model, ISO_WITHIN, (uint32_t)(window[0] >> 32));
    txn_free(h->ctx, h->window);
    h->window = NULL;
}

/* One look at all stale reads. ISO_NOT_ASKED = the positions were repaired; look again. */
static enum iso_answer round_of(struct iso *h, enum iso_model model, int decisive)
{
    size_t before = h->n_edges;
    demands(h, model, ISO_AGAINST, 0);
    h->report->demands += (int64_t)(h->n_edges - before);
    if (iso_failed(h) || h->n_edges == before) {
        return iso_failed(h) ? ISO_OPEN : ISO_VALID;
    }
    uint64_t *window = txn_alloc(h->ctx, h->n_edges - before, sizeof *window);
    uint32_t *order = decisive ? NULL : iso_zeros(h, h->n), best = ISO_NONE;
    int violated = 0;
    if (!iso_failed(h)) {
        uint32_t count = windows_of(h, model, before, window, &violated);
        if (decisive && !violated && count > 0) {
            complete(h, model, window, count);
        }
        for (uint32_t at = 0; order != NULL && at < h->n; at++) {
            order[at] = at;
        }
        sort_edges(h);
        for (uint32_t i = 0; i < count && !violated && !iso_failed(h); i++) {
            violated |= iso_cycles(h, model, (uint32_t)(window[i] >> 32), (uint32_t)window[i],
                                   order, &best);
        }
    }
    txn_free(h->ctx, window);
    enum iso_answer answer = violated ? ISO_VIOLATED : iso_failed(h) ? ISO_OPEN : ISO_NOT_ASKED;
    if (answer == ISO_NOT_ASKED && decisive) {
        answer = ISO_VALID;
    } else if (answer == ISO_NOT_ASKED) {
        iso_reorder(h, order);
        iso_index_keys(h);
    }
    txn_free(h->ctx, order);
    return iso_failed(h) && !violated ? ISO_OPEN : answer;
}

static enum iso_answer decide(struct iso *h, enum iso_model model)
{
    h->n_edges = 0;
    for (int round = 0;; round++) {
        enum iso_answer answer = round_of(h, model, round >= ISO_REPAIRS);
        if (answer != ISO_NOT_ASKED) {
            return answer;
        }
    }
}

static void answer(struct iso_report *report, unsigned models, enum iso_answer answer)
{
    for (int m = 0; m < ISO_MODELS; m++) {
        if (models >> m & 1) {
            report->answers[m] = (int)answer;
        }
    }
}

static const unsigned SESSIONS = 1u << ISO_SESSION_CAUSAL | 1u << ISO_SESSION_ATOMIC |
                                 1u << ISO_SESSION_VIEW | 1u << ISO_SESSION_COMMITTED;

static const unsigned COMMITTED = 1u << ISO_SESSION_COMMITTED | 1u << ISO_COMMITTED;

/* From one read in so many on that returned a later write the positions are made up, and say little
 * of when things happened. */
#ifndef ISO_MADE_UP
#define ISO_MADE_UP 64
#endif

/* Moves to positions that hold the edges. */
static void move(struct iso *h, int sessions, uint32_t *order)
{
    int made_up = (uint64_t)h->n_back * ISO_MADE_UP > h->n_reads;
    if (!made_up || iso_by_time(h, sessions, order) == TXN_DONE) {
        iso_reorder(h, order);
    }
}

/* Positions that hold the edges that need no demand. The models that are still open. */
static unsigned arrange(struct iso *h, unsigned models)
{
    uint32_t *order = iso_zeros(h, h->n), best = ISO_NONE;
    if (iso_failed(h)) {
        return 0;
    }
    int sessions = 1, found = iso_topological(h, 1, order);
    if (!found && !iso_failed(h)) {
        iso_cycles(h, ISO_SESSION_COMMITTED, 0, h->n - 1, NULL, &best);
        answer(h->report, models & SESSIONS, ISO_VIOLATED);
        models &= ~SESSIONS;
        found = iso_topological(h, 0, order);
        sessions = 0;
        if (!found && !iso_failed(h)) {
            best = ISO_NONE;
            iso_cycles(h, ISO_COMMITTED, 0, h->n - 1, NULL, &best);
            answer(h->report, models, ISO_VIOLATED);
            models = 0;
        }
    }
    if (found && (models & ~COMMITTED) != 0) {
        move(h, sessions, order);
    }
    txn_free(h->ctx, order);
    return models;
}

static const unsigned ATOMIC = 1u << ISO_SESSION_CAUSAL | 1u << ISO_SESSION_ATOMIC |
                               1u << ISO_CAUSAL | 1u << ISO_ATOMIC;

/* From the strongest on: what holds settles those that it implies. Causal without sessions takes
 * paths of its own, so that it comes last, and only where it does not follow. */
static void decide_all(struct iso *h, unsigned models)
{
    if (models >> ISO_CAUSAL & 1) {
        models |= 1u << ISO_SESSION_CAUSAL;
    }
    if (h->n_back > 0) {
        models = arrange(h, models);
    }
    if (iso_failed(h) || models == 0) {
        return;
    }
    answer(h->report, models & COMMITTED, ISO_VALID);
    models &= ~COMMITTED;
    h->report->stale = h->n_stale;
    if (h->n_stale == 0) {
        answer(h->report, models, ISO_VALID);
        return;
    }
    iso_index_keys(h);
    static const enum iso_model first[] = {ISO_SESSION_CAUSAL, ISO_SESSION_ATOMIC, ISO_SESSION_VIEW,
                                           ISO_ATOMIC,         ISO_VIEW,           ISO_CAUSAL};
    for (size_t i = 0; i < sizeof first / sizeof *first && !iso_failed(h); i++) {
        enum iso_model m = first[i];
        if (!(models >> m & 1)) {
            continue;
        }
        enum iso_answer found = decide(h, m);
        answer(h->report, 1u << m, found);
        if (found == ISO_VALID) {
            answer(h->report, models & implied[m], ISO_VALID);
            models &= ~implied[m];
        }
        models &= ~(1u << m);
    }
}

/* What violates alone settles the models that forbid it. Those that are left. */
static unsigned judge_faults(const struct iso *h, unsigned models)
{
    struct iso_report *report = h->report;
    int64_t dirty = -report->counts[TXN_INTERNAL];
    for (int i = 0; i < TXN_FINDINGS; i++) {
        dirty += report->counts[i];
    }
    unsigned violated = dirty > 0 ? models : report->counts[TXN_INTERNAL] > 0 ? ATOMIC : 0;
    answer(report, models & violated, ISO_VIOLATED);
    return models & ~violated;
}

/* A process that did two things at once has no order of them all; one that is too strict can show
 * that a session model holds, and nothing else. What was not asked is not answered. */
static void settle(struct iso_report *report, unsigned models)
{
    for (int m = 0; m < ISO_MODELS; m++) {
        int doubtful = report->overlapping > 0 && (SESSIONS >> m & 1);
        if (!(models >> m & 1)) {
            report->answers[m] = ISO_NOT_ASKED;
        } else if (doubtful && report->answers[m] == ISO_VIOLATED) {
            report->answers[m] = ISO_OPEN;
        }
    }
}

int iso_check(const struct txn_input *in, const struct txn_options *options, unsigned models,
              struct iso_known known, struct iso_report *report)
{
    struct txn_ctx c;
    memset(report, 0, sizeof *report);
    txn_begin(&c, in, options, &report->rest);
    struct iso h = {.ctx = &c, .report = report};
    answer(report, models, ISO_OPEN);
    if (txn_validate(&c) == TXN_DONE) {
        h.n = (uint32_t)in->n;
        h.n_keys = (uint32_t)in->n_keys;
        if (iso_split(&h) == TXN_DONE && report->nil_writes == 0) {
            iso_take_known(&h, known);
            iso_resolve(&h);
            report->reads = h.n_reads;
            if (c.status == TXN_DONE) {
                decide_all(&h, judge_faults(&h, models));
                settle(report, models);
            }
        }
    }
    int status = c.status;
    txn_end(&c);
    return status;
}

void iso_report_free(struct iso_report *report)
{
    txn_report_free(&report->rest);
}
