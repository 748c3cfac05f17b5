/* The chain of what has to be reached, one step after the other, and what is done at its end. */
#define _GNU_SOURCE
#include "aim.h"

#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <unistd.h>

struct aim aim;
struct account account;

void arm_step(int step)
{
    struct step *s = &aim.steps[step];
    for (int i = 0; s->kind != SYSCALL && i < s->points; i++)
        for (int k = 0; k < process_count; k++)
            if (!processes[k].gone)
                arm(&processes[k], &aim.table[s->first + i]);
}

void disarm_everything(void)
{
    for (int i = 0; i < aim.point_count; i++) {
        for (int k = 0; k < process_count; k++)
            disarm(&processes[k], &aim.table[i]);
        aim.table[i].armed = false;
    }
}

static void disarm_step(int step)
{
    for (int i = 0; i < aim.point_count; i++)
        if (aim.table[i].step == step) {
            for (int k = 0; k < process_count; k++)
                disarm(&processes[k], &aim.table[i]);
            aim.table[i].armed = false;
        }
}

static uint64_t returns; /* so many have been waited for */

/* It is not waited for any more; another call that goes back there may be. */
static void drop(struct point *mine)
{
    bool shared = false;
    mine->armed = false;
    for (int i = 0; i < aim.point_count; i++)
        shared |= aim.table[i].armed && aim.table[i].address == mine->address;
    for (int k = 0; !shared && k < process_count; k++)
        disarm(&processes[k], mine);
}

/* A breakpoint where the function that was just entered goes back to. */
static void await_return(struct process *p, const struct user_regs_struct *r, int step, bool closes)
{
    uint64_t back;
    if (!read_memory(p, r->rsp, &back, 8))
        return;
    back -= p->bias;
    uint64_t frame = aim.go ? r->r14 : r->rsp + 8;
    struct point *same = NULL, *idle = NULL;
    for (int i = 0; i < aim.point_count; i++) {
        struct point *one = &aim.table[i];
        if (!one->is_return)
            continue;
        if (one->address == back && one->armed && one->frame == frame)
            return;
        if (one->address == back)
            same = one; /* it knows the bytes that belong there */
        if (!one->armed && (idle == NULL || one->address == back))
            idle = one;
    }
    bool room = aim.point_count < POINTS_MAX;
    if (room && (idle == NULL || idle->address != back))
        idle = &aim.table[aim.point_count++];
    if (idle == NULL) { /* the oldest of them has been left by another way, such as longjmp */
        for (int i = 0; i < aim.point_count; i++)
            if (aim.table[i].is_return && (idle == NULL || aim.table[i].order < idle->order))
                idle = &aim.table[i];
        if (idle == NULL)
            return;
        drop(idle);
    }
    struct point next = {.address = back, .frame = frame, .is_return = true, .closes = closes};
    next.step = step;
    next.order = ++returns;
    if (same != NULL)
        memcpy(next.code, same->code, CODE_BYTES);
    *idle = next;
    arm(p, idle);
}

static void kill_all_here(void)
{
    for (int k = 0; k < process_count; k++)
        if (!processes[k].gone)
            kill(processes[k].pid, SIGKILL);
}

/* The last step was reached as often as it has to be. */
static void act(struct thread *t, const struct user_regs_struct *r, const struct point *point)
{
    if (aim.times && aim.fired >= aim.times)
        return;
    if (aim.fired++ == 0) {
        account.fired_ns = now_ns();
        account.pid = t->process->pid;
        account.root = t->process->root;
        account.tid = t->tid;
        account.address = point == NULL ? 0 : point->address;
        note_frames(t->process, r, point != NULL && !point->is_return);
    }
    switch (aim.act) {
    case COUNT:
        break;
    case KILL:
        kill_all_here();
        break;
    case PAUSE:
        aim.over = true;
        break;
    case DELAY:
        t->until_ns = now_ns() + aim.delay_us * 1000;
        account.delayed++;
        account.delayed_us += (uint64_t)aim.delay_us;
        break;
    case ERRNO:
        t->refuse = true;
        break;
    }
}

/* Who runs, a goroutine or a thread, and how deep its stack is; that of a goroutine may move. */
static struct place place_of(const struct thread *t, const struct user_regs_struct *r)
{
    uint64_t top = 0;
    if (aim.go)
        read_memory(t->process, r->r14 + 8, &top, 8); /* g.stack.hi */
    return (struct place){.who = aim.go ? r->r14 : (uint64_t)t->tid, .depth = top - r->rsp};
}

