/* Pairs of versions and what is decided of them: clauses, choices, and what follows. */
#include "ord_state.h"

#include <string.h>

/* From so many levels on only the last one is taken back where a circle was met: the choices in
 * between are mostly about other places. */
enum { FAR_BACK = 100 };

enum { SIZE, NEXT, LITERALS = 3 };

static void grow(struct ord *o)
{
    struct ord_pairs *p = &o->pairs;
    size_t cap = p->cap == 0 ? 1024 : 2 * (size_t)p->cap, used = p->used;
    uint32_t **numbers[] = {&p->a, &p->b, &p->level, &p->reason, &p->trail, &p->edge_mark};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        *numbers[i] = txn_grow(o->ctx, *numbers[i], used, cap, sizeof(uint32_t));
    }
    p->level_start = txn_grow(o->ctx, p->level_start, used, cap + 1, sizeof(uint32_t));
    p->value = txn_grow(o->ctx, p->value, used, cap, 1);
    p->seen = txn_grow(o->ctx, p->seen, used, cap, 1);
    p->watch = txn_grow(o->ctx, p->watch, 2 * used, 2 * cap, sizeof(uint32_t));
    o->literals = txn_grow(o->ctx, o->literals, o->n_literals, cap + 4, sizeof(uint32_t));
    txn_free(o->ctx, o->learnt);
    o->learnt = txn_alloc(o->ctx, cap + 4, sizeof(uint32_t));
    if (!ord_failed(o)) {
        memset(p->watch + 2 * used, 0xff, 2 * (cap - used) * sizeof(uint32_t));
        p->cap = (uint32_t)cap;
    }
}

static size_t slot_of(const struct ord_pairs *p, uint64_t key)
{
    uint64_t hash = key * UINT64_C(0x9E3779B97F4A7C15);
    size_t i = (size_t)(hash >> 20) & (p->hash_slots - 1);
    while (p->hash_key[i] != 0 && p->hash_key[i] != key + 1) {
        i = (i + 1) & (p->hash_slots - 1);
    }
    return i;
}

static uint64_t key_of(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}

static void rehash(struct ord *o)
{
    struct ord_pairs *p = &o->pairs;
    p->hash_slots = p->hash_slots == 0 ? 4096 : 2 * p->hash_slots;
    txn_free(o->ctx, p->hash_key);
    txn_free(o->ctx, p->hash_pair);
    p->hash_key = txn_alloc(o->ctx, p->hash_slots, sizeof *p->hash_key);
    p->hash_pair = txn_alloc(o->ctx, p->hash_slots, sizeof *p->hash_pair);
    for (uint32_t i = 0; !ord_failed(o) && i < p->used; i++) {
        uint64_t key = key_of(p->a[i], p->b[i]);
        size_t slot = slot_of(p, key);
        p->hash_key[slot] = key + 1;
        p->hash_pair[slot] = i;
    }
}

uint32_t ord_literal(struct ord *o, uint32_t first, uint32_t then)
{
    struct ord_pairs *p = &o->pairs;
    uint32_t opposite = first > then, a = opposite ? then : first, b = opposite ? first : then;
    if (2 * ((size_t)p->used + 1) > p->hash_slots) {
        rehash(o);
    }
    if (p->used == p->cap) {
        grow(o);
    }
    if (ord_failed(o)) {
        return 0;
    }
    size_t slot = slot_of(p, key_of(a, b));
    if (p->hash_key[slot] == 0) {
        p->hash_key[slot] = key_of(a, b) + 1;
        p->hash_pair[slot] = p->used;
        p->a[p->used] = a;
        p->b[p->used] = b;
        p->value[p->used++] = 0;
    }
    return 2 * p->hash_pair[slot] + opposite;
}

static void hold(struct ord *o, uint32_t literal, uint32_t reason)
{
    struct ord_pairs *p = &o->pairs;
    p->value[literal / 2] = literal & 1 ? -1 : 1;
    p->level[literal / 2] = p->level_now;
    p->reason[literal / 2] = reason;
    p->trail[p->n_trail++] = literal;
    if (o->of->n_open > 0) {
        ord_source_holds(o, literal);
    }
}

void ord_choose(struct ord *o, uint32_t literal)
{
    o->choices++;
    o->pairs.level_start[o->pairs.level_now++] = o->pairs.n_trail;
    hold(o, literal, ORD_NONE);
}

static void take_back(struct ord *o, uint32_t level)
{
    struct ord_pairs *p = &o->pairs;
    if (p->level_now <= level) {
        return;
    }
    uint32_t kept = p->level_start[level];
    while (p->n_trail > kept) {
        uint32_t literal = p->trail[--p->n_trail], pair = literal / 2;
        if (o->of->n_open > 0) {
            ord_source_dropped(o, literal);
        }
        if (p->n_trail < p->to_edges) {
            ord_drop_edges(o, p->edge_mark[p->n_trail]);
        }
        p->value[pair] = 0;
    }
    p->to_clauses = p->to_clauses > kept ? kept : p->to_clauses;
    p->to_edges = p->to_edges > kept ? kept : p->to_edges;
    p->level_now = level;
}

