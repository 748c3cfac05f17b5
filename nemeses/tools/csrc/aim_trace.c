/* Threads of the program and what stops them. */
#define _GNU_SOURCE
#include "aim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOLD_NS                                                                                    \
    100000000LL /* who does not stop by then waits in the kernel: it runs no code of its own */
#define LET_GO_NS 5000000000LL /* who does not stop by then may end by a trap that it had met */
#define TURN_NS 10000000LL     /* so long are events taken before anything else is looked at */
#define PTRACE_EVENT_STOPPED 128

static const long OPTIONS = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                            PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;

/* Threads that came before we were told of their birth, and ended: a birth that is told late. */
static pid_t early[64];
static int early_at;

struct process processes[PROCESSES_MAX];
int process_count;
static struct thread threads[THREADS_MAX];
static int thread_count;

int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static struct thread *thread_of(pid_t tid)
{
    for (int i = 0; i < thread_count; i++)
        if (threads[i].tid == tid)
            return &threads[i];
    return NULL;
}

static struct thread *add_thread(pid_t tid, struct process *p)
{
    struct thread *t = thread_of(tid);
    if (t != NULL || p == NULL)
        return t;
    for (int i = 0; i < thread_count && t == NULL; i++)
        if (threads[i].tid == 0)
            t = &threads[i];
    if (t == NULL && thread_count < THREADS_MAX)
        t = &threads[thread_count++];
    if (t != NULL) {
        *t = (struct thread){.tid = tid, .process = p};
        account.threads++;
    }
    return t;
}

static struct process *process_of(pid_t pid)
{
    for (int i = 0; i < process_count; i++)
        if (processes[i].pid == pid && !processes[i].gone)
            return &processes[i];
    return NULL;
}

static bool has_threads(const struct process *p)
{
    for (int i = 0; i < thread_count; i++)
        if (threads[i].tid && threads[i].process == p)
            return true;
    return false;
}

/* There are too many to follow one more: what it has of ours goes, and that is told. */
static void let_alone(int memory, uint64_t bias)
{
    sweep(&(struct process){.memory = memory, .bias = bias}, true);
    close(memory);
    account.lost = true;
}

static struct process *add_process(pid_t pid, pid_t root, uint64_t bias)
{
    char name[64];
    struct process *p = process_of(pid);
    if (p != NULL)
        return p;
    snprintf(name, sizeof name, "/proc/%d/mem", pid);
    int memory = open(name, O_RDWR | O_CLOEXEC);
    if (memory < 0)
        return NULL;
    for (int i = 0; i < process_count && p == NULL; i++)
        if (processes[i].gone && !has_threads(&processes[i]))
            p = &processes[i];
    if (p == NULL && process_count < PROCESSES_MAX)
        p = &processes[process_count++];
    if (p == NULL) {
        let_alone(memory, bias);
        return NULL;
    }
    *p = (struct process){.pid = pid, .root = root, .memory = memory, .bias = bias};
    account.processes++;
    return p;
}

static void forget(struct process *p)
{
    p->gone = true;
    for (int i = 0; i < aim.point_count; i++)
        disarm(p, &aim.table[i]); /* of what is gone only the note */
    close(p->memory);
}

/* A line of /proc/TID/status that is a number. */
static pid_t told(pid_t tid, const char *what)
{
    char name[64], line[256];
    long found = 0;
    snprintf(name, sizeof name, "/proc/%d/status", tid);
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return 0;
    while (fgets(line, sizeof line, file) != NULL)
        if (!strncmp(line, what, strlen(what)))
            found = strtol(line + strlen(what), NULL, 10);
    fclose(file);
    return (pid_t)found;
}

static bool seized(pid_t tid, struct process *p)
{
    struct thread *t = add_thread(tid, p);
    if (t != NULL)
        t->told = true;
    return t != NULL;
}

bool attach(pid_t pid, uint64_t bias)
{
    char name[64];
    struct process *p = add_process(pid, pid, bias);
    snprintf(name, sizeof name, "/proc/%d/task", pid);
    for (bool more = p != NULL; more;) {
        DIR *folder = opendir(name);
        struct dirent *entry;
        more = false;
        while (folder != NULL && (entry = readdir(folder)) != NULL) {
            pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
            if (tid <= 0 || thread_of(tid) != NULL)
                continue;
            if (ptrace(PTRACE_SEIZE, tid, 0, OPTIONS) == 0)
                more = seized(tid, p);
            else if (errno == EPERM && told(tid, "Tgid:") == pid && !told(tid, "TracerPid:"))
                continue; /* it ends */
            else if (errno != ESRCH) {
                closedir(folder);
                return false;
            }
        }
        if (folder != NULL)
            closedir(folder);
    }
    return p != NULL;
}

