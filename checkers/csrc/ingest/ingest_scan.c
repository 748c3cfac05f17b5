/* White space, lists, scalars, and values that nobody asked for. */
#include "ingest_part.h"

#include <stdlib.h>
#include <string.h>

/* Discarded forms within discarded forms; with the depth of lists it bounds the stack. */
#define DISCARDS_MAX 8

static int discard(struct ing_part *part)
{
    if (part->discards == DISCARDS_MAX) {
        return ing_refuse(part, "nested too deeply");
    }
    part->p += 2;
    part->discards++;
    int status = ing_skip_value(part, 1);
    part->discards--;
    return status;
}

int ing_space(struct ing_part *part)
{
    if (part->p<part->end && * part->p> ',' && *part->p != ';') {
        return 0;
    }
    for (;;) {
        const uint8_t *p = part->p;
        while (p < part->end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t' ||
                                 (!part->json && (*p == ',' || *p == '\f')))) {
            p++;
        }
        part->p = p;
        if (part->json || p == part->end) {
            return 0;
        }
        if (*p == ';') {
            const uint8_t *line = memchr(p, '\n', (size_t)(part->end - p));
            part->p = line == NULL ? part->end : line;
        } else if (*p == '#' && part->end - p > 1 && p[1] == '_') {
            if (discard(part) != 0) {
                return -1;
            }
        } else {
            return 0;
        }
    }
}

int ing_more(struct ing_part *part, uint8_t close, int first)
{
    if (ing_space(part) != 0) {
        return -1;
    }
    if (part->p == part->end) {
        return ing_refuse(part, "the text ends within a list or map");
    }
    if (*part->p == close) {
        part->p++;
        return 0;
    }
    if (part->json && !first) {
        if (*part->p != ',') {
            return ing_refuse(part, close == ']' ? "need , or ]" : "need , or }");
        }
        part->p++;
        if (ing_space(part) != 0) {
            return -1;
        }
        if (part->p == part->end || *part->p == close) {
            return ing_refuse(part, "need a value after the comma");
        }
    }
    return 1;
}

int ing_colon(struct ing_part *part)
{
    if (!part->json) {
        return ing_space(part);
    }
    if (ing_space(part) != 0) {
        return -1;
    }
    if (part->p == part->end || *part->p != ':') {
        return ing_refuse(part, "need : after the key");
    }
    part->p++;
    return ing_space(part);
}

static uint8_t closer(uint8_t open)
{
    return open == '[' ? ']' : open == '(' ? ')' : open == '{' ? '}' : 0;
}

int ing_open(struct ing_part *part)
{
    if (part->p == part->end) {
        return 0;
    }
    uint8_t c = *part->p;
    if (c == '[' || (c == '(' && !part->json)) {
        part->p++;
        return closer(c);
    }
    return 0;
}

/* Does a token of EDN end before this byte? */
static inline int delimits(uint8_t c)
{
    static const uint8_t marks[256] = {
        [','] = 1, [';'] = 1, ['"'] = 1, ['('] = 1, [')'] = 1,
        ['['] = 1, [']'] = 1, ['{'] = 1, ['}'] = 1, ['\\'] = 1,
    };
    return c <= ' ' || marks[c];
}

static int word(struct ing_part *part, const uint8_t *from, struct ing_scalar *scalar)
{
    int64_t size = part->p - from;
    scalar->text = NULL;
    scalar->size = 0;
    scalar->bits = 0;
    if ((size == 3 && !part->json && memcmp(from, "nil", 3) == 0) ||
        (size == 4 && part->json && memcmp(from, "null", 4) == 0)) {
        scalar->tag = ING_NULL_SCALAR;
    } else if (size == 4 && memcmp(from, "true", 4) == 0) {
        scalar->tag = ING_BOOL;
        scalar->bits = 1;
    } else if (size == 5 && memcmp(from, "false", 5) == 0) {
        scalar->tag = ING_BOOL;
    } else {
        part->p = from;
        return ing_refuse(part, part->json ? "not JSON: no such word"
                                           : "a symbol is neither key nor value of a history");
    }
    return 0;
}

