/* Where the order disagrees with what was read. The writes of each key are a list in the order of
 * places, so that a move costs as much as it moves. */
#include "ord_state.h"

#include <string.h>

/* Of the writes between a version and its read so many are taken up at once; the others stand in
 * the way once these do not. */
enum { AT_ONCE = 8 };

static void push(struct ord *o, struct ord_clashes *clashes, struct ord_clash clash)
{
    if (clashes->used == clashes->cap) {
        size_t cap = 2 * clashes->cap + 1024;
        clashes->at = txn_grow(o->ctx, clashes->at, clashes->used, cap, sizeof clash);
        clashes->cap = cap;
    }
    if (!ord_failed(o)) {
        clashes->at[clashes->used++] = clash;
    }
}

static void look_at_reads(struct ord *o, uint32_t txn, const uint32_t *newest)
{
    const struct ord_history *h = o->of;
    for (uint32_t r = h->first_read[txn]; r < h->first_read[txn + 1]; r++) {
        uint32_t version = h->version[r], now = newest[ord_key(h, version)];
        for (int i = 0; i < AT_ONCE && now != version && now != ORD_NONE; i++) {
            push(o, &o->first, (struct ord_clash){txn, version, now, ORD_NONE});
            now = o->older[now];
        }
    }
}

static void look_at_open_reads(struct ord *o, uint32_t txn, const uint32_t *newest)
{
    const struct ord_history *h = o->of;
    for (uint32_t r = h->first_open[txn]; r < h->first_open[txn + 1]; r++) {
        uint32_t now = newest[ord_key(h, h->candidate[h->first_candidate[r]])];
        if (o->chosen[r] == ORD_NONE) {
            if (now == ORD_NONE || !ord_is_candidate(o, r, now)) {
                push(o, &o->first, (struct ord_clash){txn, ORD_NONE, ORD_NONE, r});
            }
            continue;
        }
        uint32_t version = h->candidate[o->chosen[r]];
        for (int i = 0; i < AT_ONCE && now != version && now != ORD_NONE; i++) {
            push(o, &o->first, (struct ord_clash){txn, version, now, r});
            now = o->older[now];
        }
    }
}

static void look_at_writes(struct ord *o, uint32_t txn, uint32_t *newest)
{
    const struct ord_history *h = o->of;
    for (uint32_t w = h->first_write[txn]; w < h->first_write[txn + 1]; w++) {
        uint32_t *now = &newest[h->write_key[w]];
        if (*now == ORD_NONE) {
            o->oldest[h->write_key[w]] = w;
        } else {
            o->newer[*now] = w;
            if (o->snapshot && ord_written(o, *now) > o->place[ord_begin(o, txn)]) {
                push(o, &o->first, (struct ord_clash){ORD_NONE, *now, w, ORD_NONE});
            }
        }
        o->older[w] = *now;
        o->newer[w] = ORD_NONE;
        *now = w;
    }
}

void ord_sweep(struct ord *o)
{
    const struct ord_history *h = o->of;
    uint32_t *newest = txn_alloc(o->ctx, h->n_keys, sizeof *newest);
    if (newest == NULL) {
        return;
    }
    memset(newest, 0xff, h->n_keys * sizeof *newest);
    memset(o->oldest, 0xff, h->n_keys * sizeof *o->oldest);
    o->first.used = o->first_done = 0;
    for (uint32_t v = 0; v < o->nodes; v++) {
        o->node_at[o->place[v]] = v;
    }
    for (uint32_t at = 0; at < o->nodes && txn_tick(o->ctx) == TXN_DONE; at++) {
        uint32_t node = o->node_at[at], txn = ord_txn(o, node);
        if (node >= o->own_nodes) {
            continue;
        }
        if (node == ord_begin(o, txn)) {
            look_at_reads(o, txn, newest);
            if (h->n_open > 0) {
                look_at_open_reads(o, txn, newest);
            }
        }
        if (node == ord_commit(o, txn)) {
            look_at_writes(o, txn, newest);
        }
    }
    txn_free(o->ctx, newest);
}

