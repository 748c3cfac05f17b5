/* rw-register: findings that need no order of versions. */
#include "txn_register.h"

/* What the transaction being read did to a key. */
struct touch {
    uint32_t stamp;   /* the transaction, plus one */
    uint32_t last;    /* its last micro-op there */
    uint32_t read;    /* its first read, plus one */
    uint32_t updated; /* whether a write followed that read */
};

static void check_read(struct txn_versions *v, int64_t t, int64_t i)
{
    const struct txn_input *in = v->ctx->in;
    int32_t k = in->mop_key[i], value = in->mop_value[i];
    uint32_t entry = v->index.writer[txn_claim(&v->index, k, value)];
    struct txn_found found = {TXN_GARBAGE_READ, k, value, t, i, -1, -1, -1};
    if (entry == TXN_NONE) {
        if (value != TXN_NIL) {
            txn_find(v->ctx, found);
        }
        return;
    }
    found.txn2 = TXN_ID(entry);
    if (entry & TXN_FAILED) {
        found.type = TXN_G1A;
        txn_find(v->ctx, found);
    }
    if ((entry & TXN_INTERMEDIATE) && TXN_ID(entry) != (uint32_t)t) {
        found.type = TXN_G1B;
        txn_find(v->ctx, found);
    }
}

/* The read of micro-op j or a later one, of what the same transaction writes only with micro-op i; or
 * -1. */
static int64_t future_read(const struct txn_input *in, int64_t j, int64_t i)
{
    for (; j < i; j++) {
        if (in->mop_key[j] != in->mop_key[i] || in->mop_value[j] != in->mop_value[i]) {
            continue;
        }
        if (in->mop_kind[j] == TXN_WRITE) {
            return -1; /* it had written the same before: that is what it read */
        }
        if (in->mop_known[j]) {
            return j;
        }
    }
    return -1;
}

/* A version that two transactions read first and replaced. */
static void update(struct txn_versions *v, int64_t t, uint32_t read, uint32_t *updater)
{
    const struct txn_input *in = v->ctx->in;
    uint32_t version = v->index.place[txn_claim(&v->index, in->mop_key[read], in->mop_value[read])];
    if (updater[version] == 0) {
        updater[version] = read + 1;
        return;
    }
    txn_find(v->ctx, (struct txn_found){TXN_LOST_UPDATE, in->mop_key[read], in->mop_value[read], t,
                                        read, -1, (int64_t)updater[version] - 1, -1});
}

/* What the transaction did before a micro-op, against the micro-op itself. */
static void check_txn(struct txn_versions *v, int64_t t, struct touch *touches, uint32_t *updater)
{
    const struct txn_input *in = v->ctx->in;
    int wrong = 0;
    for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
        int32_t k = in->mop_key[i];
        struct touch *touch = &touches[k];
        int read = in->mop_kind[i] == TXN_READ;
        if (read && !in->mop_known[i]) {
            continue;
        }
        if (touch->stamp != (uint32_t)t + 1) {
            *touch = (struct touch){.stamp = (uint32_t)t + 1};
        } else if (read && !wrong && in->mop_value[touch->last] != in->mop_value[i]) {
            txn_find(v->ctx, (struct txn_found){TXN_INTERNAL, k, in->mop_value[i], t, i, -1,
                                                touch->last, -1});
            wrong = 1;
        }
        if (read && touch->read == 0) {
            touch->read = (uint32_t)i + 1;
        } else if (!read && touch->read != 0) {
            int beyond = v->ctx->options->sources & TXN_BEYOND_ELLE;
            int64_t early = beyond ? future_read(in, in->mop_start[t], i) : -1;
            if (early >= 0) {
                txn_find(v->ctx, (struct txn_found){TXN_FUTURE_READ, k, in->mop_value[i], t, early,
                                                    -1, i, -1});
            }
            touch->updated |= early >= 0 && early == touch->read - 1; /* it replaced its own */
        }
        if (!read && touch->read != 0 && !touch->updated) {
            touch->updated = 1;
            update(v, t, touch->read - 1, updater);
        }
        touch->last = (uint32_t)i;
    }
}

int txn_register_findings(struct txn_versions *v)
{
    struct txn_ctx *c = v->ctx;
    const struct txn_input *in = c->in;
    uint32_t *updater = txn_alloc(c, v->count, sizeof *updater);
    struct touch *touches = txn_alloc(c, (size_t)in->n_keys, sizeof *touches);
    for (int64_t t = 0; c->status == TXN_DONE && t < in->n && txn_tick(c) == TXN_DONE; t++) {
        if (in->outcome[t] != TXN_OK) {
            continue;
        }
        for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
            if (in->mop_kind[i] == TXN_READ && in->mop_known[i]) {
                check_read(v, t, i);
            }
        }
        check_txn(v, t, touches, updater);
    }
    txn_free(c, updater);
    txn_free(c, touches);
    return c->status;
}