/* An EDN keyword, character or bare word under the cursor. */
static int edn_atom(struct ing_part *part, struct ing_scalar *scalar)
{
    const uint8_t *from = part->p;
    uint8_t c = *from;
    part->p++;
    if (c == '\\' && part->p < part->end) {
        part->p++;
    }
    while (part->p < part->end && !delimits(*part->p)) {
        part->p++;
    }
    if (c != ':' && c != '\\') {
        return word(part, from, scalar);
    }
    scalar->text = (const char *)from + 1;
    scalar->size = part->p - from - 1;
    scalar->bits = 0;
    scalar->tag = c == ':' ? ING_KEYWORD : ING_CHAR;
    if (scalar->size == 0 || (c == ':' && from[1] == ':')) {
        part->p = from;
        return ing_refuse(part, c == ':' ? "not a keyword" : "not a character");
    }
    return 0;
}

int ing_scalar(struct ing_part *part, struct ing_scalar *scalar)
{
    if (part->p == part->end) {
        return ing_refuse(part, "the text ends where a value should be");
    }
    const uint8_t *from = part->p;
    uint8_t c = *from;
    if (c >= '0' && c <= '9') {
        goto number;
    }
    if (c == '"') {
        return ing_string(part, scalar);
    }
    if (c == '-' || (c == '+' && !part->json)) {
        goto number;
    }
    if (part->json) {
        while (part->p < part->end && *part->p >= 'a' && *part->p <= 'z') {
            part->p++;
        }
        return word(part, from, scalar);
    }
    if (c == '#' || c == '[' || c == '(' || c == '{' || delimits(c)) {
        if (c != '\\') {
            return ing_refuse(part, "need a scalar: a number, string, keyword, true, false or nil");
        }
    }
    return edn_atom(part, scalar);
number:
    if (ing_number(part, scalar) != 0) {
        return -1;
    }
    if (part->json || part->p == part->end || delimits(*part->p)) {
        return 0;
    }
    while (part->p < part->end && !delimits(*part->p)) {
        part->p++;
    }
    if (ing_other_number(from, part->p, scalar) == 0) {
        return 0;
    }
    part->p = from;
    return ing_refuse(part, "neither a number nor a symbol");
}

static int put(struct ing_part *part, char c)
{
    if (ing_room(&part->memory, part->scratch, 1) != 0) {
        return ing_refuse(part, ing_spent);
    }
    part->scratch.p[part->scratch.n++] = c;
    return 0;
}

/* The text of a list, written in one way: elements in brackets, a space between two of them. */
static int list_text(struct ing_part *part, const uint8_t *from, const uint8_t *end)
{
    int in_string = 0, space = 0;
    part->scratch.n = 0;
    for (const uint8_t *p = from; p < end; p++) {
        uint8_t c = *p;
        if (!in_string && (c <= ' ' || c == ',')) {
            space = 1;
            continue;
        }
        if (!in_string && (c == '{' || c == '#' || c == ';' || c == '^')) {
            return ing_refuse(part, "a key that is a list holds scalars, or lists of them");
        }
        c = in_string ? c : c == '(' ? '[' : c == ')' ? ']' : c;
        int64_t n = part->scratch.n;
        int apart = c != ']' || in_string;
        if (space && apart && n > 0 && part->scratch.p[n - 1] != '[' && put(part, ' ') != 0) {
            return -1;
        }
        space = 0;
        if (put(part, (char)c) != 0 || (c == '\\' && p + 1 < end && put(part, (char)*++p) != 0)) {
            return -1;
        }
        in_string = c == '"' ? !in_string : in_string;
    }
    return 0;
}

int ing_key(struct ing_part *part, struct ing_scalar *scalar)
{
    const uint8_t *from = part->p;
    if (ing_open(part) == 0) {
        return ing_scalar(part, scalar);
    }
    part->p = from;
    if (ing_skip_value(part, 1) != 0 || list_text(part, from, part->p) != 0) {
        return -1;
    }
    *scalar = (struct ing_scalar){0, part->scratch.p, part->scratch.n, ING_PLAIN};
    return 0;
}

