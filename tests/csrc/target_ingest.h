/* What the fuzzer and the driver of the reader share. */
#ifndef DSTEST_TARGET_INGEST_H
#define DSTEST_TARGET_INGEST_H

#include "ingest/ingest.h"

#include <stddef.h>

/* Reads a text with one thread, two threads and little memory; aborts where they differ or what is
 * accepted is malformed. */
void read_in_every_way(const uint8_t *data, size_t size, int format);

#endif
