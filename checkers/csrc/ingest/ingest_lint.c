/* What contradicts itself: nothing that is concluded from it would count. */
#include "ingest_part.h"

#include <stdlib.h>

#define RACE_NS_MAX 1000000
#define RACE_SHARE 1000

/* Do two stretches of micro-operations ask for the same? Results of reads do not count. */
int ing_same_request(const struct ing_part *part, int64_t asked, int64_t answered, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const struct ing_mop *x = ing_mop_at(part, asked + i), *y = ing_mop_at(part, answered + i);
        if (x->kind != y->kind || x->key != y->key ||
            (x->kind == ING_WRITE && x->value != y->value)) {
            return 0;
        }
    }
    return 1;
}

int ing_any_read(const struct ing_part *part, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++) {
        if (ing_mop_at(part, i)->kind == ING_READ) {
            return 1;
        }
    }
    return 0;
}

static const char other_answer[] = "the answer is to other micro-operations than were asked for";

const char *ing_record_flaw(struct ing_part *part, const struct ing_record *r)
{
    if (r->timed_out) {
        return r->ended || r->has_output ? "marked unknown, yet it has an answer" : NULL;
    }
    if (!r->ended) {
        part->skipped[ING_UNMARKED]++;
        return r->has_output ? "it never completed, yet it has an output" : NULL;
    }
    if (r->failed) {
        return r->has_output ? "it has an output and an error" : NULL;
    }
    if (!r->has_output) {
        part->skipped[ING_UNANSWERED] += ing_any_read(part, r->first, r->input);
        return NULL;
    }
    int64_t n = r->input - r->first;
    return r->has_input &&
                   (r->end - r->input != n || !ing_same_request(part, r->first, r->input, n))
               ? other_answer
               : NULL;
}

static int64_t first_mop(const struct ing_part *part, int64_t event)
{
    return event == 0 ? 0 : part->event.p[event - 1].mop_end;
}

/* Events of clients whose numbers or times step back against the order of the file. Numbers that all
 * have and that rise are the order, whatever the times. Recorders of several threads race: steps of a
 * moment, and of a thousandth of the history, are theirs. */
const char *ing_order_flaw(const struct ing_part *part, int64_t *bad)
{
    int64_t index = INT64_MIN, low = INT64_MAX, high = INT64_MIN, late = -1, worst = 0;
    int numbered = 1;
    *bad = -1;
    for (int64_t i = 0; i < part->event.n; i++) {
        const struct ing_event *e = &part->event.p[i];
        if (e->process == ING_SKIPPED_PROCESS) {
            continue;
        }
        if (!e->no_index && e->index < index) {
            *bad = i;
            return "the index steps back: sort the events by it, as they happened";
        }
        numbered = numbered && !e->no_index;
        index = e->no_index ? index : e->index;
        if (e->time < 0) {
            continue;
        }
        if (high > e->time && high - e->time > worst) {
            worst = high - e->time;
            late = i;
        }
        low = e->time < low ? e->time : low;
        high = e->time > high ? e->time : high;
    }
    if (!numbered && worst > 0 && (worst > RACE_NS_MAX || worst > (high - low) / RACE_SHARE)) {
        *bad = late;
    }
    return "the time steps back: sort the events as they happened, or give every one its index";
}

/* Whatever it was, others may have read it; but not of what failed. */
static int says_nothing(const struct ing_part *part, int64_t event)
{
    return event < 0 || (part->event.p[event].type != ING_FAIL && !part->event.p[event].has_value);
}

/* An invocation with its completion; -1 where one of them is not there. */
const char *ing_pair_flaw(struct ing_part *part, int64_t invoke, int64_t complete)
{
    int64_t first = invoke >= 0 ? invoke : complete;
    if (part->event.p[first].foreign) {
        return "not a transaction: neither its name nor its value is one";
    }
    if (says_nothing(part, invoke) && says_nothing(part, complete)) {
        return "a transaction that does not say what it did: give its micro-operations";
    }
    if (invoke < 0 || complete < 0) {
        const struct ing_event *only = &part->event.p[first];
        part->skipped[ING_UNANSWERED] += only->type == ING_OK && !only->has_value;
        return NULL;
    }
    int64_t a = first_mop(part, invoke), n = part->event.p[invoke].mop_end - a;
    int64_t b = first_mop(part, complete), m = part->event.p[complete].mop_end - b;
    if (part->event.p[complete].has_value && n > 0 &&
        (m != n || !ing_same_request(part, a, b, n))) {
        return other_answer;
    }
    if (part->event.p[complete].type == ING_OK && !part->event.p[complete].has_value) {
        part->skipped[ING_UNANSWERED] += n == 0 || ing_any_read(part, a, a + n);
    }
    return NULL;
}

int ing_one_at_a_time(struct ing_part *part, const int64_t *order, int64_t *bad, const char **flaw)
{
    int64_t n = part->event.n, processes = part->processes.name.n;
    /* by process: the operation before, plus 1 */
    int64_t *last = ing_array(&part->memory, processes, sizeof *last);
    *bad = -1;
    if (last == NULL) {
        return -1;
    }
    for (int64_t i = 0; i < n && *bad < 0; i++) {
        int64_t at = order[i], process = part->event.p[at].process, before = last[process] - 1;
        last[process] = at + 1;
        if (before >= 0 && part->times.p[before].end > part->times.p[at].begin) {
            *flaw = part->times.p[before].end == INT64_MAX
                        ? "its process went on after an operation of unknown outcome"
                        : "its process had two operations at a time";
            *bad = at;
        }
    }
    ing_array_free(&part->memory, last, processes, sizeof *last);
    return 0;
}
