/* Which completion belongs to which invocation. */
#include "ingest_part.h"

#include <stdlib.h>

static int64_t first_mop(const struct ing_part *part, int64_t event)
{
    return event == 0 ? 0 : part->event.p[event - 1].mop_end;
}

/* Did the completion ask for what the invocation asked for? Results of reads do not count. */
static int fits(const struct ing_part *part, int64_t invoke, int64_t complete)
{
    int64_t a = first_mop(part, invoke), b = first_mop(part, complete);
    int64_t n = part->event.p[invoke].mop_end - a;
    if (!part->event.p[complete].has_value || part->event.p[complete].mop_end - b != n) {
        return 0;
    }
    return ing_same_request(part, a, b, n);
}

/* Open transactions of a process form a list through `next`, the latest first. */
struct opened {
    int64_t *head; /* by process + 1 */
    int64_t *next; /* by transaction */
};

/* The transaction that this event completes: taken from the list; -1 none, -2 not one alone. */
static int64_t completed(const struct ing_part *part, struct opened *open,
                         const struct ing_pair *pairs, int64_t event)
{
    int64_t *link = &open->head[part->event.p[event].process + 1], *at = NULL;
    if (*link < 0) {
        return -1;
    }
    if (open->next[*link] < 0) {
        at = link;
    }
    for (; at == NULL && *link >= 0; link = &open->next[*link]) {
        if (!fits(part, pairs[*link].invoke, event)) {
            continue;
        }
        at = link;
        for (link = &open->next[*link]; *link >= 0; link = &open->next[*link]) {
            if (fits(part, pairs[*link].invoke, event)) {
                return -2;
            }
        }
        break;
    }
    if (at == NULL) {
        return -2;
    }
    int64_t txn = *at;
    *at = open->next[txn];
    return txn;
}

int64_t ing_pair_events(struct core_memory *memory, const struct ing_part *part,
                        struct ing_pair *pairs, int64_t *bad)
{
    int64_t heads = part->processes.name.n + 1, n = 0;
    struct opened open = {
        .head = ing_array(memory, heads, sizeof *open.head),
        .next = ing_array(memory, part->event.n, sizeof *open.next),
    };
    *bad = -1;
    if (open.head == NULL || open.next == NULL) {
        n = -1;
        goto done;
    }
    for (int64_t i = 0; i < heads; i++) {
        open.head[i] = -1;
    }
    for (int64_t i = 0; i < part->event.n; i++) {
        const struct ing_event *event = &part->event.p[i];
        if (event->process == ING_SKIPPED_PROCESS) {
            continue;
        }
        if (event->type == ING_INVOKE) {
            open.next[n] = open.head[event->process + 1];
            open.head[event->process + 1] = n;
            pairs[n++] = (struct ing_pair){i, -1};
            continue;
        }
        int64_t txn = completed(part, &open, pairs, i);
        if (txn == -2) {
            *bad = i;
            n = -1;
            goto done;
        }
        if (txn == -1) {
            open.next[n] = -1;
            pairs[n++] = (struct ing_pair){-1, i};
        } else {
            pairs[txn].complete = i;
        }
    }
done:
    ing_array_free(memory, open.head, heads, sizeof *open.head);
    ing_array_free(memory, open.next, part->event.n, sizeof *open.next);
    return n;
}
