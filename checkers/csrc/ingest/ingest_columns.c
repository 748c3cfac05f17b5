/* Parts of a text into the columns of one history. */
#include "ingest_part.h"

#include <stdlib.h>
#include <string.h>

static int append(struct ing_part *to, const struct ing_part *from)
{
    int64_t mops = to->mop.n, elems = to->elem.n;
    if (ing_room(&to->memory, to->event, from->event.n) != 0 ||
        ing_room(&to->memory, to->times, from->times.n) != 0 ||
        ing_room(&to->memory, to->mop, from->mop.n) != 0 ||
        ing_room(&to->memory, to->elem, from->elem.n) != 0) {
        return -1;
    }
    for (int64_t i = 0; i < from->event.n; i++) {
        struct ing_event *event = &to->event.p[to->event.n++];
        *event = from->event.p[i];
        event->mop_end += mops;
    }
    for (int64_t i = 0; i < from->times.n; i++) {
        to->times.p[to->times.n++] = from->times.p[i];
    }
    for (int64_t i = 0; i < from->mop.n; i++) {
        struct ing_mop *mop = &to->mop.p[to->mop.n++];
        *mop = from->mop.p[i];
        mop->elem_end += elems;
    }
    if (from->elem.n > 0) {
        memcpy(to->elem.p + elems, from->elem.p, (size_t)from->elem.n * sizeof *to->elem.p);
    }
    to->elem.n += from->elem.n;
    for (int i = 0; i < ING_SKIPS; i++) {
        to->skipped[i] += from->skipped[i];
    }
    return 0;
}

/* Adds the second part to the first. -1 where memory is out. */
int ing_join(struct ing_part *first, struct ing_part *second)
{
    int status = -1;
    int32_t *keys = ing_translate(&first->memory, &first->keys, &second->keys);
    int32_t *values = ing_translate(&first->memory, &first->values, &second->values);
    int32_t *processes = ing_translate(&first->memory, &first->processes, &second->processes);
    if (keys == NULL || values == NULL || processes == NULL) {
        goto done;
    }
    for (int64_t i = 0; i < second->mop.n; i++) {
        struct ing_mop *mop = &second->mop.p[i];
        mop->key = keys[mop->key];
        mop->value = mop->value == ING_NIL ? ING_NIL : values[mop->value];
    }
    for (int64_t i = 0; i < second->elem.n; i++) {
        second->elem.p[i] = values[second->elem.p[i]];
    }
    for (int64_t i = 0; i < second->event.n; i++) {
        struct ing_event *event = &second->event.p[i];
        event->process = event->process >= 0 ? processes[event->process] : event->process;
    }
    status = append(first, second);
done:
    free(keys);
    free(values);
    free(processes);
    return status;
}

/* n elements, all zero; at least one, so that NULL means only that memory is out. */
static void *array(struct core_memory *memory, int64_t n, size_t size)
{
    if (n >= INT64_MAX / 2 / (int64_t)size || core_charge(memory, ((size_t)n + 1) * size) != 0) {
        return NULL;
    }
    return calloc((size_t)n + 1, size);
}

static int reserve(struct core_memory *memory, struct ing_columns *out)
{
    out->outcome = array(memory, out->n, sizeof *out->outcome);
    out->process = array(memory, out->n, sizeof *out->process);
    out->invoke_pos = array(memory, out->n, sizeof *out->invoke_pos);
    out->complete_pos = array(memory, out->n, sizeof *out->complete_pos);
    out->op_index = array(memory, out->n, sizeof *out->op_index);
    out->mop_start = array(memory, out->n + 1, sizeof *out->mop_start);
    out->mop_kind = array(memory, out->m, sizeof *out->mop_kind);
    out->mop_key = array(memory, out->m, sizeof *out->mop_key);
    out->mop_value = array(memory, out->m, sizeof *out->mop_value);
    out->mop_known = array(memory, out->m, sizeof *out->mop_known);
    out->elem_start = array(memory, out->m + 1, sizeof *out->elem_start);
    out->elem = array(memory, out->e, sizeof *out->elem);
    return out->outcome && out->process && out->invoke_pos && out->complete_pos && out->op_index &&
                   out->mop_start && out->mop_kind && out->mop_key && out->mop_value &&
                   out->mop_known && out->elem_start && out->elem
               ? 0
               : -1;
}

struct span {
    int64_t from, to; /* micro-ops */
    int64_t elem;     /* where their elements start */
};

static struct span span_of(const struct ing_part *part, int64_t event)
{
    struct span span = {event == 0 ? 0 : part->event.p[event - 1].mop_end,
                        part->event.p[event].mop_end, 0};
    span.elem = span.from == 0 ? 0 : part->mop.p[span.from - 1].elem_end;
    return span;
}

/* The event whose micro-ops count: the completion's, where it tells any. */
static int64_t answering_event(const struct ing_part *part, const struct ing_pair *pair)
{
    if (pair->complete >= 0 && (part->event.p[pair->complete].has_value || pair->invoke < 0)) {
        return pair->complete;
    }
    return pair->invoke;
}

