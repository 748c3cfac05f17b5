/* Records into transactions. */
#include "stream_state.h"

static int refuse(struct stream *s, int64_t line, const char *message)
{
    if (s->status == STREAM_GOING) {
        s->error = (struct ing_error){message, line, 1};
    }
    stream_spent(s, STREAM_REFUSED);
    return -1;
}

static int resolve_codes(struct stream *s, const struct ing_names *names, uint64_t *codes,
                         int64_t from)
{
    for (int64_t i = from; i < names->name.n; i++) {
        struct ing_scalar scalar;
        ing_scalar_of(names, i, &scalar);
        codes[i] = stream_code(s, &scalar);
        if (codes[i] == STREAM_NO_CODE) {
            return -1;
        }
    }
    return 0;
}

/* Room for as many as there are names. */
#define ROOM(s, array, names) ing_room(&(s)->part.memory, array, (names).name.n - (array).n)

int stream_resolve(struct stream *s)
{
    struct ing_part *part = &s->part;
    if (ROOM(s, s->value_code, part->values) != 0 ||
        ROOM(s, s->process_code, part->processes) != 0 || ROOM(s, s->key_number, part->keys) != 0 ||
        resolve_codes(s, &part->values, s->value_code.p, s->value_code.n) != 0 ||
        resolve_codes(s, &part->processes, s->process_code.p, s->process_code.n) != 0) {
        return -1;
    }
    s->value_code.n = part->values.name.n;
    s->process_code.n = part->processes.name.n;
    for (; s->key_number.n < part->keys.name.n; s->key_number.n++) {
        struct ing_scalar scalar;
        ing_scalar_of(&part->keys, s->key_number.n, &scalar);
        uint64_t code = stream_code(s, &scalar);
        int64_t number = code == STREAM_NO_CODE ? -1 : stream_key_of(s, code);
        if (number < 0) {
            return -1;
        }
        s->key_number.p[s->key_number.n] = (uint32_t)number;
    }
    return 0;
}

static int64_t first_mop(const struct ing_part *part, int64_t event)
{
    return event == 0 ? 0 : part->event.p[event - 1].mop_end;
}

static int64_t first_elem(const struct ing_part *part, int64_t mop)
{
    return mop == 0 ? 0 : part->mop.p[mop - 1].elem_end;
}

/* Each id once, each value once to its key, lists alone. -1 where not. */
static int sound(struct stream *s, int64_t event, int64_t line)
{
    const struct ing_part *part = &s->part;
    uint64_t id = (uint64_t)part->event.p[event].index;
    int there = stream_map_add(&s->budget.memory, &s->ids, id >> STREAM_WORD, STREAM_LOW(id));
    if (there == 1) {
        return refuse(s, line, "its op_id stands twice");
    }
    for (int64_t i = first_mop(part, event); there == 0 && i < part->event.p[event].mop_end; i++) {
        const struct ing_mop *mop = &part->mop.p[i];
        if (mop->kind == ING_READ && mop->value != ING_NIL) {
            return refuse(s, line, "a read returns a single value: this is no list-append history");
        }
        if (mop->kind == ING_WRITE) {
            uint64_t code = s->value_code.p[mop->value];
            uint64_t block = (uint64_t)s->key_number.p[mop->key] << 31 | code >> STREAM_WORD;
            there = stream_map_add(&s->budget.memory, &s->appended, block, STREAM_LOW(code));
        }
    }
    if (there == 1) {
        return refuse(s, line, "it appends a value that was appended to its key before");
    }
    if (there < 0) {
        stream_spent(s, STREAM_MEMORY);
    }
    return there;
}

/* Does a micro-op matter to the execution? */
static int matters(const struct ing_mop *mop, uint8_t outcome)
{
    return mop->kind == ING_WRITE ? outcome != ING_FAIL : outcome == ING_OK && mop->known;
}