/* Is this inside the call that has reached the step before? */
static bool is_inside(const struct thread *t, const struct user_regs_struct *r, bool returned)
{
    struct place here = place_of(t, r);
    int64_t deeper = (int64_t)(here.depth - aim.before.depth);
    return here.who == aim.before.who && (returned ? deeper >= 0 : deeper > 0);
}

/* It is inside this step now; of a function until that goes back. */
static void enter(struct thread *t, const struct user_regs_struct *r, int step)
{
    aim.before = place_of(t, r);
    if (aim.steps[step].kind == FUNCTION)
        await_return(t->process, r, step, true);
}

static void next(struct thread *t, const struct user_regs_struct *r, struct point *point)
{
    if (aim.at + 1 < aim.step_count) {
        bool was_call = aim.steps[aim.at].kind == SYSCALL;
        if (aim.at > 0)
            disarm_step(aim.at - 1);
        if (aim.steps[aim.at].kind != FUNCTION)
            disarm_step(aim.at);
        enter(t, r, aim.at);
        arm_step(++aim.at);
        if (was_call != (aim.steps[aim.at].kind == SYSCALL))
            switch_mode();
        return;
    }
    if (++aim.hits >= aim.wanted)
        act(t, r, point);
}

/* Which of the calls that are waited for has gone back here. */
static struct point *returned(const struct user_regs_struct *r, uint64_t at)
{
    uint64_t frame = aim.go ? r->r14 : r->rsp;
    for (int i = 0; i < aim.point_count; i++) {
        struct point *one = &aim.table[i];
        if (one->is_return && one->armed && one->address == at && one->frame == frame)
            return one;
    }
    return NULL;
}

/* A thread stands at a breakpoint of ours, whose instruction it has not executed yet. */
void reach(struct thread *t, struct user_regs_struct *r, struct point *point)
{
    struct step *s = &aim.steps[aim.at];
    if (point->is_return) {
        point = returned(r, point->address);
        if (point == NULL)
            return; /* somebody else's way back */
        drop(point);
        if (point->closes) {
            if (place_of(t, r).who == aim.before.who && point->step == aim.at - 1)
                aim.before.who = 0;
            return;
        }
    } else if (point->step == aim.at - 1) {
        enter(t, r, aim.at - 1); /* the newest to have come there is followed */
    }
    if (point->step != aim.at)
        return;
    if (aim.at > 0 && aim.steps[aim.at - 1].kind == FUNCTION && !is_inside(t, r, point->is_return))
        return;
    if (s->kind == RETURN && !point->is_return) {
        await_return(t->process, r, aim.at, false);
        return;
    }
    point->hits++;
    next(t, r, point);
}

enum { FILE_BYTES = sizeof account.file };

static bool is_file(const struct step *s, const struct process *p, const uint64_t *args, char *file)
{
    char name[64];
    memset(file, 0, FILE_BYTES);
    if (s->fd >= 0) {
        snprintf(name, sizeof name, "/proc/%d/fd/%d", p->pid, (int)args[s->fd]);
        if (readlink(name, file, FILE_BYTES - 1) < 0)
            file[0] = 0;
    } else if (s->path >= 0) {
        for (size_t i = 0; i + 1 < FILE_BYTES; i++)
            if (!read_memory(p, args[s->path] + i, &file[i], 1) || !file[i])
                break;
    }
    return !s->glob[0] || fnmatch(s->glob, file, 0) == 0;
}

void at_call(struct thread *t, long call, const uint64_t *args)
{
    struct step *s = &aim.steps[aim.at];
    struct user_regs_struct r;
    char file[FILE_BYTES];
    if (s->kind != SYSCALL || (call != s->call && s->call != ANY_CALL) || aim.over)
        return;
    if (!is_file(s, t->process, args, file) || ptrace(PTRACE_GETREGS, t->tid, 0, &r) != 0)
        return;
    if (aim.at > 0 && aim.steps[aim.at - 1].kind == FUNCTION && !is_inside(t, &r, true))
        return;
    if (s->call == ANY_CALL && call >= 0 && call < CALLS_MAX)
        account.calls[call]++;
    bool first = aim.fired == 0;
    next(t, &r, NULL);
    if (first && aim.fired)
        memcpy(account.file, file, FILE_BYTES);
}
