/* Real time: what begins and ends when. */
#include "stream_state.h"

#define QUEUE_MIN 1024

/* Records that a late one may pass on its way to its place. */
#define PASSED_MAX 65536

/* A signed time as an unsigned one of the same order. */
static uint64_t biased(int64_t time)
{
    return (uint64_t)time + (UINT64_C(1) << 63);
}

static int refuse(struct stream *s, const struct stream_txn *t, int status, const char *message)
{
    if (s->status == STREAM_GOING) {
        s->error = (struct ing_error){message, t->line, 1};
    }
    stream_spent(s, status);
    return -1;
}

static struct stream_txn **queued(struct stream *s, int64_t i)
{
    return &s->queue[(s->queue_head + i) & (s->queue_cap - 1)];
}

static int widen(struct stream *s)
{
    int64_t cap = s->queue_cap == 0 ? QUEUE_MIN : s->queue_cap * 2;
    struct stream_txn **wide = core_block(&s->budget.memory, (size_t)cap * sizeof *wide);
    if (wide == NULL) {
        stream_spent(s, STREAM_MEMORY);
        return -1;
    }
    for (int64_t i = 0; i < s->queue_n; i++) {
        wide[i] = *queued(s, i);
    }
    if (s->queue_cap > 0) {
        core_block_free(&s->budget.memory, s->queue, (size_t)s->queue_cap * sizeof *wide);
    }
    s->queue = wide;
    s->queue_cap = cap;
    s->queue_head = 0;
    return 0;
}

int stream_enqueue(struct stream *s, struct stream_txn *t)
{
    if (t->begin < s->now) {
        return refuse(s, t, STREAM_DISORDER, "it began before what is executed already");
    }
    if (s->queue_n == s->queue_cap && widen(s) != 0) {
        return -1;
    }
    int64_t at = s->queue_n++;
    for (; at > 0 && (*queued(s, at - 1))->begin > t->begin; at--) {
        if (s->queue_n - at > PASSED_MAX) {
            break;
        }
        *queued(s, at) = *queued(s, at - 1);
    }
    *queued(s, at) = t;
    s->queue_bytes += (int64_t)stream_txn_size(t->n);
    if (at > 0 && (*queued(s, at - 1))->begin > t->begin) {
        refuse(s, t, STREAM_DISORDER, "it began before many that stand in front of it");
    }
    return 0;
}

static int opened(struct stream *s, struct stream_txn *t)
{
    if (ing_room(&s->budget.memory, s->open, 1) != 0) {
        stream_spent(s, STREAM_MEMORY);
        return -1;
    }
    int64_t at = s->open.n++;
    while (at > 0 && s->open.p[(at - 1) / 2]->end > t->end) {
        s->open.p[at] = s->open.p[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->open.p[at] = t;
    return 0;
}

static struct stream_txn *first_over(struct stream *s)
{
    struct stream_txn *first = s->open.p[0], *last = s->open.p[--s->open.n];
    int64_t at = 0, n = s->open.n;
    for (int64_t next; (next = 2 * at + 1) < n; at = next) {
        next += next + 1 < n && s->open.p[next + 1]->end < s->open.p[next]->end;
        if (last->end <= s->open.p[next]->end) {
            break;
        }
        s->open.p[at] = s->open.p[next];
    }
    s->open.p[at] = last;
    return first;
}

/* All that is over before a time, or at all. */
static void complete(struct stream *s, int64_t time, int all)
{
    while (s->open.n > 0 && (all || s->open.p[0]->end < time)) {
        struct stream_txn *t = s->open.p[0];
        if (!t->executed && t->n > 0) {
            stream_end_at(s, STREAM_STUCK, t, t->mops[t->mop].key);
        }
        stream_drop(s, first_over(s));
    }
}

/* Has its process one operation at a time? */
static int alone(struct stream *s, const struct stream_txn *t)
{
    uint64_t *end = stream_map_at(&s->budget.memory, &s->ends, t->process),
             begin = biased(t->begin);
    if (end == NULL) {
        stream_spent(s, STREAM_MEMORY);
        return -1;
    }
    if (*end > begin) {
        return refuse(s, t, STREAM_REFUSED,
                      *end == biased(INT64_MAX)
                          ? "its process went on after an operation of unknown outcome"
                          : "its process had two operations at a time");
    }
    s->report.touching += *end == begin;
    *end = biased(t->end);
    return 0;
}

static void begin(struct stream *s, struct stream_txn *t)
{
    int kept = t->outcome == ING_INFO && t->n > 0;
    s->now = t->begin;
    t->started = 1;
    if (alone(s, t) != 0 || (t->outcome == ING_OK && opened(s, t) != 0)) {
        if (!kept) {
            stream_drop(s, t);
        }
        return;
    }
    if (t->outcome == ING_OK ? s->report.end == STREAM_RUNS : kept && t->demanded) {
        stream_offer(s, t);
    } else if (t->outcome != ING_OK && !kept) {
        stream_drop(s, t);
    }
}

int stream_advance(struct stream *s, int all)
{
    /* what has to stay leaves less for the window */
    int tight = s->budget.memory.used > s->budget.memory.max / 4 * 3;
    int64_t window = tight ? s->window_bytes / 4 : s->window_bytes;
    while (s->status == STREAM_GOING && s->queue_n > 0 && (all || s->queue_bytes > window)) {
        struct stream_txn *t = *queued(s, 0);
        complete(s, t->begin, 0);
        s->queue_head = (s->queue_head + 1) & (s->queue_cap - 1);
        s->queue_n--;
        s->queue_bytes -= (int64_t)stream_txn_size(t->n);
        s->budget.work++;
        begin(s, t);
        enum core_spent spent = core_poll_when_due(&s->budget);
        if (spent != CORE_WITHIN) {
            stream_spent(s, (int)spent);
        }
    }
    if (all && s->status == STREAM_GOING) {
        complete(s, 0, 1);
    }
    return s->status;
}