static struct stream_txn *transaction(struct stream *s, int64_t event, int64_t line)
{
    const struct ing_part *part = &s->part;
    const struct ing_event *e = &part->event.p[event];
    int ended = s->report.end != STREAM_RUNS;
    int64_t from = first_mop(part, event), to = ended ? from : e->mop_end, n = 0;
    for (int64_t i = from; i < to; i++) {
        n += matters(&part->mop.p[i], e->type);
    }
    struct stream_txn *t = n > UINT32_MAX
                               ? NULL
                               : core_block(&s->budget.memory, stream_txn_size((uint32_t)n));
    if (t == NULL) {
        stream_spent(s, STREAM_MEMORY);
        return NULL;
    }
    t->begin = part->times.p[event].begin;
    t->end = part->times.p[event].end;
    t->op_id = e->index;
    t->line = line;
    t->process = s->process_code.p[e->process];
    t->outcome = e->type;
    for (int64_t i = from; i < to; i++) {
        const struct ing_mop *mop = &part->mop.p[i];
        if (matters(mop, e->type)) {
            int writes = mop->kind == ING_WRITE;
            t->mops[t->n++] = (struct stream_mop){
                .key = s->key_number.p[mop->key],
                .kind = mop->kind,
                .known = mop->known,
                .value = writes ? s->value_code.p[mop->value]
                                : (uint64_t)(mop->elem_end - first_elem(part, i)),
            };
        }
    }
    return t;
}

/* Readers of versions, and what they say of the lists. */
static void look_ahead(struct stream *s, const struct stream_txn *t, int64_t event)
{
    const struct ing_part *part = &s->part;
    int64_t mop = first_mop(part, event);
    s->stamp++;
    for (uint32_t i = 0; i < t->n && s->status == STREAM_GOING; i++, mop++) {
        while (!matters(&part->mop.p[mop], t->outcome)) {
            mop++;
        }
        const struct stream_mop *m = &t->mops[i];
        struct stream_hot *hot = stream_touched(s, m->key);
        if (m->kind == ING_WRITE) {
            hot->own++;
            continue;
        }
        const int32_t *elem = m->value > 0 ? part->elem.p + first_elem(part, mop) : NULL;
        int end = stream_pin(s, m->key, elem, (int64_t)m->value);
        if (end == STREAM_RUNS && hot->own == 0 && m->value < s->key.p[m->key].length) {
            end = STREAM_STALE;
        }
        if (end != STREAM_RUNS) {
            stream_end_at(s, end, t, m->key);
            return;
        }
        if (hot->own == 0 && !hot->read && s->status == STREAM_GOING) {
            hot->read = 1;
            if (stream_room(s, hot, m->value + 1) == 0) {
                hot->readers[m->value - hot->base]++;
            }
        }
    }
}

/* Uses of its keys. -1 where memory is out, and then none are left. */
static int use_keys(struct stream *s, const struct stream_txn *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (stream_use(s, t->mops[i].key) == NULL) {
            while (i-- > 0) {
                stream_leave(s, t->mops[i].key);
            }
            return -1;
        }
    }
    return 0;
}

static void count(struct stream *s, const struct stream_txn *t)
{
    s->report.ok += t->outcome == ING_OK;
    s->report.failed += t->outcome == ING_FAIL;
    s->report.unknown += t->outcome == ING_INFO;
    int64_t last = t->end == INT64_MAX ? t->begin : t->end;
    s->report.last_ns = last > s->report.last_ns ? last : s->report.last_ns;
}

void stream_record(struct stream *s, int64_t event, int64_t line)
{
    struct stream_txn *t = sound(s, event, line) != 0 ? NULL : transaction(s, event, line);
    if (t == NULL) {
        return;
    }
    count(s, t);
    int unknown = t->outcome == ING_INFO && t->n > 0;
    if ((t->outcome == ING_OK && use_keys(s, t) != 0) ||
        (unknown && stream_keep_unknown(s, t) != 0)) {
        core_block_free(&s->budget.memory, t, stream_txn_size(t->n));
        return;
    }
    if (t->outcome == ING_OK) {
        look_ahead(s, t, event);
    }
    if (stream_enqueue(s, t) != 0 && !unknown) {
        stream_drop(s, t);
    }
    stream_offer_ready(s);
}