static void resume(struct thread *t)
{
    bool calls = aim.steps[aim.at].kind == SYSCALL || t->refuse;
    if (t->until_ns || aim.over)
        return; /* held, or about to be let go */
    t->stopped = false;
    ptrace(calls ? PTRACE_SYSCALL : PTRACE_CONT, t->tid, 0, t->signal);
    t->signal = 0;
}

/* Does it wait in the kernel where nothing can stop it? Then it runs no code of its own. */
static bool is_in_kernel(pid_t tid)
{
    char name[64], line[64];
    bool waits = false;
    snprintf(name, sizeof name, "/proc/%d/status", tid);
    FILE *file = fopen(name, "re");
    if (file == NULL)
        return false;
    while (!waits && fgets(line, sizeof line, file) != NULL)
        if (!strncmp(line, "State:", 6)) {
            waits = strchr(line, 'D') != NULL;
            break;
        }
    fclose(file);
    return waits;
}

static bool is_quiet(int status)
{
    return status >> 16 == PTRACE_EVENT_STOPPED && WSTOPSIG(status) == SIGTRAP;
}

/* It has come to a stop, by us or by itself: what by itself waits to be looked at. */
static void note_stop(struct thread *t, int status)
{
    t->stopped = true;
    t->pending = !is_quiet(status);
    t->status = status;
}

/* Every thread of this process (of all, where it is NULL) but one stands. */
static void hold(const struct process *p, const struct thread *but, int64_t limit_ns)
{
    for (int i = 0; i < thread_count; i++) {
        struct thread *t = &threads[i];
        if (t->tid && t != but && !t->stopped && (p == NULL || t->process == p))
            ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
    }
    int64_t until_ns = now_ns() + limit_ns;
    for (int i = 0; i < thread_count; i++) {
        struct thread *t = &threads[i];
        int status;
        if (!t->tid || t == but || t->stopped || (p != NULL && t->process != p))
            continue;
        for (;;) {
            pid_t found = waitpid(t->tid, &status, __WALL | WNOHANG);
            if (found == t->tid) {
                note_stop(t, status);
                break;
            }
            if (found < 0 || now_ns() > until_ns || is_in_kernel(t->tid))
                break;
            sched_yield();
        }
    }
}

static void release(const struct process *p, const struct thread *but)
{
    for (int i = 0; i < thread_count; i++) {
        struct thread *t = &threads[i];
        if (t->tid && t != but && t->process == p && t->stopped && !t->pending)
            resume(t);
    }
}

/* Has it come to a stop? False: it has ended, or a page that it wants does not come; then it stops
 * later, by itself. */
static bool stepped(struct thread *t, int *status)
{
    for (int64_t until_ns = now_ns() + HOLD_NS;;) {
        pid_t found = waitpid(t->tid, status, __WALL | WNOHANG);
        if (found == t->tid && WIFSTOPPED(*status))
            return true;
        if (found == t->tid)
            note_stop(t, *status);
        if (found != 0)
            return false;
        if (now_ns() > until_ns) {
            t->stopped = false;
            return false;
        }
        sched_yield();
    }
}

/* Execute the one instruction that a breakpoint covers, while nobody else can run past it. */
static void step_alone(struct thread *t, const struct point *point, struct user_regs_struct *r)
{
    struct process *p = t->process;
    uint8_t trap = BREAKPOINT;
    uint64_t at = point->address + p->bias;
    int status;
    hold(p, t, HOLD_NS);
    ptrace(PTRACE_SETREGS, t->tid, 0, r);
    write_memory(p, at, &point->code[0], 1);
    uint64_t mask = 0, every = ~0ULL;
    bool masked = ptrace(PTRACE_GETSIGMASK, t->tid, sizeof mask, &mask) == 0 &&
                  ptrace(PTRACE_SETSIGMASK, t->tid, sizeof every, &every) == 0;
    for (int tries = 0; tries < 64; tries++) {
        if (ptrace(PTRACE_SINGLESTEP, t->tid, 0, 0) != 0)
            break;
        if (!stepped(t, &status))
            break;
        if (WSTOPSIG(status) == SIGTRAP && status >> 16 == 0)
            break;
        t->signal = WSTOPSIG(status) == SIGTRAP ? t->signal : WSTOPSIG(status); /* SIGSTOP */
    }
    if (masked)
        ptrace(PTRACE_SETSIGMASK, t->tid, sizeof mask, &mask);
    if (point->armed)
        write_memory(p, at, &trap, 1);
    account.stepped++;
    release(p, t);
}

static struct point *point_at(uint64_t address)
{
    for (int i = 0; i < aim.point_count; i++)
        if (aim.table[i].address == address && aim.table[i].armed)
            return &aim.table[i];
    for (int i = 0; i < aim.point_count; i++) /* disarmed while it was trapped */
        if (aim.table[i].address == address)
            return &aim.table[i];
    return NULL;
}

