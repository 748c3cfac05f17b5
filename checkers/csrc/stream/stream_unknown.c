/* Transactions of unknown outcome. One that appends took effect where somebody read that, and need not have
 * elsewhere: so it is executed when somebody is known to read it, whenever that is. */
#include "stream_state.h"

/* Two appends of one number are told apart by what the transaction holds. The earlier one is not
 * found then, and whoever read it ends the execution. */
static uint64_t number_of(uint32_t key, uint64_t value)
{
    return stream_mix(stream_mix(key + UINT64_C(1)) ^ value) >> 1;
}

void stream_forget_unknown(const struct stream *s, const struct stream_txn *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        uint64_t *at = stream_map_find(&s->unknown, number_of(t->mops[i].key, t->mops[i].value));
        if (at != NULL && *at == (uint64_t)(uintptr_t)t) {
            *at = 0;
        }
    }
}

static int is_pinned(const struct stream_key *k, uint64_t value)
{
    for (uint32_t i = k->length; k->hot != NULL && i < k->hot->pinned; i++) {
        if (k->hot->value[i - k->hot->base] == value) {
            return 1;
        }
    }
    return 0;
}

static int demand(struct stream *s, struct stream_txn *t)
{
    if (t->demanded) {
        return 0;
    }
    t->demanded = 1;
    for (uint32_t i = 0; i < t->n; i++) {
        if (stream_use(s, t->mops[i].key) == NULL) {
            return -1;
        }
    }
    if (t->started) {
        t->next = s->ready;
        s->ready = t;
    }
    return 0;
}

int stream_keep_unknown(struct stream *s, struct stream_txn *t)
{
    int pinned = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        uint64_t number = number_of(t->mops[i].key, t->mops[i].value);
        uint64_t *at = stream_map_at(&s->budget.memory, &s->unknown, number);
        if (at == NULL) {
            stream_forget_unknown(s, t);
            stream_spent(s, STREAM_MEMORY);
            return -1;
        }
        *at = (uint64_t)(uintptr_t)t;
        pinned |= is_pinned(&s->key.p[t->mops[i].key], t->mops[i].value);
    }
    if (pinned) {
        demand(s, t);
    }
    return 0;
}

struct stream_txn *stream_unknown_of(const struct stream *s, uint32_t key, uint64_t value)
{
    uint64_t *at = stream_map_find(&s->unknown, number_of(key, value));
    struct stream_txn *t = at == NULL ? NULL : (struct stream_txn *)(uintptr_t)*at;
    for (uint32_t i = 0; t != NULL && i < t->n; i++) {
        if (t->mops[i].key == key && t->mops[i].value == value) {
            return t;
        }
    }
    return NULL;
}

int stream_demand(struct stream *s, uint32_t key, uint64_t value)
{
    struct stream_txn *t = stream_unknown_of(s, key, value);
    return t == NULL ? 0 : demand(s, t);
}
