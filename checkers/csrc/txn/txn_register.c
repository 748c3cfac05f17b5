/* rw-register: versions, what reads say of them, and edges from inferred orders. */
#include "txn_register.h"

#include <string.h>

/* Numbers the claimed slots key by key. */
static int number_versions(struct txn_versions *v)
{
    struct txn_ctx *c = v->ctx;
    const struct txn_input *in = c->in;
    for (int64_t i = 0; i < in->m; i++) {
        if (in->mop_kind[i] == TXN_WRITE || in->mop_known[i]) {
            int64_t slot = txn_claim(&v->index, in->mop_key[i], in->mop_value[i]);
            if (v->index.place[slot] == TXN_NONE) {
                v->index.place[slot] = 0;
                v->first[in->mop_key[i] + 1]++;
            }
        }
    }
    for (int64_t k = 0; k < in->n_keys; k++) {
        v->first[k + 1] += v->first[k];
    }
    v->count = v->first[in->n_keys];
    v->value = txn_alloc(c, v->count, sizeof *v->value);
    v->key = txn_alloc(c, v->count, sizeof *v->key);
    v->writer = txn_alloc(c, v->count, sizeof *v->writer);
    uint32_t *used = txn_alloc(c, (size_t)in->n_keys, sizeof *used);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    memset(v->index.place, 0xff, v->index.slots * sizeof *v->index.place);
    for (int64_t i = 0; i < in->m; i++) {
        int32_t k = in->mop_key[i];
        if (in->mop_kind[i] != TXN_WRITE && !in->mop_known[i]) {
            continue;
        }
        int64_t slot = txn_claim(&v->index, k, in->mop_value[i]);
        if (v->index.place[slot] == TXN_NONE) {
            uint32_t mine = v->first[k] + used[k]++, entry = v->index.writer[slot];
            v->index.place[slot] = mine;
            v->value[mine] = in->mop_value[i];
            v->key[mine] = (uint32_t)k;
            v->writer[mine] = TXN_NONE;
            if (!(entry & (TXN_FAILED | TXN_INTERMEDIATE)) &&
                in->outcome[TXN_ID(entry)] == TXN_OK) {
                v->writer[mine] = entry;
            }
            if (in->mop_value[i] == TXN_NIL) {
                v->nil[k] = mine;
                v->nil_written[k] = entry != TXN_NONE;
            }
        }
    }
    txn_free(c, used);
    return c->status;
}

static uint32_t version_of(const struct txn_versions *v, int64_t i)
{
    const struct txn_input *in = v->ctx->in;
    return v->index
        .place[txn_claim((struct txn_index *)&v->index, in->mop_key[i], in->mop_value[i])];
}

/* Uses of all transactions but failed ones. */
static int make_uses(struct txn_versions *v)
{
    struct txn_ctx *c = v->ctx;
    const struct txn_input *in = c->in;
    uint32_t *at = txn_alloc(c, (size_t)in->n_keys, sizeof *at), used = 0;
    for (int64_t t = 0; at != NULL && t < in->n && txn_tick(c) == TXN_DONE; t++) {
        uint32_t start = v->use_start[t] = used;
        for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
            int32_t k = in->mop_key[i];
            int write = in->mop_kind[i] == TXN_WRITE;
            if (in->outcome[t] == TXN_FAIL ||
                (!write && (in->outcome[t] != TXN_OK || !in->mop_known[i]))) {
                continue;
            }
            /* at[k] is the use plus one; that of an earlier transaction lies before `start` */
            if (at[k] <= start) {
                v->use[used++] = (struct txn_use){(uint32_t)k, TXN_NONE, TXN_NONE};
                at[k] = used;
                if (!write) {
                    v->use[used - 1].read = version_of(v, i);
                }
            }
            if (write) {
                v->use[at[k] - 1].wrote = version_of(v, i);
            }
        }
    }
    v->use_start[in->n] = used;
    txn_free(c, at);
    return c->status;
}

int txn_versions_make(struct txn_versions *v)
{
    struct txn_ctx *c = v->ctx;
    const struct txn_input *in = c->in;
    if (txn_index_make(c, &v->index) != TXN_DONE) {
        return c->status;
    }
    v->first = txn_alloc(c, (size_t)in->n_keys + 1, sizeof *v->first);
    v->nil = txn_alloc(c, (size_t)in->n_keys, sizeof *v->nil);
    v->nil_written = txn_alloc(c, (size_t)in->n_keys, sizeof *v->nil_written);
    v->use = txn_alloc(c, (size_t)in->m, sizeof *v->use);
    v->use_start = txn_alloc(c, (size_t)in->n + 1, sizeof *v->use_start);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    memset(v->nil, 0xff, (size_t)in->n_keys * sizeof *v->nil);
    return number_versions(v) == TXN_DONE ? make_uses(v) : c->status;
}

