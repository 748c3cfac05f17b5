/* Holds, doubles or breaks the packets that a rule puts into a queue. Runs on a node, as root.
 *
 *   netqueue QUEUE STATUS PROBE_PORT NAME=VALUE...
 *
 *   delay_us, jitter_us    each packet waits so long, at most jitter more or less; each sender's
 *                          packets keep their order
 *   hold_ppm, hold_us      this share waits hold_us, the others overtake it
 *   twice_ppm              this share comes twice: the copy by a raw socket, over the loopback
 *                          interface, which the rule must leave alone
 *   corrupt_ppm            this share has one bit flipped behind the IP header
 *   seed                   of the random numbers
 *
 * STATUS is renewed ten times a second, by renaming: the first line is `pid=N queue=N held_now=N`,
 * then a line `ADDRESS name=value...` per sender. Datagrams from or to PROBE_PORT fare like all
 * others and are counted by `probes` alone. On SIGTERM all that is held passes.
 *
 * Speaks the netlink protocol of linux/netfilter/nfnetlink_queue.h. A queue that overflows lets
 * packets pass as they are, and so does a rule with --queue-bypass when this process is gone.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_queue.h>
#include <linux/netlink.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define SENDERS_MAX 64
#define PACKET_MAX 65536
#define QUEUE_MAX 65536
#define STATUS_NS 100000000LL
#define BATCH 64

struct setting {
    const char *name;
    uint64_t value;
};
enum { DELAY_US, JITTER_US, HOLD_PPM, HOLD_US, DUPLICATE_PPM, CORRUPT_PPM, SEED, SETTINGS };
static struct setting settings[SETTINGS] = {
    {"delay_us", 0},  {"jitter_us", 0},   {"hold_ppm", 0}, {"hold_us", 0},
    {"twice_ppm", 0}, {"corrupt_ppm", 0}, {"seed", 1},
};

struct sender {
    uint8_t version, address[16];
    int64_t last_due_ns;
    uint64_t arrived, newest_released;
    uint64_t seen, delayed, waited_us, held, overtaken, duplicated, corrupted, probes;
};

struct packet {
    int64_t due_ns, came_ns;
    uint64_t order, arrival;
    uint32_t id, size; /* size: bytes of `copy`, 0 for none */
    int sender;
    uint8_t probe, duplicate, corrupt;
    uint8_t *copy;
};

