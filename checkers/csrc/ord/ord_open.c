/* From which of its candidates does an open read read? One that the order puts last before it does
 * without any choice. Where none stands there one is chosen, and what stands in its way goes: for a
 * chosen candidate c and a version v of its key
 *
 *     reads from c, and c before v    implies    reader before v
 *
 * which is a clause once v stands between the two. */
#include "ord_state.h"

/* The candidate that is the nearest to become the last one before the reader, or ORD_NONE. */
static uint32_t nearest(const struct ord *o, uint32_t open)
{
    const struct ord_history *h = o->of;
    uint32_t begin = o->place[ord_begin(o, h->open_reader[open])];
    uint32_t best = ORD_NONE, least = UINT32_MAX;
    for (uint32_t x = h->first_candidate[open]; x < h->first_candidate[open + 1]; x++) {
        uint32_t version = h->candidate[x], written = ord_written(o, version);
        if (ord_is_ruled_out(o, x)) {
            continue;
        }
        uint32_t newer = written < begin ? o->newer[version] : ORD_NONE;
        uint32_t in_the_way = newer == ORD_NONE ? begin : ord_written(o, newer);
        uint32_t far = written < begin ? begin - in_the_way : written - begin;
        if (far < least) {
            least = far;
            best = x;
        }
    }
    return best;
}

/* Literals of all candidates, of which one holds. */
static void require_one(struct ord *o, uint32_t open)
{
    const struct ord_history *h = o->of;
    uint32_t first = h->first_candidate[open], until = h->first_candidate[open + 1];
    if (o->pair_of[first] != ORD_NONE) {
        return;
    }
    o->n_literals = 0;
    for (uint32_t x = first; x < until && !ord_failed(o); x++) {
        uint32_t item = ord_candidate_item(h, x), literal = ord_literal(o, item, item);
        o->pair_of[x] = ord_failed(o) ? ORD_NONE : literal / 2;
    }
    for (uint32_t x = first; x < until && !ord_failed(o); x++) {
        o->literals[o->n_literals++] = 2 * o->pair_of[x];
    }
    ord_require_one(o);
}

static void and_because(struct ord *o, uint32_t literal)
{
    for (uint32_t i = 0; i < o->n_literals; i++) {
        if (o->literals[i] == literal) {
            return;
        }
    }
    o->literals[o->n_literals++] = literal;
}

/* A newer version stands between a chosen candidate and its reader. */
static int keep_apart(struct ord *o, const struct ord_clash *clash)
{
    const struct ord_history *h = o->of;
    uint32_t source = 2 * o->pair_of[o->chosen[clash->open]];
    uint32_t keeps = ord_literal(o, clash->older, clash->newer);
    uint32_t behind = ord_literal(o, clash->newer, ord_txn_item(h, clash->reader));
    if (ord_failed(o)) {
        return 1;
    }
    if (ord_value(o, keeps) > 0) {
        o->literals[0] = source;
        o->literals[1] = keeps;
        o->n_literals = 2;
        return ord_follow(o, behind ^ 1);
    }
    uint32_t older = h->writer[clash->older], newer = h->writer[clash->newer];
    if (ord_leads(o, ord_commit(o, newer), ord_begin(o, clash->reader))) {
        and_because(o, source);
        return ord_follow(o, keeps ^ 1);
    }
    if (ord_leads(o, ord_begin(o, older), ord_commit(o, newer))) {
        return ord_follow(o, keeps);
    }
    if (ord_leads(o, ord_begin(o, newer), ord_commit(o, older))) {
        return ord_follow(o, keeps ^ 1);
    }
    uint32_t between = ord_written(o, clash->newer);
    int nearer = o->place[ord_begin(o, clash->reader)] - between <=
                 between - ord_written(o, clash->older);
    ord_choose(o, nearer ? keeps : keeps ^ 1);
    return 1;
}

int ord_deal_with_source(struct ord *o, const struct ord_clash *clash)
{
    if (clash->older != ORD_NONE) {
        return keep_apart(o, clash);
    }
    require_one(o, clash->open);
    if (ord_failed(o)) {
        return 1;
    }
    uint32_t best = nearest(o, clash->open);
    if (best == ORD_NONE) {
        o->broken = 1; /* never seen: its clause leaves one */
        return 1;
    }
    ord_choose(o, 2 * o->pair_of[best]);
    return 1;
}
