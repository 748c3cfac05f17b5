/* The bytes of the program: breakpoints, instructions that need no step, return addresses.
 *
 * What a breakpoint has replaced is written into a file first, so that whoever outlives us can put
 * it back (`patches_restore`).
 */
#define _GNU_SOURCE
#include "aim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct patch {
    uint64_t address;
    int32_t pid;
    uint8_t byte, standing;
};

enum { PATCHES = PROCESSES_MAX * POINTS_MAX + 1 };
static struct notes {
    uint64_t count;
    struct patch rows[PATCHES];
} * notes;
static uint32_t row_of[PROCESSES_MAX][POINTS_MAX]; /* 0: none yet */

static struct notes *opened(const char *path, int flags)
{
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return NULL;
    void *found = MAP_FAILED;
    if (!(flags & O_CREAT) || ftruncate(fd, sizeof *notes) == 0)
        found = mmap(NULL, sizeof *notes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return found == MAP_FAILED ? NULL : found;
}

bool patches_open(const char *path)
{
    notes = opened(path, O_CREAT | O_TRUNC);
    return notes != NULL;
}

/* Where it is noted what a process has there; NULL: there is no more room. */
static struct patch *patch_of(const struct process *p, const struct point *point)
{
    uint32_t *row = &row_of[p - processes][point - aim.table];
    if (!*row && notes->count + 1 < PATCHES)
        *row = (uint32_t)++notes->count;
    return *row ? &notes->rows[*row] : NULL;
}

bool read_memory(const struct process *p, uint64_t address, void *to, size_t bytes)
{
    return pread(p->memory, to, bytes, (off_t)address) == (ssize_t)bytes;
}

bool write_memory(const struct process *p, uint64_t address, const void *from, size_t bytes)
{
    return pwrite(p->memory, from, bytes, (off_t)address) == (ssize_t)bytes;
}

bool arm(struct process *p, struct point *point)
{
    uint64_t at = point->address + p->bias;
    uint8_t there[CODE_BYTES], trap = BREAKPOINT;
    if (!read_memory(p, at, there, sizeof there))
        return false;
    if (there[0] != BREAKPOINT)
        memcpy(point->code, there, sizeof there);
    else if (!point->code[0] && !point->code[1])
        return false; /* somebody else's */
    if (!memcmp(point->code, "\x0f\x05", 2))
        return false; /* syscall: it may not come back while all others wait for it */
    struct patch *patch = patch_of(p, point);
    if (patch == NULL)
        return false;
    *patch = (struct patch){.address = at, .pid = p->pid, .byte = point->code[0], .standing = 1};
    bool done = write_memory(p, at, &trap, 1);
    point->armed |= done; /* one of several processes may have ended meanwhile */
    return done;
}

void disarm(struct process *p, const struct point *point)
{
    struct patch *patch = patch_of(p, point);
    if (patch == NULL || !patch->standing)
        return;
    if (!p->gone)
        write_memory(p, point->address + p->bias, &point->code[0], 1);
    patch->standing = 0;
}

/* What a fork has copied, and is armed no more; of one that is let go, all of it. */
void sweep(const struct process *p, bool all)
{
    for (int i = 0; i < aim.point_count; i++) {
        const struct point *point = &aim.table[i];
        uint64_t at = point->address + p->bias;
        uint8_t there = 0;
        bool stands = false;
        for (int k = 0; k < aim.point_count; k++)
            stands |= aim.table[k].armed && aim.table[k].address == point->address;
        if ((all || !stands) && point->code[0] && read_memory(p, at, &there, 1) &&
            there == BREAKPOINT)
            write_memory(p, at, &point->code[0], 1);
    }
}

/* Put back what a dead one of us has left. The number that could not be. */
int patches_restore(const char *path)
{
    int failed = 0;
    struct notes *left = notes != NULL ? notes : opened(path, 0);
    for (uint64_t i = 1; left != NULL && i <= left->count && i < PATCHES; i++) {
        const struct patch *patch = &left->rows[i];
        char name[64];
        uint8_t there = 0;
        if (!patch->standing)
            continue;
        snprintf(name, sizeof name, "/proc/%d/mem", patch->pid);
        int memory = open(name, O_RDWR | O_CLOEXEC);
        if (memory < 0)
            continue; /* the process is gone, and its memory with it */
        if (pread(memory, &there, 1, (off_t)patch->address) == 1 && there == BREAKPOINT)
            failed += pwrite(memory, &patch->byte, 1, (off_t)patch->address) != 1;
        close(memory);
    }
    return failed;
}

static void subtracted(struct user_regs_struct *r, uint64_t a, uint64_t b)
{
    uint64_t c = a - b, flags = r->eflags & ~0x8D5ULL;
    flags |= a < b ? 0x001 : 0;
    flags |= __builtin_parity((unsigned)(c & 0xFF)) ? 0 : 0x004;
    flags |= (a ^ b ^ c) & 0x010;
    flags |= c == 0 ? 0x040 : 0;
    flags |= c >> 63 ? 0x080 : 0;
    flags |= ((a ^ b) & (a ^ c)) >> 63 ? 0x800 : 0;
    r->eflags = flags;
}

static unsigned long long *numbered(struct user_regs_struct *r, int number)
{
    unsigned long long *all[16] = {
        &r->rax, &r->rcx, &r->rdx, &r->rbx, &r->rsp, &r->rbp, &r->rsi, &r->rdi,
        &r->r8,  &r->r9,  &r->r10, &r->r11, &r->r12, &r->r13, &r->r14, &r->r15,
    };
    return all[number];
}

static bool push(const struct process *p, struct user_regs_struct *r, int number, int bytes)
{
    uint64_t value = *numbered(r, number);
    if (!write_memory(p, r->rsp - 8, &value, 8))
        return false;
    r->rsp -= 8;
    r->rip += (uint64_t)bytes;
    return true;
}

/* Do what functions begin with, without a step, for which all other threads would have to stand.
 * False: nothing was done. */
bool emulate(const struct process *p, const uint8_t *c, struct user_regs_struct *r)
{
    if (!memcmp(c, "\xf3\x0f\x1e\xfa", 4)) { /* endbr64 */
        r->rip += 4;
        return true;
    }
    if (c[0] >= 0x50 && c[0] <= 0x57) /* push */
        return push(p, r, c[0] - 0x50, 1);
    if (c[0] == 0x41 && c[1] >= 0x50 && c[1] <= 0x57)
        return push(p, r, c[1] - 0x50 + 8, 2);
    if (!memcmp(c, "\x49\x3b\x66\x10", 4)) { /* cmp 0x10(%r14), %rsp: Go's check of the stack */
        uint64_t least;
        if (!read_memory(p, r->r14 + 16, &least, 8))
            return false;
        subtracted(r, r->rsp, least);
        r->rip += 4;
        return true;
    }
    if (!memcmp(c, "\x4c\x8d\x64\x24", 4)) { /* lea N(%rsp), %r12: the same, of a large frame */
        r->r12 = r->rsp + (uint64_t)(int64_t)(int8_t)c[4];
        r->rip += 5;
        return true;
    }
    if (!memcmp(c, "\x4c\x8d\xa4\x24", 4)) {
        int32_t far;
        memcpy(&far, c + 4, 4);
        r->r12 = r->rsp + (uint64_t)(int64_t)far;
        r->rip += 8;
        return true;
    }
    if (!memcmp(c, "\x48\x83\xec", 3) || !memcmp(c, "\x48\x81\xec", 3)) { /* sub N, %rsp */
        int32_t far = (int8_t)c[3];
        if (c[1] == 0x81)
            memcpy(&far, c + 3, 4);
        uint64_t before = r->rsp, less = (uint64_t)(int64_t)far;
        subtracted(r, before, less);
        r->rsp = before - less;
        r->rip += c[1] == 0x81 ? 7 : 4;
        return true;
    }
    if ((c[0] == 0x48 || c[0] == 0x49 || c[0] == 0x4c || c[0] == 0x4d) && c[1] == 0x89 &&
        c[2] >= 0xC0) { /* mov between registers */
        int from = (c[2] >> 3 & 7) + (c[0] & 4 ? 8 : 0), to = (c[2] & 7) + (c[0] & 1 ? 8 : 0);
        *numbered(r, to) = *numbered(r, from);
        r->rip += 3;
        return true;
    }
    return false;
}

/* Who has called, by the chain of frame pointers, which Go keeps and C often does. */
void note_frames(const struct process *p, const struct user_regs_struct *r, bool entered)
{
    uint64_t word[2] = {0}, frame = r->rbp;
    int n = 0;
    account.frames[n++] = r->rip - p->bias;
    if (entered && read_memory(p, r->rsp, word, 8))
        account.frames[n++] = word[0] - p->bias;
    while (n < FRAMES_MAX && frame >= r->rsp && read_memory(p, frame, word, 16) && word[1]) {
        account.frames[n++] = word[1] - p->bias;
        if (word[0] <= frame)
            break;
        frame = word[0];
    }
    account.frame_count = n;
}
