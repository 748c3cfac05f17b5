/* Executes transactions, as csrc/txn/txn_execute.c does. What reads say was compared when they were read,
 * so that here their lengths tell everything. */
#include "stream_state.h"

#define SELF_READ (UINT32_C(1) << 31)

/* Keys that an end may be about. */
#define INVOLVED_MAX 1024

static uint32_t readers_at(const struct stream_hot *hot, uint64_t version)
{
    return version - hot->base <= hot->cap && hot->cap > 0 ? hot->readers[version - hot->base] : 0;
}

/* Can this micro-op be next, whose transaction appended `own` to its key before, and with SELF_READ is
 * itself a reader of what is there? */
static int fits(const struct stream_key *k, const struct stream_mop *mop, uint32_t own)
{
    const struct stream_hot *hot = k->hot;
    uint64_t at = (uint64_t)k->length + (own & ~SELF_READ);
    if (mop->kind == ING_READ) {
        return mop->value == at;
    }
    return readers_at(hot, at) == (at == k->length && (own & SELF_READ) ? 1 : 0) &&
           (at >= hot->pinned || hot->value[at - hot->base] == mop->value);
}

/* Executes t without committing. 1 where it fits; else `mop` and `own` say what does not. */
static int try_out(struct stream *s, struct stream_txn *t)
{
    s->stamp++;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct stream_mop *mop = &t->mops[i];
        struct stream_key *k = &s->key.p[mop->key];
        struct stream_hot *hot = stream_touched(s, mop->key);
        uint32_t own = hot->own | (hot->read ? SELF_READ : 0);
        int same = mop->kind == ING_WRITE || hot->known == 0 || hot->known == mop->known;
        t->mop = i;
        t->own = own;
        if (!same || !fits(k, mop, own)) { /* null is not the empty list */
            return 0;
        }
        if (mop->kind == ING_WRITE) {
            uint64_t at = (uint64_t)k->length + hot->own;
            if (at + 1 >= SELF_READ || stream_room(s, hot, at + 1) != 0) {
                stream_spent(s, STREAM_MEMORY);
                return 0;
            }
            hot->value[at - hot->base] = mop->value;
            hot->own++;
            hot->known = 0;
        } else {
            hot->read |= hot->own == 0;
            hot->known = mop->known;
        }
    }
    return 1;
}

/* Those that wait for a key and fit now are ready. */
static void wake(struct stream *s, struct stream_key *k)
{
    struct stream_txn **link = &k->hot->waiting;
    while (*link != NULL) {
        struct stream_txn *t = *link;
        s->budget.work++;
        if (fits(k, &t->mops[t->mop], t->own)) {
            *link = t->next;
            t->next = s->ready;
            s->ready = t;
        } else {
            link = &t->next;
        }
    }
}

static void commit(struct stream *s, struct stream_txn *t)
{
    t->executed = 1;
    for (uint32_t i = 0; i < t->n; i++) {
        struct stream_key *k = &s->key.p[t->mops[i].key];
        struct stream_hot *hot = k->hot;
        if (hot->stamp != s->stamp) {
            continue;
        }
        hot->stamp = 0;
        if (hot->read) {
            s->report.seen += k->length > 0;
            hot->readers[k->length - hot->base]--;
        }
        k->length += hot->own;
        wake(s, k);
    }
    if (t->outcome == ING_INFO) {
        stream_forget_unknown(s, t);
        stream_drop(s, t);
    }
}

void stream_drop(struct stream *s, struct stream_txn *t)
{
    for (uint32_t i = 0; i < t->n && (t->outcome != ING_INFO || t->demanded); i++) {
        stream_leave(s, t->mops[i].key);
    }
    core_block_free(&s->budget.memory, t, stream_txn_size(t->n));
}

void stream_offer_ready(struct stream *s)
{
    while (s->ready != NULL && s->status == STREAM_GOING && s->report.end == STREAM_RUNS) {
        struct stream_txn *t = s->ready;
        s->ready = t->next;
        s->budget.work++;
        if (try_out(s, t)) {
            commit(s, t);
        } else {
            struct stream_hot *hot = s->key.p[t->mops[t->mop].key].hot;
            t->next = hot->waiting;
            hot->waiting = t;
        }
        enum core_spent spent = core_poll_when_due(&s->budget);
        if (spent != CORE_WITHIN) {
            stream_spent(s, (int)spent);
        }
    }
}

void stream_offer(struct stream *s, struct stream_txn *t)
{
    t->next = s->ready;
    s->ready = t;
    stream_offer_ready(s);
}

static void involve(struct stream *s, uint32_t key)
{
    uint64_t code = s->key.p[key].code;
    for (int64_t i = 0; i < s->involved.n; i++) {
        if (s->involved.p[i] == code) {
            return;
        }
    }
    if (s->involved.n < INVOLVED_MAX && ing_room(&s->budget.memory, s->involved, 1) == 0) {
        s->involved.p[s->involved.n++] = code;
    }
}

static void involve_all(struct stream *s, const struct stream_txn *t)
{
    for (uint32_t i = 0; t != NULL && i < t->n; i++) {
        involve(s, t->mops[i].key);
    }
}

/* Whoever waits for a key, and whose element it is that is next there. */
static void involve_around(struct stream *s, uint32_t key)
{
    const struct stream_key *k = &s->key.p[key];
    const struct stream_hot *hot = k->hot;
    for (const struct stream_txn *t = hot == NULL ? NULL : hot->waiting; t != NULL; t = t->next) {
        involve_all(s, t);
    }
    if (hot != NULL && k->length < hot->pinned) {
        involve_all(s, stream_unknown_of(s, key, hot->value[k->length - hot->base]));
    }
}

void stream_end_at(struct stream *s, int why, const struct stream_txn *t, uint32_t key)
{
    if (s->report.end != STREAM_RUNS) {
        return;
    }
    s->report.end = why;
    s->report.op_id = t->op_id;
    involve(s, key);
    involve_all(s, t);
    for (int64_t i = 0; i < s->open.n; i++) {
        if (!s->open.p[i]->executed) {
            involve_all(s, s->open.p[i]);
        }
    }
    for (int64_t i = 0; i < s->involved.n; i++) {
        uint64_t *number = stream_map_find(&s->key_of, s->involved.p[i]);
        involve_around(s, (uint32_t)(*number - 1));
    }
}