static void watch(struct ord *o, uint32_t clause, uint32_t slot)
{
    uint32_t literal = o->clauses.at[clause + LITERALS + slot];
    o->clauses.at[clause + NEXT + slot] = o->pairs.watch[literal];
    o->pairs.watch[literal] = 2 * clause + slot;
}

/* A clause of these literals; the first two are watched. ORD_NONE with a status where there is no
 * room. */
static uint32_t add_clause(struct ord *o, const uint32_t *literals, uint32_t count)
{
    struct ord_clauses *c = &o->clauses;
    size_t need = c->used + LITERALS + count;
    if (need > c->cap) {
        size_t cap = 2 * need + 4096;
        c->at = txn_grow(o->ctx, c->at, c->used, cap, sizeof *c->at);
        c->cap = cap;
    }
    if (ord_failed(o) || need > UINT32_MAX / 2) {
        o->ctx->status = TXN_MEMORY;
        return ORD_NONE;
    }
    uint32_t clause = (uint32_t)c->used;
    c->at[clause + SIZE] = count;
    memcpy(c->at + clause + LITERALS, literals, count * sizeof *literals);
    c->used = need;
    for (uint32_t slot = 0; slot < 2 && count > 1; slot++) {
        watch(o, clause, slot);
    }
    return clause;
}

void ord_require_one(struct ord *o)
{
    if (!ord_failed(o)) {
        add_clause(o, o->literals, o->n_literals);
    }
}

/* Puts the literal that was decided last, besides the first, into the second place. */
static uint32_t put_latest_second(const struct ord *o, uint32_t *literals, uint32_t count)
{
    uint32_t latest = 1;
    for (uint32_t i = 2; i < count; i++) {
        if (o->pairs.level[literals[i] / 2] > o->pairs.level[literals[latest] / 2]) {
            latest = i;
        }
    }
    uint32_t held = literals[1];
    literals[1] = literals[latest];
    literals[latest] = held;
    return o->pairs.level[literals[1] / 2];
}

/* Resolves the conflict until one literal of the level is left (first unique implication point).
 * `learnt` gets the clause, that literal's opposite first. Its size. */
static uint32_t learn(struct ord *o)
{
    struct ord_pairs *p = &o->pairs;
    const uint32_t *literals = o->literals;
    uint32_t count = o->n_literals, size = 1, open = 0, at = p->n_trail, literal = ORD_NONE;
    for (;;) {
        for (uint32_t i = 0; i < count; i++) {
            uint32_t pair = literals[i] / 2;
            if (literals[i] == literal || p->seen[pair] || p->level[pair] == 0) {
                continue;
            }
            p->seen[pair] = 1;
            if (p->level[pair] == p->level_now) {
                open++;
            } else {
                o->learnt[size++] = literals[i];
            }
        }
        do {
            literal = p->trail[--at];
        } while (!p->seen[literal / 2]);
        p->seen[literal / 2] = 0;
        if (--open == 0) {
            break;
        }
        const uint32_t *clause = o->clauses.at + p->reason[literal / 2];
        literals = clause + LITERALS;
        count = clause[SIZE];
    }
    o->learnt[0] = literal ^ 1;
    for (uint32_t i = 1; i < size; i++) {
        p->seen[o->learnt[i] / 2] = 0;
    }
    return size;
}

/* All of `literals` are false. 0 = that refutes everything. */
static int conflict(struct ord *o, int circle)
{
    struct ord_pairs *p = &o->pairs;
    uint32_t level = 0;
    o->conflicts++;
    for (uint32_t i = 0; i < o->n_literals; i++) {
        uint32_t of = p->level[o->literals[i] / 2];
        level = of > level ? of : level;
    }
    take_back(o, level);
    if (level == 0) {
        return 0;
    }
    uint32_t size = learn(o), back = size == 1 ? 0 : put_latest_second(o, o->learnt, size);
    if (circle && size > 1 && p->level_now - back > FAR_BACK) {
        back = p->level_now - 1;
    }
    take_back(o, back);
    uint32_t clause = add_clause(o, o->learnt, size);
    if (!ord_failed(o)) {
        hold(o, o->learnt[0], size == 1 ? ORD_NONE : clause);
    }
    return 1;
}

/* A circle of edges is there: not all of their literals hold. */
static int circle(struct ord *o)
{
    for (uint32_t i = 0; i < o->n_literals; i++) {
        o->literals[i] ^= 1;
    }
    return conflict(o, 1);
}

