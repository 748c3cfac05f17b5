/* One check from columns to report. */
#include "txn_execute.h"
#include "txn_list.h"
#include "txn_local.h"
#include "txn_register.h"

#include <string.h>

static void graph_free(struct txn_ctx *c, struct txn_graph *g)
{
    void *owned[] = {g->from, g->arc, g->off, g->adj, g->next, g->barrier, g->first, g->own};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) {
        txn_free(c, owned[i]);
    }
}

/* The graph of the workload, unless the history is proved without it; all other memory is given back
 * before components are sought. */
static void make_graph(struct txn_ctx *c, struct txn_graph *g)
{
    if (c->options->workload == TXN_RW_REGISTER) {
        txn_register_graph(c, g);
        return;
    }
    struct txn_list list = {.ctx = c};
    if (txn_index_make(c, &list.index) == TXN_DONE && !txn_execute(c, &list.index) &&
        txn_list_orders(&list) == TXN_DONE) {
        txn_list_reads(&list);
    }
    *g = list.graph;
    txn_list_free(&list);
}

int txn_check(const struct txn_input *in, const struct txn_options *options,
              struct txn_report *report)
{
    struct txn_ctx c;
    struct txn_graph g;
    memset(&g, 0, sizeof g);
    txn_begin(&c, in, options, report);
    if (txn_validate(&c) == TXN_DONE) {
        make_graph(&c, &g);
        if (c.status == TXN_DONE && !report->proved && txn_graph_finish(&c, &g) == TXN_DONE) {
            txn_components(&c, &g);
        }
        graph_free(&c, &g);
    }
    int status = c.status;
    txn_end(&c);
    return status;
}

static int validate_csr(struct txn_ctx *c, const struct txn_csr *csr)
{
    if (csr->n_txns > csr->n || csr->n > UINT32_MAX / 8 || csr->off[0] != 0) {
        return txn_refuse(c, "more transactions than nodes, or rows that do not start at 0", 0);
    }
    for (uint32_t v = 0; v < csr->n; v++) {
        if (csr->off[v + 1] < csr->off[v]) {
            return txn_refuse(c, "rows do not rise", v);
        }
    }
    if (csr->off[csr->n] != csr->n_edges) {
        return txn_refuse(c, "rows do not span the edges", csr->n);
    }
    for (uint32_t p = 0; p < csr->n_edges; p++) {
        if (csr->to[p] >= csr->n || csr->label[p] >= TXN_LABELS) {
            return txn_refuse(c, "an edge leads nowhere or has no known label", p);
        }
    }
    return TXN_DONE;
}

int txn_classify(const struct txn_csr *csr, const struct txn_options *options,
                 struct txn_report *report)
{
    struct txn_ctx c;
    txn_begin(&c, NULL, options, report);
    if (validate_csr(&c, csr) == TXN_DONE) {
        txn_classify_part(&c, csr, NULL, 0, TXN_NONE);
    }
    int status = c.status;
    txn_end(&c);
    return status;
}
