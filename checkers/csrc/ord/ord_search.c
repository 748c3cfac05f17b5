/* Repairs the order until nothing clashes. */
#include "ord_state.h"

/* What is known of the two versions of a clash, or a choice. 0 = that refutes everything. */
static int deal_with(struct ord *o, const struct ord_clash *clash)
{
    const struct ord_history *h = o->of;
    if (clash->open != ORD_NONE) {
        return ord_deal_with_source(o, clash);
    }
    uint32_t keeps = ord_literal(o, clash->older, clash->newer);
    if (ord_failed(o)) {
        return 1;
    }
    if (ord_value(o, keeps) != 0) {
        o->broken = 1; /* never seen; the order is not to be believed then */
        return 1;
    }
    if (clash->older >= h->n_writes) {
        o->n_literals = 0;
        return ord_follow(o, keeps);
    }
    uint32_t older = h->writer[clash->older], newer = h->writer[clash->newer];
    if (clash->reader != ORD_NONE &&
        ord_leads(o, ord_commit(o, newer), ord_begin(o, clash->reader))) {
        return ord_follow(o, keeps ^ 1);
    }
    if (ord_leads(o, ord_begin(o, older), ord_commit(o, newer))) {
        return ord_follow(o, keeps);
    }
    if (ord_leads(o, ord_begin(o, newer), ord_commit(o, older))) {
        return ord_follow(o, keeps ^ 1);
    }
    uint32_t between = ord_written(o, clash->newer);
    int nearer = clash->reader == ORD_NONE || o->place[ord_begin(o, clash->reader)] - between <=
                                                  between - ord_written(o, clash->older);
    ord_choose(o, nearer ? keeps : keeps ^ 1);
    return 1;
}

enum ord_answer ord_search(struct ord *o)
{
    struct ord_clash clash;
    ord_sweep(o);
    while (!ord_failed(o) && !o->broken) {
        if (!ord_propagate(o)) {
            return ORD_VIOLATED;
        }
        if (ord_failed(o)) {
            break;
        }
        if (ord_next_clash(o, &clash)) {
            if (!deal_with(o, &clash)) {
                return ORD_VIOLATED;
            }
            continue;
        }
        /* more than a few versions between a read and what it returned are not all taken up */
        ord_sweep(o);
        if (o->first.used == 0) {
            return ord_failed(o) ? ORD_OPEN : ORD_VALID;
        }
    }
    return ORD_OPEN;
}
