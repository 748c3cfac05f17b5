/* list-append: a store that executes the transactions as real time goes, each between its
 * invocation and its completion, as soon as it fits. Where that succeeds, the history is strict
 * serializable, and no graph is needed.
 *
 * A transaction fits where its reads tell what is there, and where its appends replace versions that
 * nobody is still to read and that the key's longest read lets them replace. What fits may be
 * executed at once: all that has to come before it is done, and nothing that is left has to. So the
 * order of versions has to be known, and only it: this is the topological order of the graph, of
 * which no edge is ever made. Whatever is in the way (another order, a read of what never was) ends
 * the attempt, and the graph says what it is. */
#include "txn_execute.h"
#include "txn_graph.h"

#include <string.h>

/* Looks at waiting transactions, for each transaction there is, until the graph is the faster way. */
#ifndef LOOKS_MAX
#define LOOKS_MAX 64
#endif

#define SELF_READ (UINT32_C(1) << 31)

struct key {
    int64_t base; /* of its versions in `value`; one more each in `readers` */
    int64_t full; /* elements of its longest read, `longest` of them */
    uint32_t longest, appends;
    uint32_t length;  /* committed */
    uint32_t waiting; /* first transaction that waits for it, plus one */
    /* what the transaction at work did to it */
    uint64_t stamp;
    uint32_t own;
    uint8_t read, known; /* it was read as others left it; `mop_known` of a read just before */
};

/* A transaction that waits for the key of micro-op `mop`, having appended `own` before. */
struct waiter {
    uint32_t next; /* plus one */
    uint32_t mop, own;
    uint32_t executed;
};

struct store {
    struct txn_ctx *ctx;
    const struct txn_input *in;
    struct key *keys;
    struct waiter *waiters;
    int32_t *value;
    uint32_t *readers; /* of each version: reads to come that see it as the last */
    uint64_t stamp;
    uint32_t ready;
    int64_t looks_left, seen;
    int hopeless;
};

static struct key *touched(struct store *s, int64_t mop)
{
    struct key *k = &s->keys[s->in->mop_key[mop]];
    if (k->stamp != s->stamp) {
        k->stamp = s->stamp;
        k->own = 0;
        k->read = k->known = 0;
    }
    return k;
}

static uint32_t *readers_at(const struct store *s, const struct key *k, uint32_t version)
{
    return &s->readers[k->base + (k - s->keys) + version];
}

static int make_room(struct store *s, const struct txn_index *index)
{
    const struct txn_input *in = s->in;
    int64_t total = 0;
    for (int64_t k = 0; k < in->n_keys; k++) {
        s->keys[k].base = total;
        s->keys[k].appends = index->count[k];
        total += index->count[k];
    }
    s->value = txn_alloc(s->ctx, (size_t)total, sizeof *s->value);
    s->readers = txn_alloc(s->ctx, (size_t)(total + in->n_keys), sizeof *s->readers);
    return s->ctx->status == TXN_DONE;
}

/* Longest reads, and who reads which version. 0 where somebody read more than was appended. */
static int count_reads(struct store *s)
{
    const struct txn_input *in = s->in;
    for (int64_t t = 0; t < in->n && txn_tick(s->ctx) == TXN_DONE; t++) {
        if (in->outcome[t] != TXN_OK) {
            continue;
        }
        s->stamp++;
        for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
            if (in->mop_kind[i] == TXN_READ && !in->mop_known[i]) {
                continue;
            }
            struct key *k = touched(s, i);
            int64_t length = in->elem_start[i + 1] - in->elem_start[i];
            if (in->mop_kind[i] == TXN_WRITE) {
                k->own++;
                continue;
            }
            if (length > k->appends) {
                return 0;
            }
            if (length > k->longest) {
                k->longest = (uint32_t)length;
                k->full = in->elem_start[i];
            }
            if (k->own == 0 && !k->read) {
                k->read = 1;
                ++*readers_at(s, k, (uint32_t)length);
            }
        }
    }
    return s->ctx->status == TXN_DONE;
}

/* Can micro-op i of an ok or unknown transaction be next, which appended `own` to its key before, and
 * with SELF_READ is itself a reader of what is there? */
static int fits(const struct store *s, const struct key *k, int64_t i, uint32_t own)
{
    const struct txn_input *in = s->in;
    uint32_t self = own & SELF_READ ? 1 : 0, at = k->length + (own & ~SELF_READ);
    if (in->mop_kind[i] == TXN_READ) {
        return in->elem_start[i + 1] - in->elem_start[i] == at;
    }
    return *readers_at(s, k, at) == (at == k->length ? self : 0) &&
           (at >= k->longest || in->elem[k->full + at] == in->mop_value[i]);
}

