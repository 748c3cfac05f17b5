/* Validation of columns, and the index of writes. */
#include "txn_index.h"

#include <string.h>

/* Node numbers and labels share 32 bits, and implicit nodes come on top of transactions. */
static const int64_t TXNS_MAX = INT64_C(1) << 27;
static const int64_t MOPS_MAX = INT64_C(1) << 30;

static int validate_txn(struct txn_ctx *c, int64_t t)
{
    const struct txn_input *in = c->in;
    int64_t invoke = in->invoke_pos[t], complete = in->complete_pos[t];
    if (in->outcome[t] > TXN_INFO) {
        return txn_refuse(c, "outcome is not ok, fail or info", t);
    }
    if (invoke < -1 || complete < -1 || invoke >= in->n_positions || complete >= in->n_positions ||
        (invoke < 0 && complete < 0)) {
        return txn_refuse(c, "event position out of range", t);
    }
    if (complete >= 0 && complete <= invoke) {
        return txn_refuse(c, "completion is not after the invocation", t);
    }
    if (in->outcome[t] != TXN_INFO && complete < 0) {
        return txn_refuse(c, "an ok or failed transaction needs a completion", t);
    }
    if (in->process[t] < -1 || in->process[t] >= in->n_processes) {
        return txn_refuse(c, "process id out of range", t);
    }
    if (t > 0) {
        int64_t before = in->invoke_pos[t - 1] >= 0 ? in->invoke_pos[t - 1]
                                                    : in->complete_pos[t - 1];
        if ((invoke >= 0 ? invoke : complete) <= before) {
            return txn_refuse(c, "transactions are not in order of invocation", t);
        }
    }
    return TXN_DONE;
}

static int validate_mop(struct txn_ctx *c, int64_t i)
{
    const struct txn_input *in = c->in;
    if (in->mop_kind[i] > TXN_WRITE) {
        return txn_refuse(c, "a micro-op is neither read nor write", i);
    }
    if (in->mop_key[i] < 0 || in->mop_key[i] >= in->n_keys) {
        return txn_refuse(c, "key id out of range", i);
    }
    if (in->mop_value[i] < TXN_NIL || in->mop_value[i] >= in->n_values) {
        return txn_refuse(c, "value id out of range", i);
    }
    int64_t from = in->elem_start[i], to = in->elem_start[i + 1];
    if (from < 0 || to < from || to > in->e) {
        return txn_refuse(c, "elem_start does not rise to the number of elements", i);
    }
    return TXN_DONE;
}

int txn_validate(struct txn_ctx *c)
{
    const struct txn_input *in = c->in;
    if (in->n > TXNS_MAX || in->m > MOPS_MAX || in->n_keys > MOPS_MAX ||
        in->n_values >= INT32_MAX || in->n_processes > TXNS_MAX) {
        return txn_refuse(c, "more transactions, micro-ops, keys or values than fit", in->n);
    }
    if (in->mop_start[0] != 0 || in->mop_start[in->n] != in->m || in->elem_start[0] != 0 ||
        in->elem_start[in->m] != in->e) {
        return txn_refuse(c, "mop_start or elem_start does not span its column", 0);
    }
    for (int64_t t = 0; t < in->n; t++) {
        if (in->mop_start[t + 1] < in->mop_start[t] || in->mop_start[t + 1] > in->m) {
            return txn_refuse(c, "mop_start does not rise to the number of micro-ops", t);
        }
        if (validate_txn(c, t) != TXN_DONE || txn_tick(c) != TXN_DONE) {
            return c->status;
        }
    }
    for (int64_t i = 0; i < in->m; i++) {
        if (validate_mop(c, i) != TXN_DONE) {
            return c->status;
        }
    }
    /* values that are looked up are range-checked by the index; names are not, so all must fit */
    uint32_t bad = 0, limit = (uint32_t)in->n_values + 1;
    for (int64_t i = 0; i < in->e; i++) {
        bad |= (uint32_t)in->elem[i] + 1 >= limit;
    }
    return bad ? txn_refuse(c, "an element's value id is out of range", 0) : txn_look(c);
}