/* True: the trap was one of ours. */
static bool trapped(struct thread *t)
{
    struct user_regs_struct r;
    siginfo_t why;
    if (ptrace(PTRACE_GETSIGINFO, t->tid, 0, &why) != 0)
        return true;              /* it has just been killed */
    if (why.si_code != SI_KERNEL) /* no int3: a step of ours, or the program's own affair */
        return why.si_code == TRAP_TRACE;
    if (ptrace(PTRACE_GETREGS, t->tid, 0, &r) != 0)
        return true;
    struct point *point = point_at(r.rip - 1 - t->process->bias);
    uint8_t there = BREAKPOINT;
    if (point == NULL) { /* it was ours, and is gone; or it is the program's own */
        read_memory(t->process, r.rip - 1, &there, 1);
        r.rip--;
        return there != BREAKPOINT && ptrace(PTRACE_SETREGS, t->tid, 0, &r) == 0;
    }
    r.rip--;
    if (point->armed && !aim.over)
        reach(t, &r, point);
    point = point_at(point->address); /* another one may still be armed there */
    if (aim.over || !point->armed) {
        sweep(t->process, false);
        ptrace(PTRACE_SETREGS, t->tid, 0, &r);
    } else if (emulate(t->process, point->code, &r)) {
        account.emulated++;
        ptrace(PTRACE_SETREGS, t->tid, 0, &r);
    } else {
        step_alone(t, point, &r);
    }
    return true;
}

static void called(struct thread *t)
{
    struct __ptrace_syscall_info info;
    struct user_regs_struct r;
    if (ptrace(PTRACE_GET_SYSCALL_INFO, t->tid, sizeof info, &info) <= 0)
        return;
    bool entry = info.op == PTRACE_SYSCALL_INFO_ENTRY;
    bool refused = t->refuse;
    if (entry)
        at_call(t, (long)info.entry.nr, (const uint64_t *)info.entry.args);
    if (!t->refuse || ptrace(PTRACE_GETREGS, t->tid, 0, &r) != 0)
        return;
    if (entry && !refused) {
        r.orig_rax = (unsigned long long)-1; /* no such call: it does nothing */
    } else if (!entry) {
        r.rax = (unsigned long long)(long long)-aim.error;
        t->refuse = false;
        account.refused++;
    }
    ptrace(PTRACE_SETREGS, t->tid, 0, &r);
}

/* Its memory is a copy of what was armed then: what is still armed is noted, the rest goes. */
static struct process *forked(pid_t pid, const struct process *by)
{
    struct process *p = process_of(pid);
    if (p != NULL || (p = add_process(pid, by->root, by->bias)) == NULL)
        return p;
    for (int i = 0; i < aim.point_count; i++)
        if (aim.table[i].armed)
            arm(p, &aim.table[i]);
    sweep(p, false);
    return p;
}

/* A thread, or a process of its own, has come to be; the kernel has attached us to it. */
static void born(struct thread *parent, int event)
{
    unsigned long tid = 0;
    struct process *p = parent->process;
    if (ptrace(PTRACE_GETEVENTMSG, parent->tid, 0, &tid) != 0)
        return;
    for (size_t i = 0; i < sizeof early / sizeof *early; i++)
        if (early[i] == (pid_t)tid) {
            early[i] = 0;
            return;
        }
    if (event != PTRACE_EVENT_CLONE && told((pid_t)tid, "Tgid:") == (pid_t)tid) {
        p = forked((pid_t)tid, p);
    }
    seized((pid_t)tid, p);
}

static void ended(struct thread *t, int status)
{
    struct process *p = t->process;
    if (!t->told)
        early[early_at++ % (int)(sizeof early / sizeof *early)] = t->tid;
    if (t->tid == p->pid && !p->gone) {
        account.killed += WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
        forget(p);
    }
    t->tid = 0;
}

static void note_cost(int64_t began_ns)
{
    uint64_t took_ns = (uint64_t)(now_ns() - began_ns);
    account.stops++;
    account.stop_ns += took_ns;
    account.stop_ns_max = took_ns > account.stop_ns_max ? took_ns : account.stop_ns_max;
}

static void look_at(struct thread *t, int status)
{
    int64_t began_ns = now_ns();
    int event = status >> 16, signal = WSTOPSIG(status);
    t->pending = false;
    if (!WIFSTOPPED(status)) {
        ended(t, status);
        return;
    }
    t->stopped = true;
    if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK) {
        born(t, event);
    } else if (event == PTRACE_EVENT_EXEC) { /* another program */
        forget(t->process);
        ptrace(PTRACE_DETACH, t->tid, 0, 0);
        t->tid = 0;
        return;
    } else if (event == PTRACE_EVENT_STOPPED && signal != SIGTRAP) {
        if (!aim.over) { /* stopped by somebody's signal: it stays so */
            ptrace(PTRACE_LISTEN, t->tid, 0, 0);
            t->stopped = false;
        }
        return;
    } else if (event == 0 && signal == (SIGTRAP | 0x80)) {
        called(t);
        note_cost(began_ns);
    } else if (event == 0 && signal == SIGTRAP) {
        if (trapped(t))
            note_cost(began_ns);
        else
            t->signal = signal;
    } else if (event == 0) {
        t->signal = signal;
    }
    if (!t->pending && t->stopped)
        resume(t);
}

