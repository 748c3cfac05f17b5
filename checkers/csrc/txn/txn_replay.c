/* list-append: a store that executes the transactions in the order of their graph, and looks at what
 * they read and when: the proof of a clean history. It takes from the analysis nothing but the
 * order. Unknown transactions are executed, too: nothing follows from one whose appends nobody saw.
 */
#include "txn_graph.h"
#include "txn_local.h"

#include <string.h>

struct store {
    int32_t *value;
    int64_t *base, *end; /* of key k: base[k] .. end[k] are there */
    int64_t *begun;      /* latest invocation so far, of each session or at [0] of all */
};

static void make_store(struct txn_ctx *c, struct store *s)
{
    const struct txn_input *in = c->in;
    int64_t appends = 0;
    size_t sessions = c->options->between == TXN_PROCESS ? (size_t)in->n_processes : 1;
    s->base = txn_alloc(c, (size_t)in->n_keys + 1, sizeof *s->base);
    s->end = txn_alloc(c, (size_t)in->n_keys + 1, sizeof *s->end);
    s->begun = txn_alloc(c, sessions + 1, sizeof *s->begun);
    if (c->status != TXN_DONE) {
        return;
    }
    for (int64_t i = 0; i < in->m; i++) {
        appends += in->mop_kind[i] == TXN_WRITE;
        s->end[in->mop_key[i]] += in->mop_kind[i] == TXN_WRITE;
    }
    for (int64_t k = 0, at = 0; k < in->n_keys; k++) {
        int64_t here = s->end[k];
        s->base[k] = s->end[k] = at;
        at += here;
    }
    s->value = txn_alloc(c, (size_t)appends, sizeof *s->value);
}

/* 0 where a read tells something else than is there. */
static int execute(const struct txn_input *in, int64_t t, struct store *s)
{
    for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
        int64_t k = in->mop_key[i];
        if (in->mop_kind[i] == TXN_WRITE) {
            s->value[s->end[k]++] = in->mop_value[i];
        } else if (in->outcome[t] == TXN_OK && in->mop_known[i]) {
            int64_t length = in->elem_start[i + 1] - in->elem_start[i];
            if (length != s->end[k] - s->base[k] ||
                (length > 0 && memcmp(s->value + s->base[k], in->elem + in->elem_start[i],
                                      (size_t)length * sizeof *s->value) != 0)) {
                return 0;
            }
        }
    }
    return 1;
}

/* 0 where something was invoked, and executed before t, only after t had completed. */
static int in_time(const struct txn_ctx *c, int64_t t, struct store *s)
{
    const struct txn_input *in = c->in;
    int64_t session = c->options->between == TXN_PROCESS ? in->process[t] : 0;
    if (c->options->between == TXN_NO_ORDER || session < 0) {
        return 1;
    }
    int64_t *begun = &s->begun[session];
    if (in->outcome[t] == TXN_OK && in->complete_pos[t] >= 0 && in->complete_pos[t] < *begun) {
        return 0;
    }
    *begun = in->invoke_pos[t] > *begun ? in->invoke_pos[t] : *begun;
    return 1;
}

int txn_replay(struct txn_ctx *c, const uint32_t *place, uint32_t *at, uint32_t nodes)
{
    const struct txn_input *in = c->in;
    struct store s = {0};
    int fine = 1;
    make_store(c, &s);
    if (c->status == TXN_DONE) {
        memset(at, 0xff, nodes * sizeof *at);
        for (int64_t t = 0; t < in->n; t++) {
            at[place[t]] = (uint32_t)t;
        }
        int64_t executed = 0;
        for (uint32_t p = 0; p < nodes && fine && txn_tick(c) == TXN_DONE; p++) {
            if (at[p] == TXN_NONE) {
                continue;
            }
            executed++;
            fine = in->outcome[at[p]] == TXN_FAIL ||
                   (in_time(c, at[p], &s) && execute(in, at[p], &s));
        }
        fine = fine && executed == in->n;
    }
    void *owned[] = {s.value, s.base, s.end, s.begun};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(c, owned[i]);
    }
    return fine && c->status == TXN_DONE;
}
