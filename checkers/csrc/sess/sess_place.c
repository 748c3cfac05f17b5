/* Columns of sessions that have no times. Positions of events are made up: the sessions are merged
 * so that each advances evenly. */
#include "sess_part.h"

#include <stdlib.h>
#include <string.h>

struct placing {
    struct core_memory memory;
    const struct sess_placing *in;
    struct sess_columns *out;
    struct sess_pair *pairs, *spare;
    int64_t *order; /* place -> transaction */
    int64_t *free; /* of transaction t: where its next micro-op goes; free[t] from free[n + 1] on */
    struct sess_ids keys, values;
};

static int sound(const struct sess_placing *in)
{
    if (in->n >= INT32_MAX || in->m >= INT32_MAX) {
        return 0;
    }
    for (int64_t t = 0; t < in->n; t++) {
        if (in->session[t] < SESS_NO_SESSION || in->session[t] >= INT32_MAX ||
            in->outcome[t] >= SESS_OUTCOMES) {
            return 0;
        }
    }
    for (int64_t i = 0; i < in->m; i++) {
        if (in->txn[i] < 0 || in->txn[i] >= in->n || in->kind[i] > SESS_WRITE) {
            return 0;
        }
    }
    return 1;
}

static uint64_t share_of(int64_t rank, int64_t size)
{
    double share = ((double)rank + 0.5) / (double)size;
    uint64_t bits;
    memcpy(&bits, &share, sizeof bits);
    return bits; /* doubles above 0 are in the order of their bits */
}

/* The transactions in an order that holds that of each session. Those without one count as one. */
static void merge(struct placing *p)
{
    const struct sess_placing *in = p->in;
    for (int64_t t = 0; t < in->n; t++) {
        p->pairs[t] = (struct sess_pair){(uint64_t)(in->session[t] + 1), t};
    }
    sess_sort(p->pairs, p->spare, in->n);
    for (int64_t from = 0, to; from < in->n; from = to) {
        uint64_t session = p->pairs[from].by;
        for (to = from; to < in->n && p->pairs[to].by == session;) {
            to++;
        }
        for (int64_t i = from; i < to; i++) {
            p->pairs[i].by = share_of(i - from, to - from);
        }
    }
    sess_sort(p->pairs, p->spare, in->n);
    for (int64_t i = 0; i < in->n; i++) {
        p->order[i] = p->pairs[i].what;
    }
}

static void put_txns(struct placing *p)
{
    const struct sess_placing *in = p->in;
    struct sess_columns *out = p->out;
    for (int64_t i = 0; i < in->m; i++) {
        p->free[in->txn[i]]++;
    }
    int64_t next = 0;
    for (int64_t i = 0; i < in->n; i++) {
        int64_t t = p->order[i], count = p->free[t];
        out->outcome[i] = in->outcome[t];
        out->process[i] = in->outcome[t] == SESS_FAIL ? SESS_NO_SESSION : in->session[t];
        out->invoke_pos[i] = 2 * i;
        out->complete_pos[i] = 2 * i + 1;
        out->op_index[i] = in->name[t];
        out->mop_start[i] = p->free[t] = next;
        next += count;
    }
    out->mop_start[in->n] = next;
}

static void put_mops(struct placing *p)
{
    const struct sess_placing *in = p->in;
    struct sess_columns *out = p->out;
    for (int64_t i = 0; i < in->m; i++) {
        int64_t t = in->txn[i], to = p->free[t]++;
        int writes = in->kind[i] == SESS_WRITE, ok = in->outcome[t] == SESS_OK;
        int null = in->null != NULL && in->null[i] != 0;
        int first = in->has_start && !null && in->value[i] == in->start;
        out->wrote_start |= first && writes;
        int known = writes          ? SESS_KNOWN
                    : !ok           ? SESS_UNKNOWN
                    : first || null ? SESS_NULL
                                    : SESS_KNOWN;
        int nil = null || (!writes && known != SESS_KNOWN);
        out->mop_kind[to] = in->kind[i];
        out->mop_key[to] = sess_id(&p->keys, i, in->key[i]);
        out->mop_value[to] = nil ? SESS_NIL : sess_id(&p->values, i, in->value[i]);
        out->mop_known[to] = (uint8_t)known;
    }
}