static void copy_mops(const struct ing_part *part, const struct span *span, struct ing_columns *out)
{
    int64_t elem = span->elem;
    for (int64_t i = span->from; i < span->to; i++) {
        const struct ing_mop *mop = &part->mop.p[i];
        out->mop_kind[out->m] = mop->kind;
        out->mop_key[out->m] = mop->key;
        out->mop_value[out->m] = mop->value;
        out->mop_known[out->m] = mop->known;
        out->elem_start[out->m++] = out->e;
        if (mop->elem_end > elem) {
            memcpy(out->elem + out->e, part->elem.p + elem,
                   (size_t)(mop->elem_end - elem) * sizeof *out->elem);
            out->e += mop->elem_end - elem;
        }
        elem = mop->elem_end;
    }
}

/* Transaction t of the columns: one of ours is both events in one. */
static void fill(const struct ing_part *part, struct ing_columns *out, int64_t t,
                 const struct ing_pair *pair)
{
    int64_t event = pair->complete >= 0 ? pair->complete : pair->invoke;
    const struct ing_event *last = &part->event.p[event];
    out->outcome[t] = last->type == ING_INVOKE ? ING_INFO : last->type;
    out->process[t] = last->process;
    out->op_index[t] = last->no_index ? event : last->index;
    out->mop_start[t] = out->m;
    struct span span = span_of(part, answering_event(part, pair));
    copy_mops(part, &span, out);
}

static int size_up(struct ing_part *part, const struct ing_pair *pairs, struct ing_columns *out)
{
    out->m = out->e = 0;
    for (int64_t t = 0; t < out->n; t++) {
        struct span span = span_of(part, answering_event(part, &pairs[t]));
        out->m += span.to - span.from;
        out->e += span.to > span.from ? part->mop.p[span.to - 1].elem_end - span.elem : 0;
    }
    return reserve(&part->memory, out);
}

static int ours(struct ing_part *part, struct ing_columns *out, struct ing_pair *pairs,
                int64_t *bad, const char **flaw)
{
    int64_t n = out->n, *scratch = array(&part->memory, 3 * n, sizeof *scratch);
    if (scratch == NULL ||
        ing_order(&part->memory, part->times.p, n, scratch, scratch + n, scratch + 2 * n) != 0 ||
        ing_one_at_a_time(part, scratch, bad, flaw) != 0 || *bad >= 0) {
        free(scratch);
        return -1;
    }
    for (int64_t t = 0; t < n; t++) {
        pairs[t] = (struct ing_pair){-1, scratch[t]};
    }
    int status = size_up(part, pairs, out);
    out->m = out->e = 0;
    for (int64_t t = 0; t < n && status == 0; t++) {
        fill(part, out, t, &pairs[t]);
        out->invoke_pos[t] = scratch[n + scratch[t]];
        out->complete_pos[t] = scratch[2 * n + scratch[t]];
    }
    core_refund(&part->memory, (3 * (size_t)n + 1) * sizeof *scratch);
    free(scratch);
    return status;
}

static int jepsen(struct ing_part *part, struct ing_columns *out, const struct ing_pair *pairs)
{
    int status = size_up(part, pairs, out);
    out->m = out->e = 0;
    for (int64_t t = 0; t < out->n && status == 0; t++) {
        fill(part, out, t, &pairs[t]);
        out->invoke_pos[t] = pairs[t].invoke;
        out->complete_pos[t] = pairs[t].complete;
    }
    return status;
}

int ing_columns_of(struct ing_part *part, struct ing_columns *out, struct ing_error *error)
{
    int64_t bad = -1;
    int is_ours = part->format == ING_OURS;
    const char *disorder = is_ours ? NULL : ing_order_flaw(part, &bad);
    if (bad >= 0) {
        ing_locate(part, part->event.p[bad].offset, disorder, error);
        return -1;
    }
    struct ing_pair *pairs = array(&part->memory, part->event.n, sizeof *pairs);
    if (pairs == NULL) {
        ing_locate(part, -1, ing_spent, error);
        return -1;
    }
    out->n = is_ours ? part->event.n : ing_pair_events(&part->memory, part, pairs, &bad);
    int status = -1;
    const char *flaw = "several operations of this process are open, and not one alone fits";
    for (int64_t t = 0; t < out->n && !is_ours && bad < 0; t++) {
        const char *found = ing_pair_flaw(part, pairs[t].invoke, pairs[t].complete);
        flaw = found != NULL ? found : flaw;
        bad = found == NULL ? -1 : pairs[t].complete >= 0 ? pairs[t].complete : pairs[t].invoke;
    }
    if (bad < 0 && out->n >= 0) {
        status = is_ours ? ours(part, out, pairs, &bad, &flaw) : jepsen(part, out, pairs);
    }
    if (bad >= 0) {
        ing_locate(part, part->event.p[bad].offset, flaw, error);
    } else if (status != 0) {
        ing_locate(part, -1, ing_spent, error);
    } else {
        out->mop_start[out->n] = out->m;
        out->elem_start[out->m] = out->e;
    }
    free(pairs);
    return status;
}
