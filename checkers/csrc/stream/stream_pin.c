/* What reads say of the lists. */
#include "stream_state.h"

/* Is what a read begins with the elements that are in the hash of the key? */
static int begins_alike(const struct stream *s, const struct stream_key *k, const int32_t *elem)
{
    uint64_t hash[2] = {0, 0};
    for (uint32_t i = 0; i < k->hot->base; i++) {
        stream_hash(hash, s->value_code.p[elem[i]]);
    }
    return hash[0] == k->hash[0] && hash[1] == k->hash[1];
}

int stream_pin(struct stream *s, uint32_t key, const int32_t *elem, int64_t n)
{
    struct stream_key *k = &s->key.p[key];
    struct stream_hot *hot = k->hot;
    if (n < (int64_t)hot->base) {
        return STREAM_STALE;
    }
    if (stream_room(s, hot, (uint64_t)n) != 0) {
        return STREAM_RUNS;
    }
    if (!begins_alike(s, k, elem)) {
        return STREAM_OTHER;
    }
    int64_t known = hot->pinned > k->length ? hot->pinned : k->length;
    for (int64_t i = hot->base; i < n; i++) {
        uint64_t code = s->value_code.p[elem[i]];
        if (i >= known) {
            hot->value[i - hot->base] = code;
        } else if (hot->value[i - hot->base] != code) {
            return STREAM_OTHER;
        }
    }
    for (int64_t i = hot->pinned; i < n; i++) {
        hot->pinned = (uint32_t)i + 1;
        if (stream_demand(s, key, hot->value[i - hot->base]) != 0) {
            return STREAM_RUNS;
        }
    }
    return STREAM_RUNS;
}
