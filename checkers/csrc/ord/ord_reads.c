/* Reads of a value that several transactions wrote: from columns to versions. */
#include "ord_state.h"

#include <string.h>

/* Of each micro-op: which write it is, or the position of the transaction that reads. */
static uint32_t *places_of(const struct iso *from)
{
    const struct txn_input *in = from->ctx->in;
    uint32_t *place = txn_alloc(from->ctx, (size_t)in->m + 1, sizeof *place);
    for (uint32_t at = 0; place != NULL && at < from->n; at++) {
        uint32_t t = from->name[at], w = from->first_write[at];
        for (int64_t i = in->mop_start[t]; i < in->mop_start[t + 1]; i++) {
            place[i] = in->mop_kind[i] == TXN_WRITE ? w++ : at;
        }
    }
    return place;
}

static const char *wrong_read(const struct iso *from, const struct ord_reads *reads, int64_t i,
                              const uint32_t *place)
{
    const struct txn_input *in = from->ctx->in;
    int64_t r = reads->read[i], until = reads->first[i + 1];
    if (r < 0 || r >= in->m || in->mop_kind[r] == TXN_WRITE || in->mop_known[r] != 0 ||
        in->outcome[from->name[place[r]]] != TXN_OK) {
        return "an open read is none of an acknowledged transaction";
    }
    if (until > reads->candidates || until < reads->first[i] + 2) {
        return "an open read has fewer than two candidates";
    }
    for (int64_t j = reads->first[i]; j < until; j++) {
        int64_t m = reads->write[j];
        if (m < 0 || m >= in->m || in->mop_kind[m] != TXN_WRITE ||
            in->mop_key[m] != in->mop_key[r]) {
            return "a candidate is no write of the key that was read";
        }
        uint32_t writer = from->write[place[m]].txn;
        if ((writer & ISO_FLAG) || writer == place[r]) {
            return "a candidate is not another transaction's last write of its key";
        }
    }
    return NULL;
}

/* Literals have 32 bits, a candidate or a transaction is an item like a version. */
static int64_t in_bounds(const struct iso *h, const struct ord_reads *reads)
{
    int64_t items = (int64_t)h->n + h->n_writes + h->n_keys + reads->candidates;
    return reads->candidates > INT32_MAX || items > INT32_MAX ? -1 : h->ctx->in->m;
}

int ord_take_reads(struct iso *h, struct ord_reads *reads)
{
    struct txn_ctx *c = h->ctx;
    if (reads->count == 0) {
        return c->status;
    }
    uint32_t *place = places_of(h);
    h->live = txn_alloc(c, h->n, 1);
    if (iso_failed(h)) {
        return c->status;
    }
    if (reads->count > in_bounds(h, reads)) {
        return txn_refuse(c, "there are more open reads than micro-ops, or too many candidates", 0);
    }
    if (reads->first[0] != 0) {
        return txn_refuse(c, "the candidates of open reads do not begin at 0", 0);
    }
    for (int64_t i = 0; i < reads->count && txn_tick(c) == TXN_DONE; i++) {
        const char *wrong = wrong_read(h, reads, i, place);
        if (wrong != NULL) {
            return txn_refuse(c, wrong, i);
        }
        for (int64_t j = reads->first[i]; j < reads->first[i + 1]; j++) {
            h->live[h->write[place[reads->write[j]]].txn] = 1;
        }
    }
    reads->place = place;
    return c->status;
}

/* Open reads by their reader: `fill` has where the next one of each transaction goes. */
static void copy(struct ord_history *h, const struct ord_reads *reads, const uint32_t *to,
                 const uint32_t *version, const uint32_t *number)
{
    for (int64_t i = 0; i < reads->count; i++) {
        h->open_reader[number[i]] = to[reads->place[reads->read[i]]];
        h->first_candidate[number[i] + 1] = (uint32_t)(reads->first[i + 1] - reads->first[i]);
    }
    for (uint32_t o = 0; o < h->n_open; o++) {
        h->first_candidate[o + 1] += h->first_candidate[o];
    }
    for (int64_t i = 0; i < reads->count; i++) {
        uint32_t at = h->first_candidate[number[i]];
        for (int64_t j = reads->first[i]; j < reads->first[i + 1]; j++) {
            h->candidate_of[at] = number[i];
            h->candidate_at[at] = (uint32_t)j;
            h->candidate[at++] = version[reads->place[reads->write[j]]];
        }
    }
}

void ord_copy_reads(struct ord_history *h, const struct ord_reads *reads, const uint32_t *to,
                    const uint32_t *version)
{
    size_t count = (size_t)reads->count, candidates = (size_t)reads->candidates;
    h->n_open = (uint32_t)count;
    if (count == 0) {
        return;
    }
    h->n_candidates = (uint32_t)reads->first[count];
    h->first_open = txn_alloc(h->ctx, (size_t)h->n + 2, sizeof *h->first_open);
    h->open_reader = txn_alloc(h->ctx, count, sizeof *h->open_reader);
    h->first_candidate = txn_alloc(h->ctx, count + 1, sizeof *h->first_candidate);
    h->candidate = txn_alloc(h->ctx, candidates, sizeof *h->candidate);
    h->candidate_of = txn_alloc(h->ctx, candidates, sizeof *h->candidate_of);
    h->candidate_at = txn_alloc(h->ctx, candidates, sizeof *h->candidate_at);
    uint32_t *number = txn_alloc(h->ctx, count, sizeof *number);
    if (h->ctx->status != TXN_DONE) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        h->first_open[to[reads->place[reads->read[i]]] + 2]++;
    }
    for (uint32_t t = 0; t < h->n; t++) {
        h->first_open[t + 2] += h->first_open[t + 1];
    }
    for (size_t i = 0; i < count; i++) {
        number[i] = h->first_open[to[reads->place[reads->read[i]]] + 1]++;
    }
    copy(h, reads, to, version, number);
    txn_free(h->ctx, number);
}