/* Does a read tell what is there, and what the one before it in its transaction did? */
static int agrees(const struct store *s, const struct key *k, int64_t i)
{
    const struct txn_input *in = s->in;
    size_t length = (size_t)(in->elem_start[i + 1] - in->elem_start[i]);
    return (k->known == 0 || k->known == in->mop_known[i]) && /* null is not the empty list */
           (length == 0 || memcmp(s->value + k->base, in->elem + in->elem_start[i],
                                  length * sizeof *s->value) == 0);
}

/* Executes t without committing. -1, or the micro-op that does not fit. */
static int64_t try_out(struct store *s, int64_t t)
{
    const struct txn_input *in = s->in;
    int ok = in->outcome[t] == TXN_OK;
    s->stamp++;
    for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
        int reads = in->mop_kind[i] == TXN_READ;
        if (reads && !(ok && in->mop_known[i])) {
            continue;
        }
        struct key *k = touched(s, i);
        uint32_t own = k->own | (k->read ? SELF_READ : 0);
        if (!fits(s, k, i, own)) {
            s->waiters[t].mop = (uint32_t)i;
            s->waiters[t].own = own;
            return i;
        }
        if (!reads) {
            s->value[k->base + k->length + k->own++] = in->mop_value[i];
            k->known = 0;
            continue;
        }
        if (!agrees(s, k, i)) {
            s->hopeless = 1;
            return i;
        }
        k->read |= k->own == 0;
        k->known = in->mop_known[i];
    }
    return -1;
}

/* Those that wait for a key and fit now are ready. */
static void wake(struct store *s, struct key *k)
{
    uint32_t *link = &k->waiting;
    while (*link != 0) {
        uint32_t t = *link - 1;
        struct waiter *w = &s->waiters[t];
        s->looks_left--;
        if (fits(s, k, w->mop, w->own)) {
            *link = w->next;
            w->next = s->ready;
            s->ready = t + 1;
        } else {
            link = &w->next;
        }
    }
}

static void commit(struct store *s, int64_t t)
{
    const struct txn_input *in = s->in;
    s->waiters[t].executed = 1;
    for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
        struct key *k = &s->keys[in->mop_key[i]];
        if (k->stamp != s->stamp) {
            continue;
        }
        k->stamp = 0;
        if (k->read) {
            s->seen += k->length > 0;
            --*readers_at(s, k, k->length);
        }
        k->length += k->own;
        if (k->waiting != 0) {
            wake(s, k);
        }
    }
}

/* Executes t if it fits, and then all that fits because of it. */
static void offer(struct store *s, int64_t t)
{
    s->waiters[t].next = 0;
    s->ready = (uint32_t)t + 1;
    while (s->ready != 0 && !s->hopeless && s->looks_left > 0 && txn_tick(s->ctx) == TXN_DONE) {
        uint32_t now = s->ready - 1;
        s->ready = s->waiters[now].next;
        s->looks_left--;
        int64_t blocked = try_out(s, now);
        if (blocked < 0) {
            commit(s, now);
        } else {
            struct key *k = &s->keys[s->in->mop_key[blocked]];
            s->waiters[now].next = k->waiting;
            k->waiting = now + 1;
        }
    }
}

/* From event to event. 0 where a transaction completes that could not be executed. */
static int as_time_goes(struct store *s, const uint32_t *completed)
{
    const struct txn_input *in = s->in;
    int64_t invoked = 0;
    for (int64_t p = 0; p < in->n_positions && txn_tick(s->ctx) == TXN_DONE; p++) {
        for (; invoked < in->n && in->invoke_pos[invoked] <= p; invoked++) {
            if (in->outcome[invoked] != TXN_FAIL) {
                offer(s, invoked);
            }
        }
        uint32_t t = completed[p] - 1;
        int late = completed[p] != 0 && in->outcome[t] == TXN_OK && !s->waiters[t].executed;
        if (late || s->hopeless || s->looks_left <= 0) {
            return 0;
        }
    }
    return s->ctx->status == TXN_DONE;
}

static int all_invoked(const struct txn_input *in)
{
    int fine = 1;
    for (int64_t t = 0; t < in->n; t++) {
        fine &= in->invoke_pos[t] >= 0;
    }
    return fine;
}

int txn_execute(struct txn_ctx *c, const struct txn_index *index)
{
    const struct txn_input *in = c->in;
    struct store s = {.ctx = c, .in = in, .looks_left = LOOKS_MAX * in->n};
    if (!all_invoked(in)) {
        return 0;
    }
    uint32_t *completed = txn_by_completion(c);
    s.keys = txn_alloc(c, (size_t)in->n_keys, sizeof *s.keys);
    s.waiters = txn_alloc(c, (size_t)in->n, sizeof *s.waiters);
    int fine = c->status == TXN_DONE && make_room(&s, index) && count_reads(&s) &&
               as_time_goes(&s, completed) && s.seen > 0;
    void *owned[] = {completed, s.keys, s.waiters, s.value, s.readers};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(c, owned[i]);
    }
    if (fine) {
        c->report->proved = 1;
        c->report->edges = s.seen;
    }
    return fine;
}
