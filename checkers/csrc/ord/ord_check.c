/* The models from the strongest on: one order can prove several. */
#include "ord_state.h"
#include "txn/txn_index.h"

#include <string.h>

static const struct {
    int snapshot;
    enum ord_between between;
    unsigned implied;
} models_of[ORD_MODELS] = {
    [ORD_STRICT_SER] = {0, ORD_REALTIME, 0x3f},
    [ORD_SESSION_SER] = {0, ORD_SESSIONS, 1u << ORD_SER | 1u << ORD_SESSION_SI | 1u << ORD_SI},
    [ORD_SER] = {0, ORD_PLAIN, 1u << ORD_SI},
    [ORD_STRICT_SI] = {1, ORD_REALTIME, 1u << ORD_SESSION_SI | 1u << ORD_SI},
    [ORD_SESSION_SI] = {1, ORD_SESSIONS, 1u << ORD_SI},
    [ORD_SI] = {1, ORD_PLAIN, 0},
};

static void answer(struct ord_report *report, unsigned models, enum ord_answer answer)
{
    for (int m = 0; m < ORD_MODELS; m++) {
        if (models >> m & 1) {
            report->answers[m] = (int)answer;
        }
    }
}

static void push_involved(const struct ord_history *h, enum ord_model model,
                          struct ord_report *report)
{
    int64_t head[] = {model, h->n_involved};
    txn_push(h->ctx, &report->rest.cycles, head, 2);
    for (uint32_t i = 0; i < h->n_involved; i++) {
        int64_t name = h->name[h->involved[i]];
        txn_push(h->ctx, &report->rest.cycles, &name, 1);
    }
}

static void push_source(const struct ord *o, uint32_t open, const uint32_t *last,
                        struct ord_report *report)
{
    const struct ord_history *h = o->of;
    for (uint32_t x = h->first_candidate[open]; x < h->first_candidate[open + 1]; x++) {
        if (last[h->write_key[h->candidate[x]]] == h->candidate[x]) {
            int64_t at = h->candidate_at[x];
            txn_push(o->ctx, &report->sources, &at, 1);
        }
    }
}

/* `node_at` has the order. */
static void push_sources(const struct ord *o, struct ord_report *report)
{
    const struct ord_history *h = o->of;
    uint32_t *last = h->n_open > 0 ? txn_alloc(o->ctx, h->n_keys, sizeof *last) : NULL;
    if (last == NULL) {
        return;
    }
    memset(last, 0xff, h->n_keys * sizeof *last);
    for (uint32_t i = 0; i < o->nodes; i++) {
        uint32_t node = o->node_at[i], txn = node < o->own_nodes ? ord_txn(o, node) : ORD_NONE;
        if (txn == ORD_NONE) {
            continue;
        }
        uint32_t r = node == ord_begin(o, txn) ? h->first_open[txn] : h->first_open[txn + 1];
        for (; r < h->first_open[txn + 1]; r++) {
            push_source(o, r, last, report);
        }
        uint32_t w = node == ord_commit(o, txn) ? h->first_write[txn] : h->first_write[txn + 1];
        for (; w < h->first_write[txn + 1]; w++) {
            last[h->write_key[w]] = w;
        }
    }
    txn_free(o->ctx, last);
}

static void push_order(const struct ord *o, enum ord_model model, struct ord_report *report)
{
    for (uint32_t v = 0; v < o->nodes; v++) {
        o->node_at[o->place[v]] = v;
    }
    for (uint32_t i = 0; i < o->nodes; i++) {
        uint32_t node = o->node_at[i];
        if (node < o->own_nodes && node == ord_commit(o, ord_txn(o, node))) {
            int64_t name = o->of->name[ord_txn(o, node)];
            txn_push(o->ctx, &report->order, &name, 1);
        }
    }
    push_sources(o, report);
    report->order_model = (int)model;
}

