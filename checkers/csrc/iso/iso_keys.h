/* The writes of each key in order of their positions. */
#ifndef DSTEST_ISO_KEYS_H
#define DSTEST_ISO_KEYS_H

#include "iso_state.h"

/* Of the key of read `r` of `at`: by_key[*from] up to the result are the writes that are newer
 * than the one it read and lie before `at`. */
uint32_t iso_newer(const struct iso *h, uint32_t at, uint32_t r, uint32_t *from);

/* 1 where `txn` has a write among by_key[from] .. by_key[to]. */
int iso_writes_within(const struct iso *h, uint32_t txn, uint32_t from, uint32_t to);

/* Makes by_session where it is not there. */
int iso_index_sessions(struct iso *h);

/* In by_session of `key`: the first place from `from` on that is not below `what`. */
uint32_t iso_seek(const struct iso *h, uint32_t key, uint32_t from, uint64_t what);

/* The last write of `key` by an earlier transaction of the session of `at`, or ISO_NONE. */
uint32_t iso_own_before(struct iso *h, uint32_t key, uint32_t at);

#endif