/* Looking at one may leave others pending: none is left to wait for the next event. */
static void look_at_pending(void)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < thread_count; i++)
            if (threads[i].tid && threads[i].pending) {
                look_at(&threads[i], threads[i].status);
                more = true;
            }
    }
}

/* Who it is that the kernel has attached us to, and of whose birth we have not been told yet. */
static struct thread *unknown(pid_t tid)
{
    pid_t pid = told(tid, "Tgid:");
    struct process *p = process_of(pid), *parent = process_of(told(tid, "PPid:"));
    if (p == NULL && parent != NULL)
        p = forked(pid, parent);
    return add_thread(tid, p);
}

/* True: there may be more. A busy program always has one more, and others wait for us, too. */
bool take_events(void)
{
    int status;
    pid_t tid;
    int64_t until_ns = now_ns() + TURN_NS;
    look_at_pending();
    while (!aim.over && (tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) {
        struct thread *t = thread_of(tid);
        if (t == NULL && WIFSTOPPED(status) && (t = unknown(tid)) == NULL)
            ptrace(PTRACE_DETACH, tid, 0, 0);
        if (t != NULL)
            look_at(t, status);
        look_at_pending();
        if (now_ns() > until_ns)
            return true;
    }
    return false;
}

/* All that run stop once and go on in the way that the present step needs. */
void switch_mode(void)
{
    for (int i = 0; i < thread_count; i++)
        if (threads[i].tid && !threads[i].stopped)
            ptrace(PTRACE_INTERRUPT, threads[i].tid, 0, 0);
}

int64_t next_release_ns(void)
{
    int64_t first_ns = 0;
    for (int i = 0; i < thread_count; i++)
        if (threads[i].tid && threads[i].until_ns)
            if (!first_ns || threads[i].until_ns < first_ns)
                first_ns = threads[i].until_ns;
    return first_ns;
}

void let_held_go(void)
{
    int64_t at_ns = now_ns();
    for (int i = 0; i < thread_count; i++)
        if (threads[i].tid && threads[i].until_ns && threads[i].until_ns <= at_ns) {
            threads[i].until_ns = 0;
            resume(&threads[i]);
        }
}

/* Has it met a breakpoint, and stopped for us before it was told so? */
static bool is_trap_queued(pid_t tid)
{
    struct __ptrace_peeksiginfo_args args = {.nr = 8};
    siginfo_t queued[8];
    long found = ptrace(PTRACE_PEEKSIGINFO, tid, &args, queued);
    for (long i = 0; i < found; i++)
        if (queued[i].si_signo == SIGTRAP && queued[i].si_code == SI_KERNEL)
            return true;
    return false;
}

/* Such a one would end by it, once nobody traces it: it is told now. */
static void take_queued_traps(void)
{
    int status;
    for (int i = 0; i < thread_count; i++) {
        struct thread *t = &threads[i];
        if (t->tid && t->stopped && is_trap_queued(t->tid) &&
            ptrace(PTRACE_CONT, t->tid, 0, 0) == 0 && waitpid(t->tid, &status, __WALL) == t->tid)
            look_at(t, status);
    }
}

/* Everything as it was; the threads go on, or stand by `signal_to_all`. */
void detach_all(int signal_to_all)
{
    int status;
    pid_t tid;
    aim.over = true;
    hold(NULL, NULL, LET_GO_NS);
    disarm_everything();
    look_at_pending(); /* those that had met a breakpoint go back to it */
    take_queued_traps();
    while ((tid = waitpid(-1, &status, __WALL | WNOHANG)) > 0) { /* born meanwhile */
        struct thread *t = thread_of(tid) ? thread_of(tid) : unknown(tid);
        if (t != NULL)
            look_at(t, status);
    }
    disarm_everything();
    for (int k = 0; k < process_count; k++)
        if (!processes[k].gone)
            sweep(&processes[k], false);
    for (int k = 0; signal_to_all && k < process_count; k++)
        if (!processes[k].gone)
            account.paused += kill(processes[k].pid, signal_to_all) == 0;
    for (int i = 0; i < thread_count; i++)
        if (threads[i].tid) {
            ptrace(PTRACE_DETACH, threads[i].tid, 0, threads[i].signal);
            threads[i].tid = 0;
        }
}
