/* Strings and numbers of both notations. */
#include "ingest_part.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Is it well-formed UTF-8? (Unicode 15, table 3-7) */
int ing_utf8(const char *text, int64_t size)
{
    const uint8_t *p = (const uint8_t *)text, *end = p + size;
    while (p < end) {
        uint8_t c = *p++;
        if (c < 0x80) {
            continue;
        }
        int more = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : 1;
        if (c < 0xc2 || c > 0xf4 || end - p < more) {
            return 0;
        }
        uint8_t low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
        uint8_t high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
        if (*p < low || *p > high) {
            return 0;
        }
        for (p++; --more > 0; p++) {
            if ((*p & 0xc0) != 0x80) {
                return 0;
            }
        }
    }
    return 1;
}

static int put(struct ing_part *part, uint32_t code)
{
    if (ing_room(&part->memory, part->scratch, 4) != 0) {
        return ing_refuse(part, ing_spent);
    }
    char *at = part->scratch.p + part->scratch.n;
    if (code < 0x80) {
        at[0] = (char)code;
        part->scratch.n += 1;
    } else if (code < 0x800) {
        at[0] = (char)(0xc0 | code >> 6);
        at[1] = (char)(0x80 | (code & 0x3f));
        part->scratch.n += 2;
    } else if (code < 0x10000) {
        at[0] = (char)(0xe0 | code >> 12);
        at[1] = (char)(0x80 | (code >> 6 & 0x3f));
        at[2] = (char)(0x80 | (code & 0x3f));
        part->scratch.n += 3;
    } else {
        at[0] = (char)(0xf0 | code >> 18);
        at[1] = (char)(0x80 | (code >> 12 & 0x3f));
        at[2] = (char)(0x80 | (code >> 6 & 0x3f));
        at[3] = (char)(0x80 | (code & 0x3f));
        part->scratch.n += 4;
    }
    return 0;
}

/* Four hexadecimal digits after \u, or -1. */
static int32_t hex4(struct ing_part *part)
{
    int32_t code = 0;
    if (part->end - part->p < 4) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        uint8_t c = *part->p++;
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        code = code << 4 | digit;
    }
    return code;
}

static int unicode(struct ing_part *part)
{
    int32_t code = hex4(part), low;
    if (code >= 0xd800 && code < 0xdc00 && part->end - part->p >= 2 && part->p[0] == '\\' &&
        part->p[1] == 'u') {
        part->p += 2;
        low = hex4(part);
        code = low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((code - 0xd800) << 10) + low - 0xdc00
                                             : -1;
    }
    if (code < 0 || (code >= 0xd800 && code < 0xe000)) {
        return ing_refuse(part, "not a character: \\u needs four hexadecimal digits of one");
    }
    return put(part, (uint32_t)code);
}

static int escape(struct ing_part *part)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (part->p == part->end) {
        return ing_refuse(part, "the text ends within a string");
    }
    uint8_t c = *part->p++;
    if (c == 'u') {
        return unicode(part);
    }
    const char *at = c == 0 ? NULL : strchr(from, c);
    if (at != NULL) {
        return put(part, (uint8_t)to[at - from]);
    }
    if (!part->json && c >= '0' && c <= '7') {
        uint32_t code = c - '0';
        for (int i = 0; i < 2 && part->p < part->end && *part->p >= '0' && *part->p <= '7'; i++) {
            code = code << 3 | (uint32_t)(*part->p++ - '0');
        }
        return put(part, code & 0xff);
    }
    part->p--;
    return ing_refuse(part, "unknown escape in a string");
}