void ord_look_again(struct ord *o, uint32_t txn)
{
    if (!o->is_dirty[txn]) {
        o->is_dirty[txn] = 1;
        o->dirty[o->n_dirty++] = txn;
    }
}

void ord_lift(struct ord *o, uint32_t node)
{
    const struct ord_history *h = o->of;
    if (node >= o->own_nodes) {
        return;
    }
    uint32_t txn = ord_txn(o, node);
    ord_look_again(o, txn);
    if (node != ord_commit(o, txn)) {
        return;
    }
    for (uint32_t w = h->first_write[txn]; w < h->first_write[txn + 1]; w++) {
        if (o->n_lifted == o->lifted_cap) {
            size_t cap = 2 * o->lifted_cap + 256;
            o->lifted = txn_grow(o->ctx, o->lifted, o->n_lifted, cap, sizeof *o->lifted);
            o->lifted_cap = cap;
        }
        if (ord_failed(o)) {
            return;
        }
        uint32_t older = o->older[w], newer = o->newer[w];
        o->lifted[o->n_lifted++] = w;
        o->is_lifted[w] = 1;
        if (older == ORD_NONE) {
            o->oldest[h->write_key[w]] = newer;
        } else {
            o->newer[older] = newer;
        }
        if (newer != ORD_NONE) {
            o->older[newer] = older;
        }
    }
}

static void put_back(struct ord *o, uint32_t w)
{
    uint32_t place = ord_written(o, w), key = o->of->write_key[w], older = o->older[w];
    while (older != ORD_NONE && (o->is_lifted[older] || ord_written(o, older) > place) &&
           txn_tick(o->ctx) == TXN_DONE) {
        older = o->older[older];
    }
    uint32_t newer = older == ORD_NONE ? o->oldest[key] : o->newer[older];
    while (newer != ORD_NONE && ord_written(o, newer) < place && txn_tick(o->ctx) == TXN_DONE) {
        older = newer;
        newer = o->newer[newer];
    }
    o->older[w] = older;
    o->newer[w] = newer;
    if (older == ORD_NONE) {
        o->oldest[key] = w;
    } else {
        o->newer[older] = w;
    }
    if (newer != ORD_NONE) {
        o->older[newer] = w;
    }
    o->is_lifted[w] = 0;
}

void ord_settle(struct ord *o)
{
    for (uint32_t i = 0; i < o->n_lifted && !ord_failed(o); i++) {
        put_back(o, o->lifted[i]);
    }
    o->n_lifted = 0;
}

/* The readers of `version` that stand behind `newer`, which overwrote it. */
static void readers_behind(struct ord *o, uint32_t version, uint32_t newer)
{
    const struct ord_history *h = o->of;
    uint32_t place = ord_written(o, newer), writer = h->writer[newer];
    for (uint32_t i = h->first_reader[version]; i < h->first_reader[version + 1]; i++) {
        uint32_t reader = h->reader[i];
        if (reader != writer && o->place[ord_begin(o, reader)] > place) {
            push(o, &o->later, (struct ord_clash){reader, version, newer, ORD_NONE});
        }
    }
}

/* The same of open reads for which it was chosen. */
static void choosers_behind(struct ord *o, uint32_t version, uint32_t newer)
{
    const struct ord_history *h = o->of;
    uint32_t place = ord_written(o, newer), writer = h->writer[newer];
    for (uint32_t x = o->first_chosen[version]; x != ORD_NONE; x = o->next_chosen[x]) {
        uint32_t open = h->candidate_of[x], reader = h->open_reader[open];
        if (o->chosen[open] == x && reader != writer && o->place[ord_begin(o, reader)] > place) {
            push(o, &o->later, (struct ord_clash){reader, version, newer, open});
        }
    }
}

static void look_at_pair(struct ord *o, uint32_t older, uint32_t newer)
{
    readers_behind(o, older, newer);
    if (o->of->n_open > 0 && older < o->of->n_writes) {
        choosers_behind(o, older, newer);
    }
    if (o->snapshot && older < o->of->n_writes &&
        ord_written(o, older) > o->place[ord_begin(o, o->of->writer[newer])]) {
        push(o, &o->later, (struct ord_clash){ORD_NONE, older, newer, ORD_NONE});
    }
}