static struct sender senders[SENDERS_MAX];
static int sender_count;
static struct packet *heap;
static size_t heap_count, heap_room;
static uint64_t orders, rng_state;
static int netlink_fd, raw4, raw6;
static uint16_t queue_number, probe_port;
static volatile sig_atomic_t ending;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* splitmix64 */
static uint64_t next_random(void)
{
    uint64_t z = (rng_state += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

static int happens(int which)
{
    return settings[which].value != 0 && next_random() % 1000000 < settings[which].value;
}

static void fail(const char *what)
{
    fprintf(stderr, "netqueue: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- the queue's netlink ---- */

struct request {
    struct nlmsghdr head;
    struct nfgenmsg gen;
    uint8_t body[128];
};

static void begin(struct request *r, int kind, int flags)
{
    memset(r, 0, sizeof *r);
    r->head.nlmsg_len = NLMSG_LENGTH(sizeof r->gen);
    r->head.nlmsg_type = (uint16_t)(NFNL_SUBSYS_QUEUE << 8 | kind);
    r->head.nlmsg_flags = (uint16_t)flags;
    r->gen.version = NFNETLINK_V0;
    r->gen.res_id = htons(queue_number);
}

static void add(struct request *r, int kind, const void *data, size_t size)
{
    struct nlattr *a = (struct nlattr *)((char *)r + NLMSG_ALIGN(r->head.nlmsg_len));
    a->nla_type = (uint16_t)kind;
    a->nla_len = (uint16_t)(NLA_HDRLEN + size);
    memcpy((char *)a + NLA_HDRLEN, data, size);
    r->head.nlmsg_len = NLMSG_ALIGN(r->head.nlmsg_len) + (uint32_t)NLA_ALIGN(a->nla_len);
}

static void configure(int kind, const void *data, size_t size, const char *what)
{
    struct request r;
    char answer[4096];
    begin(&r, NFQNL_MSG_CONFIG, NLM_F_REQUEST | NLM_F_ACK);
    add(&r, kind, data, size);
    if (send(netlink_fd, &r, r.head.nlmsg_len, 0) < 0)
        fail(what);
    for (;;) {
        ssize_t n = recv(netlink_fd, answer, sizeof answer, 0);
        struct nlmsghdr *h = (struct nlmsghdr *)answer;
        if (n < (ssize_t)sizeof *h)
            fail(what);
        if (h->nlmsg_type == NLMSG_ERROR) {
            int error = ((struct nlmsgerr *)NLMSG_DATA(h))->error;
            if (error == 0)
                return;
            errno = -error;
            fail(what);
        }
        /* A packet may come before the answer to a later setting: it goes on as it is. */
    }
}

static void bind_queue(void)
{
    struct sockaddr_nl me = {.nl_family = AF_NETLINK};
    struct nfqnl_msg_config_cmd bind_it = {.command = NFQNL_CFG_CMD_BIND};
    struct nfqnl_msg_config_params mode = {.copy_mode = NFQNL_COPY_PACKET};
    uint32_t room = htonl(QUEUE_MAX), open_flag = htonl(NFQA_CFG_F_FAIL_OPEN);
    int bytes = 16 << 20, one = 1;
    int whole = settings[DUPLICATE_PPM].value || settings[CORRUPT_PPM].value;

    netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    if (netlink_fd < 0 || bind(netlink_fd, (struct sockaddr *)&me, sizeof me) < 0)
        fail("netlink");
    if (setsockopt(netlink_fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes) < 0)
        setsockopt(netlink_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
    setsockopt(netlink_fd, SOL_NETLINK, NETLINK_NO_ENOBUFS, &one, sizeof one);
    configure(NFQA_CFG_CMD, &bind_it, sizeof bind_it, "binding the queue");
    configure(NFQA_CFG_QUEUE_MAXLEN, &room, sizeof room, "the queue's length");
    struct request r;
    uint32_t mask = open_flag;
    begin(&r, NFQNL_MSG_CONFIG, NLM_F_REQUEST);
    add(&r, NFQA_CFG_MASK, &mask, sizeof mask);
    add(&r, NFQA_CFG_FLAGS, &open_flag, sizeof open_flag);
    if (send(netlink_fd, &r, r.head.nlmsg_len, 0) < 0)
        fail("the queue's flags");
    /* Last, for packets come from now on. Headers suffice where nothing is sent or changed. */
    mode.copy_range = htonl(whole ? PACKET_MAX - 1 : 128);
    configure(NFQA_CFG_PARAMS, &mode, sizeof mode, "the queue's copies");
}

static void accept_packet(uint32_t id, const uint8_t *data, uint32_t size)
{
    static uint8_t buffer[PACKET_MAX + 256];
    struct nfqnl_msg_verdict_hdr verdict = {.verdict = htonl(NF_ACCEPT), .id = htonl(id)};
    struct request r;
    begin(&r, NFQNL_MSG_VERDICT, NLM_F_REQUEST);
    add(&r, NFQA_VERDICT_HDR, &verdict, sizeof verdict);
    size_t length = r.head.nlmsg_len;
    if (data == NULL) {
        if (send(netlink_fd, &r, length, 0) < 0)
            fail("a verdict");
        return;
    }
    struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + size), .nla_type = NFQA_PAYLOAD};
    r.head.nlmsg_len = (uint32_t)(length + NLA_ALIGN(NLA_HDRLEN + size));
    memset(buffer, 0, r.head.nlmsg_len);
    memcpy(buffer, &r, length);
    memcpy(buffer + length, &a, sizeof a);
    memcpy(buffer + length + NLA_HDRLEN, data, size);
    if (send(netlink_fd, buffer, r.head.nlmsg_len, 0) < 0)
        fail("a verdict with a packet");
}

/* ---- packets that wait ---- */

static int before(const struct packet *a, const struct packet *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->order < b->order;
}

static void push(struct packet p)
{
    if (heap_count == heap_room) {
        heap_room = heap_room ? 2 * heap_room : 1024;
        heap = realloc(heap, heap_room * sizeof *heap);
        if (heap == NULL)
            fail("memory");
    }
    size_t at = heap_count++;
    while (at && before(&p, &heap[(at - 1) / 2])) {
        heap[at] = heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap[at] = p;
}

static struct packet pop(void)
{
    struct packet top = heap[0], last = heap[--heap_count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap_count)
            break;
        if (child + 1 < heap_count && before(&heap[child + 1], &heap[child]))
            child++;
        if (!before(&heap[child], &last))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = last;
    return top;
}

static int sender_of(int version, const uint8_t *address, size_t size)
{
    for (int i = 0; i < sender_count; i++)
        if (senders[i].version == version && !memcmp(senders[i].address, address, size))
            return i;
    if (sender_count == SENDERS_MAX)
        return -1;
    senders[sender_count].version = (uint8_t)version;
    memcpy(senders[sender_count].address, address, size);
    return sender_count++;
}

/* Offset of the transport header, 0 if not IP. */
static uint32_t parse(const uint8_t *data, uint32_t size, int *sender, uint8_t *probe)
{
    uint32_t at;
    uint8_t protocol;
    *probe = 0;
    *sender = -1;
    if (size >= 20 && data[0] >> 4 == 4) {
        at = (uint32_t)(data[0] & 15) * 4;
        protocol = data[9];
        *sender = sender_of(4, data + 12, 4);
    } else if (size >= 40 && data[0] >> 4 == 6) {
        at = 40;
        protocol = data[6];
        *sender = sender_of(6, data + 8, 16);
    } else {
        return 0;
    }
    if (protocol == IPPROTO_UDP && size >= at + 4) {
        uint16_t from = (uint16_t)(data[at] << 8 | data[at + 1]);
        uint16_t to = (uint16_t)(data[at + 2] << 8 | data[at + 3]);
        *probe = from == probe_port || to == probe_port;
    }
    return at;
}

static void enqueue(uint32_t id, const uint8_t *data, uint32_t size)
{
    struct packet p = {.id = id, .order = orders++, .came_ns = now_ns()};
    uint32_t transport = parse(data, size, &p.sender, &p.probe);
    if (p.sender < 0) {
        accept_packet(id, NULL, 0);
        return;
    }
    struct sender *s = &senders[p.sender];
    p.arrival = ++s->arrived;
    if (p.probe)
        s->probes++;
    else
        s->seen++;
    int64_t wait_us = (int64_t)settings[DELAY_US].value;
    if (settings[JITTER_US].value)
        wait_us += (int64_t)(next_random() % (2 * settings[JITTER_US].value + 1)) -
                   (int64_t)settings[JITTER_US].value;
    p.due_ns = p.came_ns + (wait_us > 0 ? wait_us : 0) * 1000;
    if (p.due_ns < s->last_due_ns)
        p.due_ns = s->last_due_ns;
    s->last_due_ns = p.due_ns;
    if (happens(HOLD_PPM)) {
        p.due_ns += (int64_t)settings[HOLD_US].value * 1000;
        s->held += !p.probe;
    }
    p.duplicate = (uint8_t)happens(DUPLICATE_PPM);
    p.corrupt = transport < size && happens(CORRUPT_PPM);
    if (p.duplicate || p.corrupt) {
        p.copy = malloc(size);
        if (p.copy == NULL)
            fail("memory");
        memcpy(p.copy, data, size);
        p.size = size;
    }
    if (p.corrupt)
        p.copy[transport + next_random() % (size - transport)] ^= (uint8_t)(1 << next_random() % 8);
    push(p);
}

static int send_again(const struct packet *p)
{
    if (p->copy[0] >> 4 == 4) {
        struct sockaddr_in to = {.sin_family = AF_INET};
        memcpy(&to.sin_addr, p->copy + 16, 4);
        return sendto(raw4, p->copy, p->size, 0, (struct sockaddr *)&to, sizeof to) >= 0;
    }
    struct sockaddr_in6 to = {.sin6_family = AF_INET6};
    memcpy(&to.sin6_addr, p->copy + 24, 16);
    return sendto(raw6, p->copy, p->size, 0, (struct sockaddr *)&to, sizeof to) >= 0;
}

static void release(int64_t until_ns)
{
    while (heap_count && heap[0].due_ns <= until_ns) {
        struct packet p = pop();
        struct sender *s = &senders[p.sender];
        int64_t waited_us = (now_ns() - p.came_ns) / 1000;
        accept_packet(p.id, p.corrupt ? p.copy : NULL, p.size);
        int overtaken = p.arrival < s->newest_released;
        if (!overtaken)
            s->newest_released = p.arrival;
        int again = p.duplicate && send_again(&p);
        if (!p.probe) {
            s->overtaken += overtaken;
            s->duplicated += again;
            s->corrupted += p.corrupt;
            if (settings[DELAY_US].value) {
                s->delayed++;
                s->waited_us += (uint64_t)waited_us;
            }
        }
        free(p.copy);
    }
}

/* ---- the loop ---- */

static void receive(void)
{
    static uint8_t data[PACKET_MAX + 4096];
    for (int n = 0; n < BATCH; n++) {
        ssize_t got = recv(netlink_fd, data, sizeof data, MSG_DONTWAIT);
        if (got <= 0)
            return;
        struct nlmsghdr *h = (struct nlmsghdr *)data;
        /* Signed: the last message of a datagram need not be padded. */
        int left = (int)got;
        for (; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
            if (h->nlmsg_type != (NFNL_SUBSYS_QUEUE << 8 | NFQNL_MSG_PACKET))
                continue;
            uint8_t *at = (uint8_t *)NLMSG_DATA(h) + NLMSG_ALIGN(sizeof(struct nfgenmsg));
            uint8_t *end = (uint8_t *)h + h->nlmsg_len, *payload = NULL;
            uint32_t id = 0, size = 0;
            int known = 0;
            while (at + NLA_HDRLEN <= end) {
                struct nlattr *a = (struct nlattr *)at;
                if (a->nla_len < NLA_HDRLEN || at + a->nla_len > end)
                    break;
                int kind = a->nla_type & NLA_TYPE_MASK;
                if (kind == NFQA_PACKET_HDR) {
                    id = ntohl(((struct nfqnl_msg_packet_hdr *)(at + NLA_HDRLEN))->packet_id);
                    known = 1;
                } else if (kind == NFQA_PAYLOAD) {
                    payload = at + NLA_HDRLEN;
                    size = (uint32_t)a->nla_len - NLA_HDRLEN;
                }
                at += NLA_ALIGN(a->nla_len);
            }
            if (known)
                enqueue(id, payload, size);
        }
    }
}

static void write_status(const char *path)
{
    char fresh[4096], address[INET6_ADDRSTRLEN];
    snprintf(fresh, sizeof fresh, "%s.new", path);
    FILE *f = fopen(fresh, "w");
    if (f == NULL)
        fail(fresh);
    fprintf(f, "pid=%d queue=%d held_now=%zu\n", getpid(), queue_number, heap_count);
    for (int i = 0; i < sender_count; i++) {
        struct sender *s = &senders[i];
        inet_ntop(s->version == 4 ? AF_INET : AF_INET6, s->address, address, sizeof address);
        fprintf(f,
                "%s seen=%llu delayed=%llu waited_us=%llu held=%llu overtaken=%llu twice=%llu "
                "corrupted=%llu probes=%llu\n",
                address, (unsigned long long)s->seen, (unsigned long long)s->delayed,
                (unsigned long long)s->waited_us, (unsigned long long)s->held,
                (unsigned long long)s->overtaken, (unsigned long long)s->duplicated,
                (unsigned long long)s->corrupted, (unsigned long long)s->probes);
    }
    if (fclose(f) != 0 || rename(fresh, path) != 0)
        fail(path);
}

static void end_soon(int number)
{
    (void)number;
    ending = 1;
}

static void read_settings(int count, char **words)
{
    for (int i = 0; i < count; i++) {
        int known = 0;
        for (int k = 0; k < SETTINGS; k++) {
            size_t length = strlen(settings[k].name);
            if (!strncmp(words[i], settings[k].name, length) && words[i][length] == '=') {
                settings[k].value = strtoull(words[i] + length + 1, NULL, 10);
                known = 1;
            }
        }
        if (!known) {
            fprintf(stderr, "netqueue: no setting %s\n", words[i]);
            exit(2);
        }
    }
    rng_state = settings[SEED].value;
}

int main(int count, char **words)
{
    if (count < 4) {
        fprintf(stderr, "usage: netqueue QUEUE STATUS PROBE_PORT NAME=VALUE...\n");
        return 2;
    }
    queue_number = (uint16_t)atoi(words[1]);
    probe_port = (uint16_t)atoi(words[3]);
    read_settings(count - 4, words + 4);
    raw4 = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    raw6 = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW);
    if (raw4 < 0)
        fail("a raw socket");

    sigset_t blocked, open_set;
    struct sigaction action = {.sa_handler = end_soon};
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, &open_set);
    sigdelset(&open_set, SIGTERM);
    sigaction(SIGTERM, &action, NULL);
    /* On a busy machine a late verdict would be a delay that nobody asked for. */
    setpriority(PRIO_PROCESS, 0, -15);

    bind_queue();
    int64_t written_ns = 0;
    while (!ending) {
        int64_t now = now_ns(), wait_ns = written_ns + STATUS_NS - now;
        if (heap_count && heap[0].due_ns - now < wait_ns)
            wait_ns = heap[0].due_ns - now;
        if (wait_ns < 0)
            wait_ns = 0;
        struct timespec wait = {wait_ns / 1000000000, wait_ns % 1000000000};
        struct pollfd source = {.fd = netlink_fd, .events = POLLIN};
        if (ppoll(&source, 1, &wait, &open_set) > 0)
            receive();
        now = now_ns();
        release(now);
        if (now - written_ns >= STATUS_NS) {
            write_status(words[2]);
            written_ns = now;
        }
    }
    release(INT64_MAX);
    write_status(words[2]);
    return 0;
}