/* The string that begins at the quote under the cursor. */
int ing_string(struct ing_part *part, struct ing_scalar *scalar)
{
    const uint8_t *from = ++part->p, *open = from - 1;
    int copied = 0;
    part->scratch.n = 0;
    for (;;) {
        const uint8_t *p = part->p;
        while (p < part->end && *p != '"' && *p != '\\' && *p >= 0x20) {
            p++;
        }
        if (p < part->end && *p < 0x20 && !part->json && *p != 0) {
            part->p = p + 1;
            continue;
        }
        part->p = p;
        if (p == part->end) {
            part->p = open;
            return ing_refuse(part, "the text ends within a string");
        }
        if (*p < 0x20) {
            return ing_refuse(part, "a control character within a string");
        }
        int64_t plain = p - from;
        if (*p == '\\' || copied) {
            if (ing_room(&part->memory, part->scratch, plain) != 0) {
                return ing_refuse(part, ing_spent);
            }
            if (plain > 0) {
                memcpy(part->scratch.p + part->scratch.n, from, (size_t)plain);
            }
            part->scratch.n += plain;
            copied = 1;
        }
        part->p = p + 1;
        if (*p == '"') {
            scalar->tag = ING_STRING;
            scalar->bits = 0;
            scalar->text = copied ? (part->scratch.p != NULL ? part->scratch.p : "")
                                  : (const char *)from;
            scalar->size = copied ? part->scratch.n : plain;
            return 0;
        }
        if (escape(part) != 0) {
            return -1;
        }
        from = part->p;
    }
}

/* 2^53: whole doubles below it are integers that nothing was lost of. */
#define WHOLE_MAX 9007199254740992.0

/* Decimal digits that a double tells from all others. */
#define EXACT_DIGITS 15

static int digit(const struct ing_part *part, const uint8_t *p)
{
    return p < part->end && *p >= '0' && *p <= '9';
}

static int real(struct ing_part *part, const uint8_t *from, struct ing_scalar *scalar)
{
    char copy[400];
    size_t size = (size_t)(part->p - from);
    if (size >= sizeof copy) {
        part->p = from;
        return ing_refuse(part, "a number of more than 400 characters");
    }
    memcpy(copy, from, size);
    copy[size] = '\0';
    double value = strtod(copy, NULL);
    if (!isfinite(value)) {
        part->p = from;
        return ing_refuse(part, "a number beyond what a double holds");
    }
    scalar->text = NULL;
    scalar->size = 0;
    if (value > -WHOLE_MAX && value < WHOLE_MAX && value == (double)(int64_t)value) {
        scalar->tag = ING_INT; /* 1.0 is 1, and -0.0 is 0 */
        scalar->bits = (int64_t)value;
        return 0;
    }
    scalar->tag = ING_FLOAT;
    memcpy(&scalar->bits, &value, sizeof value);
    return 0;
}

/* How many decimal digits tell this number from others, zeros at both ends left out? */
static int64_t digits_in(const uint8_t *p, const uint8_t *end)
{
    int64_t n = 0, zeros = 0;
    for (; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '0') {
            zeros += n > 0;
        } else if (*p > '0' && *p <= '9') {
            n += zeros + 1;
            zeros = 0;
        }
    }
    return n;
}

/* A decimal of EDN with a fraction or exponent, before its M: equal ones are equal, others are not. */
static int decimal(struct ing_part *part, const uint8_t *from, struct ing_scalar *scalar)
{
    const uint8_t *end = part->p;
    if (digits_in(from, end) <= EXACT_DIGITS) {
        return real(part, from, scalar);
    }
    int exponent = memchr(from, 'e', (size_t)(end - from)) != NULL ||
                   memchr(from, 'E', (size_t)(end - from)) != NULL;
    from += *from == '+';
    while (!exponent && end[-1] == '0') {
        end--;
    }
    *scalar = (struct ing_scalar){0, (const char *)from, end - from, ING_EXACT};
    return 0;
}

/* What follows the digits of an integer: fraction, exponent, or EDN's N and M. */
static int number_tail(struct ing_part *part, const uint8_t *from, struct ing_scalar *scalar,
                       int fits)
{
    const uint8_t *p = part->p;
    int is_real = 0;
    if (p < part->end && *p == '.') {
        is_real = 1;
        p++;
        if (part->json && !digit(part, p)) {
            return ing_refuse(part, "a number that ends in its point");
        }
        while (digit(part, p)) {
            p++;
        }
    }
    if (p < part->end && (*p == 'e' || *p == 'E')) {
        is_real = 1;
        p++;
        if (p < part->end && (*p == '+' || *p == '-')) {
            p++;
        }
        if (!digit(part, p)) {
            return ing_refuse(part, "a number without the digits of its exponent");
        }
        while (digit(part, p)) {
            p++;
        }
    }
    part->p = p;
    if (!part->json && p < part->end && (*p == 'M' || *p == 'N')) {
        int status = !is_real    ? 0
                     : *p == 'M' ? decimal(part, from, scalar)
                                 : real(part, from, scalar);
        part->p += status == 0;
        if (is_real || status != 0) {
            return status;
        }
    }
    if (is_real) {
        return real(part, from, scalar);
    }
    if (!fits) {
        from += *from == '+';
        scalar->tag = ING_BIGINT;
        scalar->bits = 0;
        scalar->text = (const char *)from;
        scalar->size = p - from;
        if (scalar->size > 1000) {
            part->p = from;
            return ing_refuse(part, "an integer of more than 1000 digits");
        }
    }
    return 0;
}

