/* AWDIT's text: `r key value` or `w key value` a line, a line of - between transactions, a line of =
 * between sessions. Whether the last line has an end is not looked at. */
#include "sess_part.h"

#include <string.h>

enum { DIGITS_MAX = 20 };

/* As bytes.strip of Python. */
static int is_space(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static const uint8_t *skip_blanks(const uint8_t *p, const uint8_t *end)
{
    while (p < end && (*p == ' ' || *p == '\t')) {
        p++;
    }
    return p;
}

/* A number of at most DIGITS_MAX digits, zeros before it included, after at least one blank. */
static const uint8_t *after_blank(const uint8_t *text, const uint8_t *p, const uint8_t *end,
                                  struct sess_number *number)
{
    const uint8_t *first = skip_blanks(p, end);
    const uint8_t *last = first == p ? NULL : sess_number(text, first, end, number);
    return last != NULL && last - first > DIGITS_MAX ? NULL : last;
}

/* 1 where [p, end), which is not empty, is nothing but `c`. */
static int all_are(const uint8_t *p, const uint8_t *end, uint8_t c)
{
    while (p < end && *p == c) {
        p++;
    }
    return p == end;
}

/* An operation, in the transaction in hand. 0, 1 where the line is none, -1 after sess_refuse. */
static int operation(struct sess_reading *r, const uint8_t *p, const uint8_t *end, int begun,
                     int64_t session)
{
    struct sess_rows *rows = &r->rows;
    struct sess_number key, value;
    if (*p != 'r' && *p != 'w') {
        return 1;
    }
    const uint8_t *at = after_blank(r->text, p + 1, end, &key);
    at = at == NULL ? NULL : after_blank(r->text, at, end, &value);
    if (at != end) {
        return 1;
    }
    if ((!begun && sess_txn(r, rows->n, session, SESS_OK) != 0) ||
        sess_code(r, &key, &rows->key[rows->m]) != 0 ||
        sess_code(r, &value, &rows->value[rows->m]) != 0) {
        return -1;
    }
    rows->kind[rows->m] = *p == 'w' ? SESS_WRITE : SESS_READ;
    rows->txn[rows->m++] = (int32_t)(rows->n - 1);
    return 0;
}

int sess_awdit(struct sess_reading *r)
{
    const uint8_t *p = r->text;
    int64_t session = 0;
    int begun = 0;
    if (r->end - p >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) {
        p += 3;
    }
    if (sess_begin(r, sess_lines(p, r->end)) != 0) {
        return -1;
    }
    for (r->line = 1; p < r->end; r->line++) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(r->end - p));
        const uint8_t *end = newline == NULL ? r->end : newline, *next = end + (newline != NULL);
        while (p < end && is_space(*p)) {
            p++;
        }
        while (p < end && is_space(end[-1])) {
            end--;
        }
        if (p < end && (*p == '-' || *p == '=') && all_are(p, end, *p)) {
            begun = 0;
            session += *p == '=';
        } else if (p < end) {
            int found = operation(r, p, end, begun, session);
            if (found != 0) {
                return found < 0 ? -1 : sess_refuse(r->error, SESS_LINE, r->line);
            }
            begun = 1;
        }
        p = next;
    }
    return r->rows.m > 0 ? 0 : sess_refuse(r->error, SESS_EMPTY, 0);
}