static void look_again_at_open_reads(struct ord *o, uint32_t txn)
{
    const struct ord_history *h = o->of;
    uint32_t begin = o->place[ord_begin(o, txn)];
    for (uint32_t r = h->first_open[txn]; r < h->first_open[txn + 1]; r++) {
        uint32_t version = o->chosen[r] == ORD_NONE ? ORD_NONE : h->candidate[o->chosen[r]];
        uint32_t newer = version == ORD_NONE ? ORD_NONE : o->newer[version];
        if (newer != ORD_NONE ? ord_written(o, newer) < begin : ord_lacks_source(o, r)) {
            push(o, &o->later, (struct ord_clash){txn, version, newer, r});
        }
    }
}

static void look_again(struct ord *o, uint32_t txn)
{
    const struct ord_history *h = o->of;
    uint32_t begin = o->place[ord_begin(o, txn)];
    for (uint32_t r = h->first_read[txn]; r < h->first_read[txn + 1]; r++) {
        uint32_t version = h->version[r];
        uint32_t newer = version < h->n_writes ? o->newer[version]
                                               : o->oldest[version - h->n_writes];
        if (newer != ORD_NONE && ord_written(o, newer) < begin) {
            push(o, &o->later, (struct ord_clash){txn, version, newer, ORD_NONE});
        }
    }
    if (h->n_open > 0) {
        look_again_at_open_reads(o, txn);
    }
    for (uint32_t w = h->first_write[txn]; w < h->first_write[txn + 1]; w++) {
        uint32_t older = o->older[w];
        look_at_pair(o, older == ORD_NONE ? h->n_writes + h->write_key[w] : older, w);
        if (o->newer[w] != ORD_NONE) {
            look_at_pair(o, w, o->newer[w]);
        }
    }
}

static int still(const struct ord *o, const struct ord_clash *clash)
{
    const struct ord_history *h = o->of;
    if (clash->open != ORD_NONE) {
        uint32_t chosen = o->chosen[clash->open];
        if (clash->older == ORD_NONE) {
            return ord_lacks_source(o, clash->open);
        }
        if (chosen == ORD_NONE || h->candidate[chosen] != clash->older) {
            return 0;
        }
    }
    uint32_t newer = ord_written(o, clash->newer);
    if (clash->older < h->n_writes && ord_written(o, clash->older) > newer) {
        return 0;
    }
    if (clash->reader != ORD_NONE) {
        return newer < o->place[ord_begin(o, clash->reader)];
    }
    return o->place[ord_begin(o, h->writer[clash->newer])] < ord_written(o, clash->older);
}

/* A clash is over; another newer version may stand between the same two. */
static void next_of(struct ord *o, struct ord_clash over)
{
    if (over.older == ORD_NONE) {
        return;
    }
    uint32_t newer = over.older < o->of->n_writes ? o->newer[over.older]
                                                  : o->oldest[over.older - o->of->n_writes];
    struct ord_clash next = {over.reader, over.older, newer, over.open};
    if (over.reader != ORD_NONE && newer != ORD_NONE && newer != over.newer && still(o, &next)) {
        push(o, &o->later, next);
    }
}

int ord_next_clash(struct ord *o, struct ord_clash *clash)
{
    while (txn_tick(o->ctx) == TXN_DONE) {
        if (o->n_dirty > 0) {
            uint32_t txn = o->dirty[--o->n_dirty];
            o->is_dirty[txn] = 0;
            look_again(o, txn);
        } else if (o->later.used > 0) {
            *clash = o->later.at[o->later.used - 1];
            if (still(o, clash)) {
                return 1;
            }
            o->later.used--;
            next_of(o, *clash);
        } else if (o->first_done < o->first.used) {
            *clash = o->first.at[o->first_done];
            if (still(o, clash)) {
                return 1;
            }
            o->first_done++;
            next_of(o, *clash);
        } else {
            return 0;
        }
    }
    return 0;
}