/* Decides between slots by distance and slots by hash, and makes room. */
static int lay_out(struct txn_ctx *c, struct txn_index *x)
{
    const struct txn_input *in = c->in;
    x->base = txn_alloc(c, (size_t)in->n_keys, sizeof *x->base);
    x->low = txn_alloc(c, (size_t)in->n_keys, sizeof *x->low);
    x->range = txn_alloc(c, (size_t)in->n_keys, sizeof *x->range);
    if (c->status != TXN_DONE) {
        return c->status;
    }
    uint64_t writes = 0, total = 0;
    int reads = c->options->workload == TXN_RW_REGISTER;
    for (int64_t i = 0; i < in->m; i++) {
        if (in->mop_kind[i] != TXN_WRITE && !(reads && in->mop_known[i])) {
            continue;
        }
        int32_t key = in->mop_key[i], value = in->mop_value[i];
        writes++;
        if (x->range[key] == 0) {
            x->low[key] = value;
            x->range[key] = 1;
        } else if (value < x->low[key]) {
            x->range[key] += (uint32_t)(x->low[key] - value);
            x->low[key] = value;
        } else if ((uint32_t)(value - x->low[key]) >= x->range[key]) {
            x->range[key] = (uint32_t)(value - x->low[key]) + 1;
        }
    }
    for (int64_t k = 0; k < in->n_keys; k++) {
        x->base[k] = (int64_t)total;
        total += x->range[k];
    }
    x->slots = (size_t)total;
    if (total > 3 * writes + 1024) {
        x->slots = 64;
        while (x->slots < 2 * writes) {
            x->slots *= 2;
        }
        x->mask = x->slots - 1;
        x->hash = txn_alloc(c, x->slots, sizeof *x->hash);
    }
    x->writer = txn_alloc(c, x->slots, sizeof *x->writer);
    x->place = txn_alloc(c, x->slots, sizeof *x->place);
    if (c->status == TXN_DONE) {
        memset(x->writer, 0xff, x->slots * sizeof *x->writer);
        memset(x->place, 0xff, x->slots * sizeof *x->place);
    }
    return c->status;
}

int64_t txn_claim(struct txn_index *x, int32_t key, int32_t value)
{
    if (x->hash == NULL) {
        return x->base[key] + ((int64_t)value - x->low[key]);
    }
    uint64_t want = ((uint64_t)key << 32) + (uint32_t)value + 1;
    uint64_t i = txn_mix(key, value) & x->mask;
    while (x->hash[i] != 0 && x->hash[i] != want) {
        i = (i + 1) & x->mask;
    }
    x->hash[i] = want;
    return (int64_t)i;
}

int txn_index_make(struct txn_ctx *c, struct txn_index *x)
{
    const struct txn_input *in = c->in;
    memset(x, 0, sizeof *x);
    if (lay_out(c, x) != TXN_DONE) {
        return c->status;
    }
    /* the last transaction that was seen to write a key, so that earlier writes in it show */
    uint32_t *later = txn_alloc(c, (size_t)in->n_keys, sizeof *later);
    for (int64_t t = 0; t < in->n && txn_tick(c) == TXN_DONE; t++) {
        uint32_t failed = in->outcome[t] == TXN_FAIL ? TXN_FAILED : 0;
        for (int64_t i = in->mop_start[t + 1] - 1; i >= in->mop_start[t]; i--) {
            if (in->mop_kind[i] != TXN_WRITE) {
                continue;
            }
            int32_t key = in->mop_key[i];
            int64_t slot = txn_claim(x, key, in->mop_value[i]);
            int again = later[key] == (uint32_t)t + 1;
            later[key] = (uint32_t)t + 1;
            if (x->writer[slot] == TXN_NONE) {
                x->writer[slot] = (uint32_t)t | failed | (again ? TXN_INTERMEDIATE : 0);
            } else if (TXN_ID(x->writer[slot]) != (uint32_t)t ||
                       c->options->workload == TXN_LIST_APPEND) {
                return txn_refuse(c, "a value was written to its key before", i);
            }
        }
    }
    txn_free(c, later);
    return c->status;
}

void txn_index_free(struct txn_ctx *c, struct txn_index *x)
{
    void *owned[] = {x->writer, x->place, x->base, x->low, x->range, x->hash};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(c, owned[i]);
    }
}