void txn_versions_free(struct txn_versions *v)
{
    void *owned[] = {v->first,       v->value, v->key,       v->writer, v->nil,
                     v->nil_written, v->use,   v->use_start, v->before, v->after};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(v->ctx, owned[i]);
    }
    txn_index_free(v->ctx, &v->index);
}

/* Readers of each version: reader[start[v]] .. reader[start[v + 1]]. */
struct readers {
    uint32_t *start, *reader;
};

static int make_readers(struct txn_versions *v, struct readers *r)
{
    const struct txn_input *in = v->ctx->in;
    r->start = txn_alloc(v->ctx, (size_t)v->count + 2, sizeof *r->start);
    r->reader = txn_alloc(v->ctx, v->use_start[in->n], sizeof *r->reader);
    if (v->ctx->status != TXN_DONE) {
        return v->ctx->status;
    }
    for (uint32_t u = 0; u < v->use_start[in->n]; u++) {
        if (v->use[u].read != TXN_NONE) {
            r->start[v->use[u].read + 2]++;
        }
    }
    for (uint32_t i = 0; i < v->count; i++) {
        r->start[i + 2] += r->start[i + 1];
    }
    for (int64_t t = 0; t < in->n; t++) {
        for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
            if (v->use[u].read != TXN_NONE) {
                r->reader[r->start[v->use[u].read + 1]++] = (uint32_t)t;
            }
        }
    }
    return v->ctx->status;
}

/* nil came before all other versions: who read it is before everybody who wrote the key. */
static void initial_edges(struct txn_versions *v, struct txn_graph *g, const struct readers *r,
                          uint32_t *fan_to, uint32_t *rank)
{
    for (int64_t k = 0; k < v->ctx->in->n_keys && txn_tick(v->ctx) == TXN_DONE; k++) {
        uint32_t nil = v->nil[k];
        struct txn_fan fan = {fan_to, 0, TXN_NONE, TXN_NONE};
        if (nil == TXN_NONE || v->nil_written[k] || r->start[nil] == r->start[nil + 1]) {
            continue;
        }
        for (uint32_t i = v->first[k]; i < v->first[k + 1]; i++) {
            if (v->writer[i] != TXN_NONE) {
                rank[v->writer[i]] = fan.count;
                fan_to[fan.count++] = v->writer[i];
            }
        }
        for (uint32_t i = r->start[nil]; i < r->start[nil + 1]; i++) {
            uint32_t t = r->reader[i];
            uint32_t mine = rank[t] < fan.count && fan_to[rank[t]] == t ? rank[t] : TXN_NONE;
            txn_fan_from(v->ctx, g, &fan, t, mine, TXN_RW);
        }
    }
}

static void version_edges(struct txn_versions *v, struct txn_graph *g, const struct readers *r)
{
    for (uint32_t i = 0; i < v->count && txn_tick(v->ctx) == TXN_DONE; i++) {
        for (uint32_t j = r->start[i]; v->writer[i] != TXN_NONE && j < r->start[i + 1]; j++) {
            txn_edge(v->ctx, g, v->writer[i], r->reader[j], TXN_WR);
            g->own[r->reader[j]] |= v->writer[i] == r->reader[j];
        }
    }
    for (size_t p = 0; p < v->pairs && txn_tick(v->ctx) == TXN_DONE; p++) {
        uint32_t a = v->before[p], to = v->writer[v->after[p]];
        if (to == TXN_NONE) {
            continue;
        }
        if (v->writer[a] != TXN_NONE) {
            txn_edge(v->ctx, g, v->writer[a], to, TXN_WW);
        }
        for (uint32_t j = r->start[a]; j < r->start[a + 1]; j++) {
            txn_edge(v->ctx, g, r->reader[j], to, TXN_RW);
        }
    }
}

int txn_register_graph(struct txn_ctx *c, struct txn_graph *g)
{
    struct txn_versions v = {.ctx = c};
    struct readers r = {NULL, NULL};
    if (txn_versions_make(&v) == TXN_DONE && txn_register_findings(&v) == TXN_DONE &&
        txn_infer_orders(&v) == TXN_DONE && make_readers(&v, &r) == TXN_DONE &&
        txn_graph_begin(c, g, (size_t)c->in->m + v.pairs) == TXN_DONE) {
        uint32_t *fan_to = txn_alloc(c, v.count, sizeof *fan_to);
        uint32_t *rank = txn_alloc(c, (size_t)c->in->n, sizeof *rank);
        g->own = txn_alloc(c, (size_t)c->in->n, sizeof *g->own);
        if (c->status == TXN_DONE) {
            version_edges(&v, g, &r);
            initial_edges(&v, g, &r, fan_to, rank);
        }
        txn_free(c, fan_to);
        txn_free(c, rank);
    }
    txn_free(c, r.start);
    txn_free(c, r.reader);
    txn_versions_free(&v);
    return c->status;
}