static int skip_list(struct ing_part *part, uint8_t close, int is_map, int depth)
{
    int more, first = 1;
    while ((more = ing_more(part, close, first)) == 1) {
        first = 0;
        if (part->json && is_map) {
            struct ing_scalar key;
            if (*part->p != '"') {
                return ing_refuse(part, "need a string as key");
            }
            if (ing_string(part, &key) != 0 || ing_colon(part) != 0) {
                return -1;
            }
        }
        if (ing_skip_value(part, depth) != 0) {
            return -1;
        }
        if (!part->json && is_map) {
            if (ing_space(part) != 0) {
                return -1;
            }
            if (part->p < part->end && *part->p == close) {
                return ing_refuse(part, "a map needs a value for each key");
            }
            if (ing_skip_value(part, depth) != 0) {
                return -1;
            }
        }
    }
    return more;
}

static int skip_symbol(struct ing_part *part)
{
    while (part->p < part->end && !delimits(*part->p)) {
        part->p++;
    }
    return 0;
}

/* A pattern, `#"\d"`, from its quote: its backslashes escape nothing but the next byte. */
static int skip_pattern(struct ing_part *part)
{
    for (part->p++; part->p < part->end; part->p++) {
        if (*part->p == '"') {
            part->p++;
            return 0;
        }
        part->p += *part->p == '\\' && part->end - part->p > 1;
    }
    return ing_refuse(part, "the text ends within a string");
}

/* What Clojure prints and cannot read again, `#<..>`, from behind its mark. */
static int skip_unreadable(struct ing_part *part)
{
    for (int open = 1; open > 0; part->p++) {
        if (part->p == part->end) {
            return ing_refuse(part, "the text ends within #<..>");
        }
        open += *part->p == '<' ? 1 : *part->p == '>' && part->p[-1] != '-' ? -1 : 0;
    }
    return 0;
}

/* A form that begins with #, or with a mark of Clojure's code. */
static int skip_marked(struct ing_part *part, int depth)
{
    uint8_t next = *part->p != '#' || part->end - part->p < 2 ? 0 : part->p[1];
    part->p += next == 0 ? 1 : 2;
    switch (next) {
    case '{':
        return skip_list(part, '}', 0, depth + 1);
    case '#':
        return skip_symbol(part);
    case '<':
        return skip_unreadable(part);
    case '"':
        part->p--;
        return skip_pattern(part);
    case '(':
        return skip_list(part, ')', 0, depth + 1);
    case '^':
        if (ing_skip_value(part, depth + 1) != 0) {
            return -1;
        }
        break;
    case 0:
        if (part->p[-1] == '^' && ing_skip_value(part, depth + 1) != 0) {
            return -1;
        }
        part->p += part->p[-1] == '~' && part->p < part->end && *part->p == '@';
        break;
    case '\'':
    case '=':
    case '?':
        break;
    default:
        if (next != ':' && ((next | 0x20) < 'a' || (next | 0x20) > 'z')) {
            part->p -= 2;
            return ing_refuse(part, "not a tag");
        }
        part->skipped[ING_TAGGED]++;
        skip_symbol(part);
    }
    return ing_skip_value(part, depth + 1);
}

/* Steps over one value of any kind; EDN's tags go with what they tag, and are counted. */
int ing_skip_value(struct ing_part *part, int depth)
{
    struct ing_scalar scalar;
    if (depth > ING_DEPTH_MAX) {
        return ing_refuse(part, "nested too deeply");
    }
    if (ing_space(part) != 0) {
        return -1;
    }
    if (part->p == part->end) {
        return ing_refuse(part, "the text ends where a value should be");
    }
    uint8_t c = *part->p;
    if (c == '[' || c == '{' || (c == '(' && !part->json)) {
        part->p++;
        return skip_list(part, closer(c), c == '{', depth + 1);
    }
    if (part->json) {
        return ing_scalar(part, &scalar);
    }
    if (c == '#' || c == '@' || c == '\'' || c == '`' || c == '~' || c == '^') {
        return skip_marked(part, depth);
    }
    return delimits(c) ? ing_scalar(part, &scalar) : skip_symbol(part);
}
