/* Linearizability of one small register by trying all orders. */
#ifndef DSTEST_TEST_BRUTE_H
#define DSTEST_TEST_BRUTE_H

#include "lin/lin.h"

enum { SMALL = 10, VALUES = 5, BIG = 3000 };

struct history {
    uint8_t kind[BIG];
    int32_t a[BIG], b[BIG];
    int64_t invoke[BIG], complete[BIG];
    int n;
};

static char seen[1 << SMALL][VALUES];

static int search(const struct history *h, int done, int value)
{
    int all = 1;
    if (seen[done][value]) {
        return 0;
    }
    seen[done][value] = 1;
    for (int i = 0; i < h->n; i++) {
        all &= done >> i & 1 || h->kind[i] >= LIN_WRITE_UNKNOWN;
    }
    if (all) {
        return 1;
    }
    for (int i = 0; i < h->n; i++) {
        int ready = !(done >> i & 1), to = value;
        for (int j = 0; j < h->n; j++) {
            ready &= done >> j & 1 || h->complete[j] >= h->invoke[i];
        }
        int equal = h->a[i] == value;
        switch (h->kind[i]) {
        case LIN_READ:
            ready &= equal;
            break;
        case LIN_CAS_FALSE:
            ready &= !equal;
            break;
        case LIN_CAS_TRUE:
        case LIN_CAS_UNKNOWN:
            ready &= equal;
            to = h->b[i];
            break;
        default:
            to = h->a[i];
        }
        if (ready && search(h, done | 1 << i, to)) {
            return 1;
        }
    }
    return 0;
}

#endif
