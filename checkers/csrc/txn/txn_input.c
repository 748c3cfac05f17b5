/* What a caller hands over, before anything is made of it. */
#include "txn_index.h"

/* Node numbers and labels share 32 bits, and implicit nodes come on top of transactions. */
static const int64_t TXNS_MAX = INT64_C(1) << 27;
static const int64_t MOPS_MAX = INT64_C(1) << 30;

int txn_input_of(const struct txn_column columns[TXN_COLUMNS], struct txn_input *in, int *which,
                 int64_t *wanted)
{
    int64_t n = columns[TXN_OUTCOME].length, m = columns[TXN_KIND].length;
    int64_t e = columns[TXN_ELEM].length, ranked = columns[TXN_ORDER].length == 0 ? 0 : n;
    int64_t hashed = columns[TXN_VALUE_HASH].length == 0 ? 0 : in->n_values;
    const int64_t need[TXN_COLUMNS] = {n, n, n, n, n + 1, m, m, m, m, m + 1, e, ranked, hashed};
    for (int i = 0; i < TXN_COLUMNS; i++) {
        if (columns[i].length != need[i]) {
            *which = i;
            *wanted = need[i];
            return -1;
        }
    }
    in->outcome = columns[TXN_OUTCOME].at;
    in->process = columns[TXN_PROCESSES].at;
    in->invoke_pos = columns[TXN_INVOKE].at;
    in->complete_pos = columns[TXN_COMPLETE].at;
    in->mop_start = columns[TXN_MOP_START].at;
    in->mop_kind = columns[TXN_KIND].at;
    in->mop_key = columns[TXN_KEY].at;
    in->mop_value = columns[TXN_VALUE].at;
    in->mop_known = columns[TXN_KNOWN].at;
    in->elem_start = columns[TXN_ELEM_START].at;
    in->elem = columns[TXN_ELEM].at;
    in->order = ranked == 0 ? NULL : columns[TXN_ORDER].at;
    in->value_hash = hashed == 0 ? NULL : columns[TXN_VALUE_HASH].at;
    in->n = n;
    in->m = m;
    in->e = e;
    return 0;
}

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
    if (in->mop_known[i] > 2) {
        return txn_refuse(c, "mop_known is not 0, 1 or 2", i);
    }
    int64_t from = in->elem_start[i], to = in->elem_start[i + 1];
    if (from < 0 || to < from || to > in->e) {
        return txn_refuse(c, "elem_start does not rise to the number of elements", i);
    }
    if (to - from > INT32_MAX) {
        return txn_refuse(c, "a list of more elements than fit", i);
    }
    return TXN_DONE;
}

/* Is there anything that validate_mop refuses? Without a branch for each, and mostly there is not. */
static int all_mops_fine(const struct txn_input *in)
{
    uint64_t bad = 0, keys = (uint64_t)in->n_keys, values = (uint64_t)in->n_values;
    for (int64_t i = 0; i < in->m; i++) {
        bad |= (uint64_t)(in->mop_kind[i] > TXN_WRITE) | (uint64_t)(in->mop_known[i] > 2);
        bad |= (uint64_t)((uint64_t)(int64_t)in->mop_key[i] >= keys);
        bad |= (uint64_t)((uint64_t)((int64_t)in->mop_value[i] - TXN_NIL) > values);
    }
    for (int64_t i = 0; i < in->m; i++) {
        bad |= (uint64_t)((uint64_t)in->elem_start[i + 1] - (uint64_t)in->elem_start[i] >
                          INT32_MAX);
    }
    return bad == 0; /* elem_start rises by little and begins and ends as it should */
}

int txn_validate(struct txn_ctx *c)
{
    const struct txn_input *in = c->in;
    const struct txn_options *options = c->options;
    if (options->workload < TXN_LIST_APPEND || options->workload > TXN_RW_REGISTER ||
        options->between < TXN_NO_ORDER || options->between > TXN_REALTIME ||
        options->sources < 0 || options->sources >= 2 * TXN_SHARP) {
        return txn_refuse(c, "no such workload, order or source of versions", 0);
    }
    if (in->n_keys < 0 || in->n_values < 0 || in->n_processes < 0 || in->n_positions < 0) {
        return txn_refuse(c, "a count is negative", 0);
    }
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
    int fine = all_mops_fine(in);
    for (int64_t i = 0; i < in->m && !fine; i++) {
        if (validate_mop(c, i) != TXN_DONE) {
            return c->status;
        }
    }
    /* values that are looked up are range-checked by the index; names are not, so all must fit */
    uint32_t bad = 0, limit = (uint32_t)in->n_values;
    for (int64_t i = 0; i < in->e; i++) {
        bad |= (uint32_t)in->elem[i] >= limit;
    }
    return bad ? txn_refuse(c, "an element's value id is out of range", 0) : txn_poll_budget(c);
}
