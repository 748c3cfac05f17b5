/* Which of several longest reads of a key, contradicting each other, gives the version order.
 *
 * Any choice is as good; this is Elle's, so that both rule out the same models. Elle takes the read
 * that comes last in a Clojure hash set: a trie of 32 children a level over the Murmur3 hash of the
 * list (clojure.lang.Murmur3, hashOrdered). */
#include "txn_list.h"

static uint32_t rotate(uint32_t x, int by)
{
    return x << by | x >> (32 - by);
}

static uint32_t hash_of_list(const struct txn_input *in, int64_t i)
{
    uint32_t count, hash = 1;
    const int32_t *elems = txn_elems(in, i, &count);
    for (uint32_t j = 0; j < count; j++) {
        hash = 31 * hash + in->value_hash[elems[j]];
    }
    hash = rotate(hash * UINT32_C(0xCC9E2D51), 15) * UINT32_C(0x1B873593);
    hash = rotate(hash, 13) * 5 + UINT32_C(0xE6546B64);
    hash ^= count;
    hash = (hash ^ hash >> 16) * UINT32_C(0x85EBCA6B);
    hash = (hash ^ hash >> 13) * UINT32_C(0xC2B2AE35);
    return hash ^ hash >> 16;
}

/* The path through the trie as a number: the digit of the root is the most significant one. */
static uint32_t place_of(const struct txn_input *in, int64_t i)
{
    uint32_t hash = hash_of_list(in, i), place = 0;
    for (int level = 0; level < 6; level++, hash >>= 5) {
        place = place << 5 | (hash & 31);
    }
    return place << 2 | hash;
}

int txn_tie_won(const struct txn_input *in, int64_t rival, int64_t holder)
{
    return in->value_hash != NULL && place_of(in, rival) > place_of(in, holder);
}
