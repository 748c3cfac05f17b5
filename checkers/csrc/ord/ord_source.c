/* Open reads while an order is looked for: which candidates are chosen, and which would do. */
#include "ord_state.h"

int ord_is_candidate(const struct ord *o, uint32_t open, uint32_t version)
{
    const struct ord_history *h = o->of;
    for (uint32_t x = h->first_candidate[open]; x < h->first_candidate[open + 1]; x++) {
        if (h->candidate[x] == version && !ord_is_ruled_out(o, x)) {
            return 1;
        }
    }
    return 0;
}

int ord_lacks_source(const struct ord *o, uint32_t open)
{
    const struct ord_history *h = o->of;
    uint32_t begin = o->place[ord_begin(o, h->open_reader[open])];
    if (o->chosen[open] != ORD_NONE) {
        return 0;
    }
    for (uint32_t x = h->first_candidate[open]; x < h->first_candidate[open + 1]; x++) {
        uint32_t version = h->candidate[x], newer = o->newer[version];
        if (ord_written(o, version) < begin && !ord_is_ruled_out(o, x) &&
            (newer == ORD_NONE || ord_written(o, newer) >= begin)) {
            return 0;
        }
    }
    return 1;
}

void ord_source_holds(struct ord *o, uint32_t literal)
{
    const struct ord_history *h = o->of;
    uint32_t pair = literal / 2, a = o->pairs.a[pair];
    if (literal & 1 || a != o->pairs.b[pair]) {
        return;
    }
    uint32_t x = a - ord_candidate_item(h, 0), open = h->candidate_of[x];
    o->chosen_before[x] = o->chosen[open];
    o->chosen[open] = x;
    o->next_chosen[x] = o->first_chosen[h->candidate[x]];
    o->first_chosen[h->candidate[x]] = x;
}

void ord_source_dropped(struct ord *o, uint32_t literal)
{
    const struct ord_history *h = o->of;
    uint32_t pair = literal / 2, a = o->pairs.a[pair];
    if (literal & 1 || a != o->pairs.b[pair]) {
        return;
    }
    uint32_t x = a - ord_candidate_item(h, 0);
    o->chosen[h->candidate_of[x]] = o->chosen_before[x];
    o->first_chosen[h->candidate[x]] = o->next_chosen[x];
}