/* The number that begins under the cursor, at a digit or a sign. */
int ing_number(struct ing_part *part, struct ing_scalar *scalar)
{
    const uint8_t *from = part->p, *p = from;
    int negative = *p == '-';
    p += negative || *p == '+';
    const uint8_t *digits = p;
    uint64_t value = 0;
    while (digit(part, p)) {
        value = value * 10 + (uint64_t)(*p++ - '0');
    }
    if (p == digits) {
        return ing_refuse(part, "not a number");
    }
    int leading = *digits == '0' && p - digits > 1;
    if (leading && part->json) {
        return ing_refuse(part, "a number that begins with 0");
    }
    part->p = p;
    scalar->tag = ING_INT;
    int fits = p - digits <= 18;
    scalar->bits = !fits ? 0 : negative ? -(int64_t)value : (int64_t)value;
    scalar->text = NULL;
    scalar->size = 0;
    if (fits &&
        (p == part->end || (*p != '.' && *p != 'e' && *p != 'E' && *p != 'N' && *p != 'M'))) {
        return 0;
    }
    return number_tail(part, from, scalar, fits);
}

static int64_t digit_of(uint8_t c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'z' ? (c | 32) - 'a' + 10
                                                : 99;
}

/* `0x1f` and `2r101` of Clojure, up to `end`. */
static int in_radix(const uint8_t *p, const uint8_t *end, struct ing_scalar *scalar)
{
    int negative = *p == '-';
    int64_t radix = 0, value = 0;
    p += negative || *p == '+';
    if (end - p > 2 && *p == '0' && (p[1] | 32) == 'x') {
        radix = 16;
        p += 2;
    } else {
        while (p < end && *p >= '0' && *p <= '9' && radix < 100) {
            radix = radix * 10 + (*p++ - '0');
        }
        if (p == end || (*p++ | 32) != 'r' || p == end || radix < 2 || radix > 36) {
            return -1;
        }
    }
    end -= radix < 24 && end - p > 1 && end[-1] == 'N';
    for (; p < end; p++) {
        int64_t digit = digit_of(*p);
        if (digit >= radix || value > (INT64_MAX - digit) / radix) {
            return -1;
        }
        value = value * radix + digit;
    }
    *scalar = (struct ing_scalar){negative ? -value : value, NULL, 0, ING_INT};
    return 0;
}

/* `1/3` of Clojure, up to `end`. */
static int ratio(const uint8_t *from, const uint8_t *end, struct ing_scalar *scalar)
{
    const uint8_t *slash = memchr(from, '/', (size_t)(end - from));
    int64_t below = 0;
    if (slash == NULL || slash == from || end - slash < 2 || end - slash > 19) {
        return -1;
    }
    for (const uint8_t *p = from + (*from == '-' || *from == '+'); p < end; p++) {
        if (p != slash && (*p < '0' || *p > '9')) {
            return -1;
        }
        below = p > slash ? below * 10 + (*p - '0') : 0;
    }
    *scalar = (struct ing_scalar){0, (const char *)from, end - from, ING_EXACT};
    if (below > 0 && below < WHOLE_MAX && (below & (below - 1)) == 0 && slash - from < 16) {
        double value = strtod((const char *)from, NULL) / (double)below;
        *scalar = (struct ing_scalar){0, NULL, 0, ING_FLOAT};
        memcpy(&scalar->bits, &value, sizeof value);
    }
    return below > 0 ? 0 : -1;
}

int ing_other_number(const uint8_t *from, const uint8_t *end, struct ing_scalar *scalar)
{
    return in_radix(from, end, scalar) == 0 || ratio(from, end, scalar) == 0 ? 0 : -1;
}
