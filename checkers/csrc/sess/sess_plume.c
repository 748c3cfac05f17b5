/* Plume's text: `r(key,value,session,transaction)` or `w(..)` a line; transaction -1 stands for all
 * that were aborted. */
#include "sess_part.h"

#include <string.h>

enum { KEY, VALUE, SESSION, TXN, NUMBERS };

#define ABORTED (-1)

struct line {
    struct sess_number number[NUMBERS];
    int writes, minus;
};

/* What is told only where every line is an operation: the first of each. */
struct doubts {
    int bits;
    struct sess_error below, homes; /* line 0: none */
    int64_t top;                    /* the highest name */
    int64_t aborted;
};

/* One line from `p` on. Where it ends, or NULL where it is no operation. */
static const uint8_t *line_at(const uint8_t *text, const uint8_t *p, const uint8_t *end,
                              struct line *line)
{
    if (end - p < 2 || (p[0] != 'r' && p[0] != 'w') || p[1] != '(') {
        return NULL;
    }
    line->writes = p[0] == 'w';
    p += 2;
    for (int i = 0; i < NUMBERS; i++) {
        line->minus = i == TXN && p < end && *p == '-';
        p = sess_number(text, p + line->minus, end, &line->number[i]);
        if (p == NULL || p == end || *p != (i == TXN ? ')' : ',')) {
            return NULL;
        }
        p++;
    }
    if (p < end && *p == '\r' && end - p > 1) {
        p++;
    }
    return p == end || *p == '\n' ? p : NULL;
}

/* The transaction of a line, made where it is new; -1 after sess_refuse. */
static int64_t txn_of(struct sess_reading *r, struct doubts *doubts, int64_t name, int64_t home)
{
    struct sess_rows *rows = &r->rows;
    if (name < 0) {
        doubts->aborted++;
        return sess_txn(r, 0, home, SESS_FAIL) != 0 ? -1 : rows->n - 1;
    }
    int64_t last = rows->m == 0 ? -1 : rows->txn[rows->m - 1];
    int again = last >= 0 && rows->name[last] == name && rows->outcome[last] == SESS_OK;
    int64_t txn = again ? last : sess_named(r, name, home);
    doubts->top = name > doubts->top ? name : doubts->top;
    if (txn >= 0 && rows->session[txn] != home && doubts->homes.line == 0) {
        doubts->homes = (struct sess_error){SESS_HOMES, r->line, name, home, rows->session[txn]};
    }
    return txn;
}

static int take(struct sess_reading *r, struct doubts *doubts, const struct line *line)
{
    struct sess_rows *rows = &r->rows;
    int64_t key, value, home = line->number[SESSION].code, name = line->number[TXN].code;
    if (sess_code(r, &line->number[KEY], &key) != 0 ||
        sess_code(r, &line->number[VALUE], &value) != 0) {
        return -1;
    }
    if (home == SESS_WIDE || name == SESS_WIDE) {
        doubts->bits = 1;
        return 0;
    }
    name = line->minus ? -name : name;
    if (name < ABORTED && doubts->below.line == 0) {
        doubts->below = (struct sess_error){SESS_BELOW, r->line, name, 0, 0};
    }
    if (name < 0 && !line->writes) { /* what an aborted transaction read is not known */
        rows->lost++;
        return 0;
    }
    int64_t txn = txn_of(r, doubts, name, home);
    if (txn < 0) {
        return -1;
    }
    rows->kind[rows->m] = line->writes ? SESS_WRITE : SESS_READ;
    rows->key[rows->m] = key;
    rows->value[rows->m] = value;
    rows->txn[rows->m++] = (int32_t)txn;
    return 0;
}

static const uint8_t *without_ends(const uint8_t *text, const uint8_t *end)
{
    while (end > text && end[-1] == '\n') {
        end -= 1 + (end - text > 1 && end[-2] == '\r');
    }
    return end;
}

/* Nobody knows which aborted writes were of one transaction: each is one of its own, and is called
 * by a number that is free. */
static void name_aborted(struct sess_rows *rows, int64_t last)
{
    for (int64_t t = 0; t < rows->n; t++) {
        if (rows->outcome[t] == SESS_FAIL) {
            rows->name[t] = ++last;
        }
    }
}

int sess_plume(struct sess_reading *r)
{
    struct doubts doubts = {.top = 0};
    struct line line;
    const uint8_t *p = r->text, *end;
    if (r->end - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
    }
    end = without_ends(p, r->end);
    if (p == end) {
        return sess_refuse(r->error, SESS_EMPTY, 0);
    }
    if (sess_begin(r, sess_lines(p, end)) != 0) {
        return -1;
    }
    for (r->line = 1;; r->line++, p++) {
        p = line_at(r->text, p, end, &line);
        if (p == NULL) {
            return sess_refuse(r->error, SESS_LINE, r->line);
        }
        if (take(r, &doubts, &line) != 0) {
            return -1;
        }
        if (p == end) {
            break;
        }
    }
    int free = doubts.aborted == 0 || doubts.top < INT64_MAX - 1 - doubts.aborted;
    if (doubts.bits || !free) {
        return sess_refuse(r->error, SESS_BITS, 0);
    }
    if (doubts.below.line > 0 || doubts.homes.line > 0) {
        *r->error = doubts.below.line > 0 ? doubts.below : doubts.homes;
        return -1;
    }
    name_aborted(&r->rows, doubts.top);
    return sess_number_homes(r);
}
