/* rw-register: the order that real time gives to the versions of one key, if each key is
 * linearizable, and findings of single reads.
 *
 * A version is `known` from the first completion of a transaction that left it or only saw it, and
 * `current` until the last invocation of one that found it. One version comes before another if it
 * is known before the other is last found current. Only the reduced order is written out: a pair
 * with a third version in between follows from two others. */
#include "txn_register.h"

#include <string.h>

static void note_times(struct txn_versions *v, struct txn_times *times)
{
    const struct txn_input *in = v->c->in;
    for (uint32_t i = 0; i < v->count; i++) {
        times->known[i] = INT64_MAX;
        times->current[i] = -1;
    }
    for (int64_t t = 0; t < in->n; t++) {
        for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
            const struct txn_use *use = &v->use[u];
            uint32_t found = txn_found_by(v, use);
            uint32_t left = txn_left_by(use);
            if (in->outcome[t] == TXN_OK && in->complete_pos[t] < times->known[left]) {
                times->known[left] = in->complete_pos[t];
            }
            if (in->invoke_pos[t] > times->current[found]) {
                times->current[found] = in->invoke_pos[t];
            }
        }
    }
}

static void emit_known(struct txn_versions *v, struct txn_times *times, int64_t t)
{
    for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
        const struct txn_use *use = &v->use[u];
        uint32_t left = txn_left_by(use);
        if (times->known[left] == v->c->in->complete_pos[t]) {
            times->event[times->start[use->key + 1]++] = left * 2;
        }
    }
}

static void emit_current(struct txn_versions *v, struct txn_times *times, int64_t t)
{
    for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
        const struct txn_use *use = &v->use[u];
        uint32_t found = txn_found_by(v, use);
        if (v->c->in->invoke_pos[t] >= 0 && times->current[found] == v->c->in->invoke_pos[t]) {
            times->event[times->start[use->key + 1]++] = found * 2 + 1;
        }
    }
}

int txn_times_make(struct txn_versions *v, struct txn_times *times)
{
    struct txn_ctx *c = v->c;
    const struct txn_input *in = c->in;
    times->known = txn_alloc(c, v->count, sizeof *times->known);
    times->current = txn_alloc(c, v->count, sizeof *times->current);
    times->start = txn_alloc(c, (size_t)in->n_keys + 2, sizeof *times->start);
    times->event = txn_alloc(c, 2 * (size_t)v->count, sizeof *times->event);
    uint32_t *completed = txn_alloc(c, (size_t)in->n_positions, sizeof *completed);
    if (c->status != TXN_DONE || v->count > UINT32_MAX / 4) {
        c->status = c->status == TXN_DONE ? TXN_MEMORY : c->status;
        return c->status;
    }
    note_times(v, times);
    for (uint32_t i = 0; i < v->count; i++) {
        times->start[v->key[i] + 2] += times->known[i] != INT64_MAX;
        times->start[v->key[i] + 2] += times->current[i] >= 0;
    }
    for (int64_t k = 0; k < in->n_keys; k++) {
        times->start[k + 2] += times->start[k + 1];
    }
    for (int64_t t = 0; t < in->n; t++) {
        if (in->outcome[t] == TXN_OK) {
            completed[in->complete_pos[t]] = (uint32_t)t + 1;
        }
    }
    int64_t invoked = 0;
    for (int64_t p = 0; p < in->n_positions && txn_tick(c) == TXN_DONE; p++) {
        while (invoked < in->n && in->invoke_pos[invoked] < p) {
            emit_current(v, times, invoked++);
        }
        if (completed[p] != 0) {
            emit_known(v, times, (int64_t)completed[p] - 1);
        }
    }
    while (invoked < in->n && c->status == TXN_DONE) {
        emit_current(v, times, invoked++);
    }
    txn_free(c, completed);
    return c->status;
}

void txn_times_free(struct txn_versions *v, struct txn_times *times)
{
    txn_free(v->c, times->known);
    txn_free(v->c, times->current);
    txn_free(v->c, times->event);
    txn_free(v->c, times->start);
}

/* The versions known so far that stay current longest, longest first. */
struct longest {
    uint32_t version[3];
    int count;
};

static void note_longest(struct longest *l, const struct txn_times *times, uint32_t version)
{
    int at = l->count < 3 ? l->count++ : 3;
    while (at > 0 && times->current[l->version[at - 1]] < times->current[version]) {
        if (at < 3) {
            l->version[at] = l->version[at - 1];
        }
        at--;
    }
    if (at < 3) {
        l->version[at] = version;
    }
}

void txn_times_pairs(struct txn_versions *v, const struct txn_times *times, uint32_t key)
{
    struct longest l = {.count = 0};
    for (uint32_t e = times->start[key]; e < times->start[key + 1]; e++) {
        uint32_t x = times->event[e] / 2, y1 = TXN_NONE, y2 = TXN_NONE;
        if (!(times->event[e] & 1)) {
            /* a version that nobody is known to have written has no edges to stand in for */
            if (v->writer[x] != TXN_NONE) {
                note_longest(&l, times, x);
            }
            continue;
        }
        for (int i = 0; i < l.count; i++) {
            if (l.version[i] != x) {
                y2 = y1 != TXN_NONE && y2 == TXN_NONE ? l.version[i] : y2;
                y1 = y1 == TXN_NONE ? l.version[i] : y1;
            }
        }
        int64_t least = y1 == TXN_NONE ? -1 : times->current[y1];
        for (uint32_t d = e; d-- > times->start[key] && txn_tick(v->c) == TXN_DONE;) {
            uint32_t a = times->event[d] / 2;
            int64_t at = times->event[d] & 1 ? times->current[a] : times->known[a];
            if (at < least) {
                break;
            }
            if (!(times->event[d] & 1) && a != x) {
                txn_pair(v, a, x);
            }
        }
        if (y1 != TXN_NONE && times->known[y1] < least &&
            times->known[y1] >= (y2 == TXN_NONE ? -1 : times->current[y2])) {
            txn_pair(v, y1, x);
        }
    }
}
