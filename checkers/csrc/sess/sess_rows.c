/* What all readers of sessions do: numbers, rows, transactions by name. */
#include "sess_part.h"

#include <stdlib.h>
#include <string.h>

int sess_refuse(struct sess_error *error, enum sess_flaw flaw, int64_t line)
{
    *error = (struct sess_error){.flaw = flaw, .line = line};
    return -1;
}

const uint8_t *sess_number(const uint8_t *text, const uint8_t *p, const uint8_t *end,
                           struct sess_number *number)
{
    const uint8_t *first = p;
    uint64_t code = 0;
    while (p < end && *p == '0') {
        p++;
    }
    const uint8_t *begin = p;
    for (; p < end && (uint8_t)(*p - '0') <= 9; p++) {
        code = code * 10 + (uint8_t)(*p - '0'); /* right up to 19 digits */
    }
    if (p == first) {
        return NULL;
    }
    int fits = p - begin < 19 || (p - begin == 19 && code <= INT64_MAX);
    number->code = fits ? (int64_t)code : SESS_WIDE;
    number->digits = (struct sess_digits){begin - text, p - begin};
    return p;
}

int64_t sess_lines(const uint8_t *text, const uint8_t *end)
{
    int64_t count = 1;
    for (const uint8_t *p = text; p < end; p++) {
        count += *p == '\n';
    }
    return count;
}

int sess_begin(struct sess_reading *r, int64_t rows_max)
{
    struct sess_rows *rows = &r->rows;
    r->rows_max = rows_max;
    rows->kind = ing_array(&r->memory, rows_max, sizeof *rows->kind);
    rows->key = ing_array(&r->memory, rows_max, sizeof *rows->key);
    rows->value = ing_array(&r->memory, rows_max, sizeof *rows->value);
    rows->txn = ing_array(&r->memory, rows_max, sizeof *rows->txn);
    int spent = rows_max >= INT32_MAX || rows->kind == NULL || rows->key == NULL ||
                rows->value == NULL || rows->txn == NULL;
    return spent ? sess_refuse(r->error, SESS_SPENT, 0) : 0;
}

/* Twice as much room, in memory that free() gives back. 0, or -1 where there is none. */
static int wider(struct core_memory *memory, void **p, int64_t max, int64_t next, size_t size)
{
    size_t held = (size_t)max * size, bytes = (size_t)next * size;
    if (core_charge(memory, bytes) != 0) {
        return -1;
    }
    void *grown = realloc(*p, bytes);
    core_refund(memory, grown == NULL ? bytes : held);
    *p = grown == NULL ? *p : grown;
    return grown == NULL ? -1 : 0;
}

int sess_code(struct sess_reading *r, const struct sess_number *number, int64_t *code)
{
    struct sess_rows *rows = &r->rows;
    *code = number->code;
    if (number->code != SESS_WIDE) {
        return 0;
    }
    if (number->digits.size > SESS_DIGITS_MAX) {
        return sess_refuse(r->error, SESS_DIGITS, r->line);
    }
    if (rows->n_wide == r->wide_max) {
        int64_t next = 2 * r->wide_max + 16;
        if (wider(&r->memory, (void **)&rows->wide, r->wide_max, next, sizeof *rows->wide) != 0) {
            return sess_refuse(r->error, SESS_SPENT, 0);
        }
        r->wide_max = next;
    }
    *code = SESS_WIDE - 1 - rows->n_wide;
    rows->wide[rows->n_wide++] = number->digits;
    return 0;
}

int sess_txn(struct sess_reading *r, int64_t name, int64_t session, enum sess_outcome outcome)
{
    struct sess_rows *rows = &r->rows;
    if (rows->n == r->txns_max) {
        int64_t max = r->txns_max, next = 2 * max + 64;
        if (wider(&r->memory, (void **)&rows->outcome, max, next, sizeof *rows->outcome) != 0 ||
            wider(&r->memory, (void **)&rows->session, max, next, sizeof *rows->session) != 0 ||
            wider(&r->memory, (void **)&rows->name, max, next, sizeof *rows->name) != 0) {
            return sess_refuse(r->error, SESS_SPENT, 0);
        }
        r->txns_max = next;
    }
    rows->outcome[rows->n] = (uint8_t)outcome;
    rows->session[rows->n] = session;
    rows->name[rows->n] = name;
    rows->n++;
    return 0;
}

static int64_t slot_of(const struct sess_reading *r, int64_t name)
{
    uint64_t hash = (uint64_t)name * UINT64_C(0x9E3779B97F4A7C15);
    int64_t at = (int64_t)((hash ^ hash >> 32) & (uint64_t)(r->slots - 1));
    while (r->slot[at] != 0 && r->rows.name[r->slot[at] - 1] != name) {
        at = (at + 1) & (r->slots - 1);
    }
    return at;
}

/* Slots for four times as many transactions. 0, or -1 where memory is out. */
static int more_slots(struct sess_reading *r)
{
    int32_t *old = r->slot;
    int64_t before = r->slots, next = before == 0 ? 256 : 4 * before;
    int32_t *slot = ing_array(&r->memory, next, sizeof *slot);
    if (slot == NULL) {
        return -1;
    }
    r->slot = slot;
    r->slots = next;
    for (int64_t i = 0; i < before; i++) {
        if (old[i] != 0) {
            slot[slot_of(r, r->rows.name[old[i] - 1])] = old[i];
        }
    }
    ing_array_free(&r->memory, old, before, sizeof *old);
    return 0;
}

int64_t sess_named(struct sess_reading *r, int64_t name, int64_t session)
{
    if (2 * r->rows.n >= r->slots && more_slots(r) != 0) {
        return sess_refuse(r->error, SESS_SPENT, 0);
    }
    int64_t at = slot_of(r, name);
    if (r->slot[at] == 0) {
        if (sess_txn(r, name, session, SESS_OK) != 0) {
            return -1;
        }
        r->slot[at] = (int32_t)r->rows.n;
    }
    return r->slot[at] - 1;
}

int sess_number_homes(struct sess_reading *r)
{
    struct sess_ids ids;
    int spent = sess_ids_of(&r->memory, r->rows.session, r->rows.n, &ids) != 0;
    for (int64_t t = 0; t < r->rows.n && !spent; t++) {
        int32_t id = sess_id(&ids, t, r->rows.session[t]);
        r->rows.session[t] = r->rows.outcome[t] == SESS_FAIL ? SESS_NO_SESSION : id;
    }
    sess_ids_free(&r->memory, &ids);
    return spent ? sess_refuse(r->error, SESS_SPENT, 0) : 0;
}

void sess_rows_free(struct sess_rows *rows)
{
    free(rows->kind);
    free(rows->key);
    free(rows->value);
    free(rows->txn);
    free(rows->outcome);
    free(rows->session);
    free(rows->name);
    free(rows->wide);
    memset(rows, 0, sizeof *rows);
}
