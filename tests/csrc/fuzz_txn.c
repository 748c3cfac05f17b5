/* Sanitizer driver of the transaction checker: `fuzz_txn SEED ROUNDS`.
 *
 * Random graphs go to the CSR entry point, where every cycle that comes back is checked edge by
 * edge and the classes against reachability; random columns, mostly well formed, some with one
 * element changed, go to the whole check. Exit 0 = all as expected.
 */
#include "graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TXNS = 40, MOPS = 160, ELEMS = 1200, KEYS = 4, VALUES = 64 };

static uint64_t state;

static int below(int n)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int)(((state * UINT64_C(2685821657736338717)) >> 33) % (uint64_t)n);
}

static void make_graph(struct graph *g)
{
    int from[EDGES], n = 1 + below(NODES), m = below(EDGES);
    memset(g->off, 0, sizeof g->off);
    for (int i = 0; i < m; i++) {
        from[i] = below(n);
        g->off[from[i] + 1]++;
    }
    for (int v = 0; v < n; v++) {
        g->off[v + 1] += g->off[v];
    }
    for (int i = 0; i < m; i++) {
        g->to[i] = (uint32_t)below(n);
        g->label[i] = (uint8_t)below(TXN_LABELS);
    }
    g->csr = (struct txn_csr){g->off,   g->to, g->label, (uint32_t)n, (uint32_t)below(n + 1),
                              g->off[n]};
}

static int fuzz_graph(void)
{
    static struct graph g;
    struct txn_report report;
    struct txn_options options = {.between = below(3),
                                  .time_ns = INT64_MAX,
                                  .memory_bytes = below(8) ? 1 << 26 : below(4000)};
    make_graph(&g);
    int broken = below(10) == 0 && g.off[g.csr.n] > 0;
    if (broken) {
        g.to[below((int)g.off[g.csr.n])] = g.csr.n + (uint32_t)below(100);
    }
    int status = txn_classify(&g.csr, &options, &report);
    int bad = broken && status != TXN_INVALID ? fail("a broken graph was accepted") : 0;
    if (!broken && status != TXN_DONE && status != TXN_MEMORY) {
        bad = fail("a good graph was refused");
    }
    bad = bad || check_cycles(&g, &report);
    txn_report_free(&report);
    return bad;
}

struct columns {
    uint8_t outcome[TXNS], kind[MOPS], known[MOPS];
    int64_t process[TXNS], invoke[TXNS], complete[TXNS], start[TXNS + 1], elem_start[MOPS + 1];
    int32_t key[MOPS], value[MOPS], elem[ELEMS];
    int64_t order[TXNS];
    uint32_t hash[VALUES];
    struct txn_input in;
};

static void make_columns(struct columns *c, int lists)
{
    int n = below(TXNS), m = 0, e = 0, next[KEYS] = {0}, position = 0;
    for (int t = 0; t < n; t++) {
        c->outcome[t] = (uint8_t)(below(4) ? TXN_OK : below(3));
        c->process[t] = below(6) - 1;
        c->invoke[t] = position++;
        c->complete[t] = position + below(8) * 2 + 1000 * (t + 1);
        c->start[t] = m;
        c->order[t] = below(3) ? below(100) : -1;
        for (int j = below(5); j > 0 && m < MOPS; j--, m++) {
            int k = below(KEYS);
            c->kind[m] = (uint8_t)below(2);
            c->key[m] = k;
            c->known[m] = (uint8_t)(c->outcome[t] == TXN_OK ? 1 + (below(9) == 0) : 0);
            c->elem_start[m] = e;
            c->value[m] = TXN_NIL;
            if (c->kind[m] == TXN_WRITE) {
                c->known[m] = 1;
                c->value[m] = next[k] < VALUES - 1 ? next[k]++ : VALUES - 1;
            } else if (!lists && next[k] > 0) {
                c->value[m] = below(next[k] + 1) - 1;
            } else if (lists && next[k] > 0 && e + VALUES < ELEMS) {
                for (int i = below(next[k] + 1); i > 0; i--) {
                    c->elem[e] = below(8) ? e - (int)c->elem_start[m] : below(VALUES);
                    e++;
                }
            }
        }
    }
    c->start[n] = m;
    c->elem_start[m] = e;
    for (int i = 0; i < VALUES; i++) {
        c->hash[i] = (uint32_t)state >> below(8);
    }
    int64_t positions = n == 0 ? 0 : c->complete[n - 1] + 1;
    c->in = (struct txn_input){c->outcome, c->process,
                               c->invoke,  c->complete,
                               c->start,   c->kind,
                               c->key,     c->value,
                               c->known,   c->elem_start,
                               c->elem,    below(2) ? c->order : NULL,
                               n,          m,
                               e,          KEYS,
                               VALUES,     5,
                               positions,  below(2) ? c->hash : NULL};
}

static void spoil(struct columns *c)
{
    int n = (int)c->in.n, m = (int)c->in.m, e = (int)c->in.e, x = below(400) - 200;
    switch (n > 0 && m > 0 && e > 0 ? below(10) : -1) {
    case 0:
        c->outcome[below(n)] = (uint8_t)x;
        break;
    case 1:
        c->process[below(n)] = x;
        break;
    case 2:
        c->invoke[below(n)] = x;
        break;
    case 3:
        c->complete[below(n)] = x;
        break;
    case 4:
        c->start[below(n + 1)] = x;
        break;
    case 5:
        c->kind[below(m)] = (uint8_t)x;
        break;
    case 6:
        c->key[below(m)] = x;
        break;
    case 7:
        c->value[below(m)] = x;
        break;
    case 8:
        c->elem_start[below(m + 1)] = x;
        break;
    case 9:
        c->elem[below(e)] = x;
        break;
    default:
        break;
    }
}

static int fuzz_columns(void)
{
    static struct columns c;
    struct txn_report report;
    int32_t stop = below(50) == 0;
    struct txn_options options = {.workload = below(2),
                                  .between = below(3),
                                  .sources = below(32),
                                  .time_ns = below(30) ? INT64_MAX : 0,
                                  .stop = &stop,
                                  .memory_bytes = below(8) ? 1 << 26 : below(60000)};
    make_columns(&c, options.workload == TXN_LIST_APPEND);
    if (below(2)) {
        spoil(&c);
    }
    int status = txn_check(&c.in, &options, &report);
    int bad = status < TXN_DONE || status > TXN_INVALID ? fail("no known status") : 0;
    if (!bad && (status == TXN_INVALID) != (report.invalid != NULL)) {
        bad = fail("refused without a reason, or the other way round");
    }
    txn_report_free(&report);
    return bad;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        return fail("usage: fuzz_txn SEED ROUNDS");
    }
    state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9E3779B97F4A7C15) + 1;
    int rounds = atoi(argv[2]);
    for (int i = 0; i < rounds; i++) {
        if (fuzz_graph() || fuzz_columns()) {
            fprintf(stderr, "round %d\n", i);
            return 1;
        }
    }
    printf("%d rounds\n", rounds);
    return 0;
}