static int make_room(struct placing *p)
{
    struct sess_columns *out = p->out;
    int64_t n = p->in->n, m = p->in->m;
    p->pairs = ing_array(&p->memory, n, sizeof *p->pairs);
    p->spare = ing_array(&p->memory, n, sizeof *p->spare);
    p->order = ing_array(&p->memory, n, sizeof *p->order);
    p->free = ing_array(&p->memory, n, sizeof *p->free);
    out->outcome = ing_array(&p->memory, n, sizeof *out->outcome);
    out->process = ing_array(&p->memory, n, sizeof *out->process);
    out->invoke_pos = ing_array(&p->memory, n, sizeof *out->invoke_pos);
    out->complete_pos = ing_array(&p->memory, n, sizeof *out->complete_pos);
    out->op_index = ing_array(&p->memory, n, sizeof *out->op_index);
    out->mop_start = ing_array(&p->memory, n, sizeof *out->mop_start);
    out->mop_kind = ing_array(&p->memory, m, sizeof *out->mop_kind);
    out->mop_key = ing_array(&p->memory, m, sizeof *out->mop_key);
    out->mop_value = ing_array(&p->memory, m, sizeof *out->mop_value);
    out->mop_known = ing_array(&p->memory, m, sizeof *out->mop_known);
    out->elem_start = ing_array(&p->memory, m, sizeof *out->elem_start);
    int spent = p->pairs == NULL || p->spare == NULL || p->order == NULL || p->free == NULL ||
                out->outcome == NULL || out->process == NULL || out->invoke_pos == NULL ||
                out->complete_pos == NULL || out->op_index == NULL || out->mop_start == NULL ||
                out->mop_kind == NULL || out->mop_key == NULL || out->mop_value == NULL ||
                out->mop_known == NULL || out->elem_start == NULL;
    return spent || sess_ids_of(&p->memory, p->in->key, m, &p->keys) != 0 ||
                   sess_ids_of(&p->memory, p->in->value, m, &p->values) != 0
               ? -1
               : 0;
}

int sess_place(const struct sess_placing *in, int64_t memory_bytes, struct sess_columns *out,
               struct sess_error *error)
{
    struct placing p = {.memory = core_memory_of(memory_bytes), .in = in, .out = out};
    *out = (struct sess_columns){.n = in->n, .m = in->m};
    if (!sound(in)) {
        return sess_refuse(error, SESS_BROKEN, 0);
    }
    int status = make_room(&p);
    if (status == 0) {
        merge(&p);
        put_txns(&p);
        put_mops(&p);
        out->n_keys = p.keys.n;
        out->n_values = p.values.n;
        out->keys = p.keys.codes;
        out->values = p.values.codes;
        p.keys.codes = p.values.codes = NULL;
    } else {
        sess_columns_free(out);
        sess_refuse(error, SESS_SPENT, 0);
    }
    sess_ids_free(&p.memory, &p.keys);
    sess_ids_free(&p.memory, &p.values);
    free(p.pairs);
    free(p.spare);
    free(p.order);
    free(p.free);
    return status;
}

void sess_columns_free(struct sess_columns *columns)
{
    free(columns->outcome);
    free(columns->process);
    free(columns->invoke_pos);
    free(columns->complete_pos);
    free(columns->op_index);
    free(columns->mop_start);
    free(columns->mop_kind);
    free(columns->mop_key);
    free(columns->mop_value);
    free(columns->mop_known);
    free(columns->elem_start);
    free(columns->keys);
    free(columns->values);
    memset(columns, 0, sizeof *columns);
}