int ord_follow(struct ord *o, uint32_t literal)
{
    for (uint32_t i = 0; i < o->n_literals; i++) {
        o->literals[i] ^= 1;
    }
    o->literals[o->n_literals++] = literal;
    uint32_t last = o->n_literals - 1, held = o->literals[0];
    o->literals[0] = literal;
    o->literals[last] = last == 0 ? literal : held;
    if (ord_value(o, literal) < 0) {
        return conflict(o, 0);
    }
    if (o->n_literals > 1) {
        put_latest_second(o, o->literals, o->n_literals);
    }
    uint32_t clause = add_clause(o, o->literals, o->n_literals);
    if (!ord_failed(o)) {
        hold(o, literal, clause);
    }
    return 1;
}

/* `literal` has become false: whoever watches it looks for another one, follows, or conflicts. */
static int visit(struct ord *o, uint32_t literal)
{
    uint32_t at = o->pairs.watch[literal], kept = ORD_NONE;
    int fine = 1;
    o->pairs.watch[literal] = ORD_NONE;
    while (at != ORD_NONE) {
        uint32_t clause = at / 2, slot = at & 1, *c = o->clauses.at + clause;
        uint32_t next = c[NEXT + slot], other = c[LITERALS + (slot ^ 1)];
        uint32_t *mine = &c[LITERALS + slot], free_one = 0;
        for (uint32_t i = 2; fine && ord_value(o, other) <= 0 && i < c[SIZE] && !free_one; i++) {
            if (ord_value(o, c[LITERALS + i]) >= 0) {
                *mine = c[LITERALS + i];
                c[LITERALS + i] = literal;
                watch(o, clause, slot);
                free_one = 1;
            }
        }
        if (!free_one) {
            c[NEXT + slot] = kept;
            kept = at;
            if (fine && ord_value(o, other) < 0) {
                memcpy(o->literals, c + LITERALS, c[SIZE] * sizeof *c);
                o->n_literals = c[SIZE];
                fine = 0;
            } else if (fine && ord_value(o, other) == 0) {
                hold(o, other, clause);
            }
        }
        at = next;
    }
    o->pairs.watch[literal] = kept;
    return fine;
}

/* A literal that is no pair of versions: a candidate comes before its reader, a version before or
 * after a transaction. */
static int make_source_edges(struct ord *o, uint32_t literal)
{
    const struct ord_history *h = o->of;
    uint32_t a = o->pairs.a[literal / 2], b = o->pairs.b[literal / 2];
    if (a == b) {
        uint32_t x = a - ord_candidate_item(h, 0), reader = h->open_reader[h->candidate_of[x]];
        if (literal & 1) {
            return 1;
        }
        ord_look_again(o, reader);
        return ord_add_edge(o, ord_commit(o, h->writer[h->candidate[x]]), ord_begin(o, reader),
                            literal);
    }
    uint32_t reader = ord_begin(o, b - ord_txn_item(h, 0)), writer = ord_commit(o, h->writer[a]);
    return literal & 1 ? ord_add_edge(o, reader, writer, literal)
                       : ord_add_edge(o, writer, reader, literal);
}

/* The edges that a literal stands for: whoever read the first version goes before the second. */
static int make_edges(struct ord *o, uint32_t literal)
{
    const struct ord_history *h = o->of;
    uint32_t pair = literal / 2, swapped = literal & 1;
    uint32_t first = swapped ? o->pairs.b[pair] : o->pairs.a[pair];
    uint32_t then = swapped ? o->pairs.a[pair] : o->pairs.b[pair];
    if (o->pairs.b[pair] >= h->n_writes + h->n_keys) {
        return make_source_edges(o, literal);
    }
    if (then >= h->n_writes) { /* nothing comes before the initial value */
        o->literals[0] = literal;
        o->n_literals = 1;
        return 0;
    }
    uint32_t writer = h->writer[then], readers = 0;
    for (uint32_t i = h->first_reader[first]; i < h->first_reader[first + 1]; i++) {
        uint32_t reader = h->reader[i];
        if (reader == writer) {
            continue;
        }
        readers++;
        if (!ord_add_edge(o, ord_begin(o, reader), ord_commit(o, writer), literal)) {
            return 0;
        }
    }
    if (first >= h->n_writes || (!o->snapshot && readers > 0)) {
        return 1;
    }
    return ord_add_edge(o, ord_commit(o, h->writer[first]), ord_begin(o, writer), literal);
}

int ord_propagate(struct ord *o)
{
    struct ord_pairs *p = &o->pairs;
    while (txn_tick(o->ctx) == TXN_DONE) {
        if (p->to_clauses < p->n_trail) {
            uint32_t literal = p->trail[p->to_clauses++];
            if (!visit(o, literal ^ 1) && !conflict(o, 0)) {
                return 0;
            }
        } else if (p->to_edges < p->n_trail) {
            uint32_t literal = p->trail[p->to_edges];
            p->edge_mark[p->to_edges++] = o->n_edges;
            if (!make_edges(o, literal) && !circle(o)) {
                return 0;
            }
        } else {
            return 1;
        }
    }
    return 1;
}