static enum ord_answer decide(struct ord_history *h, enum ord_model model, uint32_t slack,
                              struct ord_report *report)
{
    struct ord o;
    enum ord_answer found = ORD_VIOLATED;
    h->n_involved = 0;
    slack = models_of[model].between == ORD_REALTIME ? 0 : slack;
    if (ord_build(&o, h, models_of[model].snapshot, models_of[model].between, slack)) {
        found = ord_failed(&o) ? ORD_OPEN : ord_search(&o);
    } else {
        o.leant = 1;
    }
    if (found == ORD_VALID && !ord_replay(&o, models_of[model].between)) {
        found = ORD_OPEN;
    }
    if (found == ORD_VALID && report->order_model < 0) {
        push_order(&o, model, report);
    }
    if (found == ORD_VIOLATED) {
        push_involved(h, model, report);
        found = slack > 0 && o.leant ? ORD_OPEN : ORD_VIOLATED;
    }
    report->pairs += o.pairs.used;
    report->choices += o.choices;
    report->conflicts += o.conflicts;
    ord_drop(&o);
    return found;
}

static void decide_all(struct ord_history *h, unsigned models, uint32_t slack,
                       struct ord_report *report)
{
    for (int m = 0; m < ORD_MODELS && h->ctx->status == TXN_DONE; m++) {
        if (!(models >> m & 1)) {
            continue;
        }
        enum ord_answer found = decide(h, (enum ord_model)m, slack, report);
        answer(report, 1u << m, found);
        models &= ~(1u << m);
        if (found == ORD_VALID) {
            answer(report, models & models_of[m].implied, ORD_VALID);
            models &= ~models_of[m].implied;
        }
    }
}

/* What no order can explain, whatever the model. */
static int64_t faults_of(const struct iso_report *seen)
{
    int64_t sum = 0;
    for (int i = 0; i < TXN_FINDINGS; i++) {
        sum += seen->counts[i];
    }
    return sum;
}

/* A process that did two things at once has no order of them all: see iso_check. */
static void settle(struct ord_report *report)
{
    static const unsigned SESSIONS = 1u << ORD_STRICT_SER | 1u << ORD_SESSION_SER |
                                     1u << ORD_STRICT_SI | 1u << ORD_SESSION_SI;
    for (int m = 0; report->overlapping > 0 && m < ORD_MODELS; m++) {
        if (SESSIONS >> m & 1 && report->answers[m] == ORD_VIOLATED) {
            report->answers[m] = ORD_OPEN;
        }
    }
}

static void check(struct iso *h, unsigned models, uint32_t slack, struct ord_reads *reads,
                  struct ord_report *report)
{
    struct ord_history history = {.ctx = h->ctx};
    if (iso_split(h) == TXN_DONE && h->report->nil_writes == 0 &&
        ord_take_reads(h, reads) == TXN_DONE) {
        iso_resolve(h);
    }
    report->overlapping = h->report->overlapping;
    report->nil_writes = h->report->nil_writes;
    report->faults = faults_of(h->report);
    if (h->ctx->status != TXN_DONE || report->nil_writes > 0) {
        return;
    }
    int fine = report->faults > 0 || ord_history_make(&history, h, reads);
    report->faults += history.disagreeing;
    if (h->ctx->status != TXN_DONE) {
        return;
    }
    if (report->faults > 0) {
        answer(report, models, ORD_VIOLATED);
        return;
    }
    if (!fine) {
        answer(report, models, ORD_VIOLATED);
        push_involved(&history, ORD_SI, report);
        return;
    }
    decide_all(&history, models, slack, report);
    settle(report);
}

int ord_check(const struct txn_input *in, const struct txn_options *options, unsigned models,
              uint32_t slack, struct ord_reads reads, struct ord_report *report)
{
    struct txn_ctx c;
    struct iso_report seen = {.rest = {.where = -1}};
    memset(report, 0, sizeof *report);
    report->order_model = -1;
    txn_begin(&c, in, options, &report->rest);
    struct iso h = {.ctx = &c, .report = &seen};
    answer(report, models, ORD_OPEN);
    if (txn_validate(&c) == TXN_DONE) {
        h.n = (uint32_t)in->n;
        h.n_keys = (uint32_t)in->n_keys;
        check(&h, models, slack, &reads, report);
    }
    int status = c.status;
    txn_end(&c);
    return status;
}

void ord_report_free(struct ord_report *report)
{
    txn_report_free(&report->rest);
    struct txn_report rows = {.cycles = report->order, .findings = report->sources};
    txn_report_free(&rows);
    report->order = report->sources = (struct txn_rows){NULL, 0, 0};
}
