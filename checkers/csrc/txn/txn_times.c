/* rw-register: the order that real time gives to the versions of each key, if keys are
 * linearizable, in time proportional to operations times their concurrency. */
#include "txn_register.h"

void txn_carry_past(struct txn_versions *v)
{
    for (uint32_t u = 0; u < v->use_start[v->ctx->in->n] && txn_tick(v->ctx) == TXN_DONE; u++) {
        const struct txn_use *use = &v->use[u];
        if (use->read != use->wrote && use->read != v->nil[use->key]) {
            txn_pair(v, use->read, use->wrote);
        }
    }
}

/* Per key its events in order: 2 * use for a completion, 2 * use + 1 for an invocation. */
struct times {
    uint32_t *event, *start; /* of key k: start[k] .. start[k + 1] */
    uint32_t *txn;           /* of each use */
};

static void emit(struct txn_versions *v, struct times *times, int64_t t, uint32_t invocation)
{
    for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
        times->event[times->start[v->use[u].key + 1]++] = 2 * u + invocation;
    }
}

static int make_times(struct txn_versions *v, struct times *times)
{
    struct txn_ctx *c = v->ctx;
    const struct txn_input *in = c->in;
    uint32_t uses = v->use_start[in->n];
    times->start = txn_alloc(c, (size_t)in->n_keys + 2, sizeof *times->start);
    times->event = txn_alloc(c, 2 * (size_t)uses, sizeof *times->event);
    times->txn = txn_alloc(c, uses, sizeof *times->txn);
    uint32_t *completed = txn_alloc(c, (size_t)in->n_positions, sizeof *completed);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    for (int64_t t = 0; t < in->n; t++) {
        uint32_t events = (in->outcome[t] == TXN_OK) + (in->invoke_pos[t] >= 0);
        for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
            times->start[v->use[u].key + 2] += events;
            times->txn[u] = (uint32_t)t;
        }
        if (in->outcome[t] == TXN_OK) {
            if (completed[in->complete_pos[t]] != 0) {
                return txn_refuse(c, "two transactions complete at one position", t);
            }
            completed[in->complete_pos[t]] = (uint32_t)t + 1;
        }
    }
    for (int64_t k = 0; k < in->n_keys; k++) {
        times->start[k + 2] += times->start[k + 1];
    }
    int64_t invoked = 0;
    for (int64_t p = 0; p < in->n_positions && txn_tick(c) == TXN_DONE; p++) {
        for (; invoked < in->n && in->invoke_pos[invoked] <= p; invoked++) {
            if (in->invoke_pos[invoked] >= 0) {
                emit(v, times, invoked, 1);
            }
        }
        if (completed[p] != 0) {
            emit(v, times, (int64_t)completed[p] - 1, 0);
        }
    }
    txn_free(c, completed);
    return c->status;
}

static int64_t position(const struct txn_versions *v, const struct times *times, uint32_t event)
{
    uint32_t t = times->txn[event / 2];
    return event & 1 ? v->ctx->in->invoke_pos[t] : v->ctx->in->complete_pos[t];
}

static void pairs_of_key(struct txn_versions *v, const struct times *times, int64_t k)
{
    /* the last invocation of a transaction that has completed: what completed before it is past */
    int64_t last = -1;
    for (uint32_t e = times->start[k]; e < times->start[k + 1]; e++) {
        const struct txn_use *use = &v->use[times->event[e] / 2];
        if (!(times->event[e] & 1)) {
            int64_t begun = v->ctx->in->invoke_pos[times->txn[times->event[e] / 2]];
            last = begun > last ? begun : last;
            continue;
        }
        uint32_t now = txn_found_by(v, use);
        for (uint32_t d = e; d-- > times->start[k] && txn_tick(v->ctx) == TXN_DONE;) {
            if (position(v, times, times->event[d]) < last) {
                break;
            }
            uint32_t before = txn_left_by(&v->use[times->event[d] / 2]);
            if (!(times->event[d] & 1) && before != now) {
                txn_pair(v, before, now);
            }
        }
    }
}

void txn_pairs_of_time(struct txn_versions *v)
{
    struct times times = {NULL, NULL, NULL};
    txn_carry_past(v);
    if (make_times(v, &times) == TXN_DONE) {
        for (int64_t k = 0; k < v->ctx->in->n_keys && txn_tick(v->ctx) == TXN_DONE; k++) {
            pairs_of_key(v, &times, k);
        }
    }
    txn_free(v->ctx, times.event);
    txn_free(v->ctx, times.start);
    txn_free(v->ctx, times.txn);
}
