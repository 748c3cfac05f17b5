/* rw-register: findings that need no order of versions. */
#include "txn_register.h"

#include <string.h>

/* What the transaction being read last did to a key. */
struct last {
    uint32_t stamp; /* the transaction, plus one */
    int64_t mop;
};

static void check_read(struct txn_versions *v, int64_t t, int64_t i)
{
    const struct txn_input *in = v->c->in;
    int32_t k = in->mop_key[i], value = in->mop_value[i];
    uint32_t entry = v->x.writer[txn_claim(&v->x, k, value)];
    struct txn_found found = {TXN_GARBAGE_READ, k, value, t, i, -1, -1, -1};
    if (entry == TXN_NONE) {
        if (value != TXN_NIL) {
            txn_find(v->c, found);
        }
        return;
    }
    found.txn2 = TXN_ID(entry);
    if (entry & TXN_FAILED) {
        found.type = TXN_G1A;
        txn_find(v->c, found);
    }
    if ((entry & TXN_INTERMEDIATE) && TXN_ID(entry) != (uint32_t)t) {
        found.type = TXN_G1B;
        txn_find(v->c, found);
    }
}

/* The first read of a transaction that is at odds with what it did before. */
static void check_internal(struct txn_versions *v, int64_t t, struct last *last)
{
    const struct txn_input *in = v->c->in;
    for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
        int32_t k = in->mop_key[i];
        if (in->mop_kind[i] == TXN_READ && !in->mop_known[i]) {
            continue;
        }
        if (in->mop_kind[i] == TXN_READ && last[k].stamp == (uint32_t)t + 1 &&
            in->mop_value[last[k].mop] != in->mop_value[i]) {
            txn_find(v->c, (struct txn_found){TXN_INTERNAL, k, in->mop_value[i], t, i, -1,
                                              last[k].mop, -1});
            return;
        }
        last[k] = (struct last){(uint32_t)t + 1, i};
    }
}

/* A version that was read first and replaced by two transactions. */
static void check_updates(struct txn_versions *v, int64_t t, uint32_t *updater)
{
    for (uint32_t u = v->use_start[t]; u < v->use_start[t + 1]; u++) {
        const struct txn_use *use = &v->use[u];
        if (use->read == TXN_NONE || use->wrote == TXN_NONE) {
            continue;
        }
        if (updater[use->read] == 0) {
            updater[use->read] = (uint32_t)t + 1;
        } else {
            txn_find(v->c, (struct txn_found){TXN_LOST_UPDATE, use->key, v->value[use->read], t, -1,
                                              (int64_t)updater[use->read] - 1, -1, -1});
        }
    }
}

int txn_register_findings(struct txn_versions *v)
{
    struct txn_ctx *c = v->c;
    const struct txn_input *in = c->in;
    uint32_t *updater = txn_alloc(c, v->count, sizeof *updater);
    struct last *last = txn_alloc(c, (size_t)in->n_keys, sizeof *last);
    for (int64_t t = 0; c->status == TXN_DONE && t < in->n && txn_tick(c) == TXN_DONE; t++) {
        if (in->outcome[t] != TXN_OK) {
            continue;
        }
        for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
            if (in->mop_kind[i] == TXN_READ && in->mop_known[i]) {
                check_read(v, t, i);
            }
        }
        check_internal(v, t, last);
        check_updates(v, t, updater);
    }
    txn_free(c, updater);
    txn_free(c, last);
    return c->status;
}
