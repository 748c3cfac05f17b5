/* list-append: what each read says, and the edges to and from its transaction. */
#include "txn_list.h"

#include <stdlib.h>
#include <string.h>

/* One read with what was found out about it. */
struct seen {
    int64_t txn, mop, key;
    const int32_t *elems;
    uint32_t count;
    int prefix;     /* of the key's longest read */
    uint32_t entry; /* writer of the last element, TXN_NONE = nobody or no element */
    uint32_t place; /* position after the last element in the version order, or TXN_NONE */
};

static void found(struct txn_list *l, int type, const struct seen *s, int64_t value, int64_t txn2,
                  int64_t mop2)
{
    txn_find(l->ctx, (struct txn_found){type, s->key, value, s->txn, s->mop, txn2, mop2, -1});
}

static int by_value(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static void find_duplicate(struct txn_list *l, const struct seen *s)
{
    int32_t *sorted = txn_alloc(l->ctx, s->count, sizeof *sorted);
    if (sorted == NULL) {
        return;
    }
    memcpy(sorted, s->elems, s->count * sizeof *sorted);
    qsort(sorted, s->count, sizeof *sorted, by_value);
    for (uint32_t j = 1; j < s->count; j++) {
        if (sorted[j] == sorted[j - 1]) {
            found(l, TXN_DUPLICATE_ELEMENTS, s, sorted[j], -1, -1);
            break;
        }
    }
    txn_free(l->ctx, sorted);
}

/* Element by element, where the key's clean prefix does not vouch for the read. */
static void inspect(struct txn_list *l, const struct seen *s)
{
    int garbage = 0, aborted = 0;
    for (uint32_t j = 0; j < s->count; j++) {
        int64_t slot = txn_slot(&l->index, s->key, s->elems[j]);
        if (slot < 0) {
            if (!garbage++) {
                found(l, TXN_GARBAGE_READ, s, s->elems[j], -1, -1);
            }
        } else if ((l->index.writer[slot] & TXN_FAILED) && !aborted++) {
            found(l, TXN_G1A, s, s->elems[j], TXN_ID(l->index.writer[slot]), -1);
        }
    }
    find_duplicate(l, s);
}

/* Does the read fit what its transaction saw and appended before? */
static void internal(struct txn_list *l, const struct seen *s, const struct txn_touch *touch)
{
    const struct txn_input *in = l->ctx->in;
    uint32_t since = touch->since, before = 0;
    const int32_t *base = NULL;
    int64_t with = (int64_t)touch->last_read - 1;
    if (touch->last_read != 0) {
        base = txn_elems(in, with, &before);
    }
    int wrong = base != NULL ? s->count != before + since : s->count < since;
    if (base != NULL && since == 0) { /* null is not the empty list, as in Elle */
        wrong |= in->mop_known[with] != in->mop_known[s->mop];
    }
    if (!wrong && before > 0) {
        wrong = memcmp(base, s->elems, before * sizeof *base) != 0;
    }
    uint32_t at = s->count;
    for (int64_t i = s->mop - 1; !wrong && since > 0 && i >= in->mop_start[s->txn]; i--) {
        if (in->mop_key[i] == s->key && in->mop_kind[i] == TXN_WRITE) {
            wrong = s->elems[--at] != in->mop_value[i];
            since--;
            with = wrong ? i : with;
        }
    }
    if (wrong) {
        found(l, TXN_INTERNAL, s, -1, -1, with);
    }
}

/* Was the element that micro-op i appends in a read of the same transaction before? Reports it. */
static int future_read(struct txn_list *l, int64_t t, int64_t i)
{
    const struct txn_input *in = l->ctx->in;
    int32_t k = in->mop_key[i];
    for (int64_t j = (int64_t)l->touch[k].first_read - 1; j < i; j++) {
        uint32_t count;
        const int32_t *elems = txn_elems(in, j, &count);
        if (in->mop_key[j] != k || in->mop_kind[j] != TXN_READ) {
            continue;
        }
        for (uint32_t e = count; e > 0; e--) {
            if (elems[e - 1] == in->mop_value[i]) {
                txn_find(l->ctx,
                         (struct txn_found){TXN_FUTURE_READ, k, in->mop_value[i], t, j, -1, i, -1});
                return 1;
            }
        }
    }
    return 0;
}

static void locate(struct txn_list *l, struct seen *s)
{
    struct txn_list_key *key = &l->keys[s->key];
    uint32_t longest = 0;
    const int32_t *full = key->longest == 0 ? NULL
                                            : txn_elems(l->ctx->in, key->longest - 1, &longest);
    s->prefix = s->count <= longest && (s->count == 0 || s->elems == full ||
                                        memcmp(s->elems, full, s->count * sizeof *full) == 0);
    s->entry = TXN_NONE;
    s->place = s->count == 0 ? 0 : TXN_NONE;
    if (s->count > 0 && s->prefix && !key->twice) {
        s->place = s->count;
        s->entry = l->order[key->base + s->count - 1];
    } else if (s->count > 0) {
        int64_t slot = txn_slot(&l->index, s->key, s->elems[s->count - 1]);
        s->entry = slot < 0 ? TXN_NONE : l->index.writer[slot];
        s->place = slot < 0 || l->index.place[slot] >= TXN_SHOWN ? TXN_NONE
                                                                 : l->index.place[slot] + 1;
    }
    if (!s->prefix && !key->incompatible) {
        key->incompatible = 1;
        found(l, TXN_INCOMPATIBLE_ORDER, s, -1, -1, (int64_t)key->longest - 1);
    }
    if (s->count > 0 && (!s->prefix || s->count >= key->bad)) {
        inspect(l, s);
    }
}

static void edges(struct txn_list *l, const struct seen *s)
{
    const struct txn_list_key *key = &l->keys[s->key];
    if (s->entry != TXN_NONE && TXN_ID(s->entry) != (uint32_t)s->txn) {
        if (s->entry & TXN_INTERMEDIATE) {
            found(l, TXN_G1B, s, s->elems[s->count - 1], TXN_ID(s->entry), -1);
        }
        if (!(s->entry & TXN_FAILED)) {
            txn_edge(l->ctx, &l->graph, TXN_ID(s->entry), (uint32_t)s->txn, TXN_WR);
        }
    }
    if (s->place != TXN_NONE && s->place < key->versions) {
        uint32_t next = l->order[key->base + s->place];
        if (!(next & TXN_FAILED)) {
            txn_edge(l->ctx, &l->graph, (uint32_t)s->txn, TXN_ID(next), TXN_RW);
        }
    } else if (s->place == key->versions) {
        txn_list_to_tail(l, s->key, (uint32_t)s->txn, TXN_RW);
    }
}

static uint64_t hash_of(const struct seen *s)
{
    uint64_t h = UINT64_C(0xD6E8FEB86659FD93) + s->count;
    for (uint32_t j = 0; j < s->count; j++) {
        h = (h ^ (uint32_t)s->elems[j]) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 32;
    }
    return h;
}

/* The transaction replaces the version that it read first: nobody else may. */
static void update(struct txn_list *l, int64_t t, int64_t k)
{
    const struct txn_list_key *key = &l->keys[k];
    struct seen s = {.txn = t, .mop = (int64_t)l->touch[k].first_read - 1, .key = k};
    s.elems = txn_elems(l->ctx->in, s.mop, &s.count);
    int null = l->ctx->in->mop_known[s.mop] == 2, prefix = !key->twice && !null;
    if (prefix && key->incompatible && s.count > 0) {
        uint32_t longest;
        const int32_t *full = txn_elems(l->ctx->in, (int64_t)key->longest - 1, &longest);
        prefix = s.count <= longest && memcmp(s.elems, full, s.count * sizeof *full) == 0;
    }
    if (prefix) {
        uint32_t *first = &l->updater[key->base + (size_t)k + s.count];
        if (*first == 0) {
            *first = (uint32_t)s.mop + 1;
        } else {
            found(l, TXN_LOST_UPDATE, &s, -1, -1, (int64_t)*first - 1);
        }
        return;
    }
    if (l->odds == l->odd_cap) {
        size_t cap = l->odd_cap * 2 + 64;
        l->odd = txn_grow(l->ctx, l->odd, l->odds, cap, sizeof *l->odd);
        l->odd_cap = cap;
    }
    if (l->ctx->status == TXN_DONE) {
        l->odd[l->odds++] = (struct txn_odd){k, hash_of(&s) + (uint64_t)null, (uint32_t)s.mop};
    }
}

static int by_version(const void *a, const void *b)
{
    const struct txn_odd *x = a, *y = b;
    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    if (x->hash != y->hash) {
        return x->hash < y->hash ? -1 : 1;
    }
    return (x->mop > y->mop) - (x->mop < y->mop);
}

static int same_version(const struct txn_input *in, const struct txn_odd *a,
                        const struct txn_odd *b)
{
    uint32_t n, m;
    const int32_t *x = txn_elems(in, a->mop, &n), *y = txn_elems(in, b->mop, &m);
    return n == m && in->mop_known[a->mop] == in->mop_known[b->mop] &&
           (n == 0 || memcmp(x, y, n * sizeof *x) == 0);
}

/* Lost updates of keys whose versions have no one order. A hash brings equal versions together;
 * what they hold decides. */
static void odd_updates(struct txn_list *l)
{
    if (l->odds > 0) {
        qsort(l->odd, l->odds, sizeof *l->odd, by_version);
    }
    for (size_t j = 1; j < l->odds; j++) {
        const struct txn_odd *b = &l->odd[j];
        for (size_t i = j; i > 0; i--) {
            const struct txn_odd *a = &l->odd[i - 1];
            if (a->key != b->key || a->hash != b->hash) {
                break;
            }
            if (same_version(l->ctx->in, a, b)) {
                txn_find(l->ctx, (struct txn_found){TXN_LOST_UPDATE, b->key, -1, -1, b->mop, -1,
                                                    a->mop, -1});
                break;
            }
        }
    }
}

static void read_mop(struct txn_list *l, int64_t t, int64_t i, int *is_wrong)
{
    struct seen s = {.txn = t, .mop = i, .key = l->ctx->in->mop_key[i]};
    struct txn_touch *touch = &l->touch[s.key];
    s.elems = txn_elems(l->ctx->in, i, &s.count);
    locate(l, &s);
    if (touch->stamp != (uint32_t)t + 1) {
        *touch = (struct txn_touch){.stamp = (uint32_t)t + 1};
    } else if (!*is_wrong) {
        int64_t before = l->ctx->report->counts[TXN_INTERNAL];
        internal(l, &s, touch);
        *is_wrong = before != l->ctx->report->counts[TXN_INTERNAL];
    }
    if (touch->first_read == 0) {
        touch->first_read = (uint32_t)i + 1;
    }
    touch->last_read = (uint32_t)i + 1;
    touch->since = 0;
    edges(l, &s);
}

/* No version of a list holds a later append of a transaction without its earlier ones before it: the
 * longest read of the key tells, of which the others are prefixes. */
static void own_order(struct txn_list *l, int64_t k, int64_t t, int64_t before, int64_t i)
{
    const struct txn_input *in = l->ctx->in;
    const uint32_t *place = l->index.place;
    int64_t late = txn_slot(&l->index, k, in->mop_value[i]);
    int64_t early = txn_slot(&l->index, k, in->mop_value[before]);
    if (late < 0 || early < 0 || place[late] >= TXN_SHOWN || place[early] < place[late]) {
        return; /* what is in no version order, TXN_SHOWN and TXN_NONE, is above every place */
    }
    l->keys[k].incompatible = 1;
    txn_find(l->ctx, (struct txn_found){TXN_INCOMPATIBLE_ORDER, k, in->mop_value[before], t, i, -1,
                                        (int64_t)l->keys[k].longest - 1, -1});
}

/* An append of a transaction that is not known to have failed. */
static struct txn_touch *touch_write(struct txn_list *l, int64_t t, int64_t i)
{
    int32_t k = l->ctx->in->mop_key[i];
    struct txn_touch *touch = &l->touch[k];
    if (touch->stamp != (uint32_t)t + 1) {
        *touch = (struct txn_touch){.stamp = (uint32_t)t + 1};
    }
    int asked = l->ctx->options->sources & TXN_BEYOND_ELLE;
    if (asked && touch->last_write != 0 && !l->keys[k].incompatible) {
        own_order(l, k, t, (int64_t)touch->last_write - 1, i);
    }
    touch->last_write = (uint32_t)i + 1;
    return touch;
}

static void write_mop(struct txn_list *l, int64_t t, int64_t i)
{
    int32_t k = l->ctx->in->mop_key[i];
    struct txn_touch *touch = touch_write(l, t, i);
    touch->since++;
    if (touch->first_read != 0 && future_read(l, t, i) &&
        (l->ctx->options->sources & TXN_BEYOND_ELLE)) {
        touch->updated = 1; /* it replaced what was its own */
    }
    if (touch->first_read != 0 && !touch->updated) {
        touch->updated = 1;
        update(l, t, k);
    }
}

int txn_list_reads(struct txn_list *l)
{
    const struct txn_input *in = l->ctx->in;
    for (int64_t t = 0; t < in->n && txn_tick(l->ctx) == TXN_DONE; t++) {
        int is_wrong = 0, ok = in->outcome[t] == TXN_OK;
        if (in->outcome[t] == TXN_FAIL) {
            continue;
        }
        for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
            if (in->mop_kind[i] == TXN_WRITE && ok) {
                write_mop(l, t, i);
            } else if (in->mop_kind[i] == TXN_WRITE) {
                touch_write(l, t, i);
            } else if (ok && in->mop_known[i]) {
                read_mop(l, t, i, &is_wrong);
            }
        }
    }
    odd_updates(l);
    return l->ctx->status;
}
