/* Waits until a program comes to a point of its code, and then does something to it. Runs on a node,
 * as root, on a stock binary.
 *
 *   aim FOLDER            by FOLDER/spec; FOLDER/status is renewed ten times a second, by renaming
 *   aim --restore FOLDER  put back what a dead one has left
 *
 * spec, a line each, numbers in decimal, addresses in hexadecimal:
 *   process PID BIAS               one that runs; those that it forks are followed
 *   step function ADDRESS...       any of these is entered
 *   step return ADDRESS...         any of these goes back to who has called it
 *   step syscall NUMBER FD PATH GLOB   a call whose argument FD or PATH (-1: none) is such a file;
 *                                  of number -1 it is any call, and each is counted by its number
 *   go 1                           a program of Go, whose goroutines change threads
 *   hit N                          so often the last step is reached before anything is done
 *   times N                        and is done so often (0: each time from then on)
 *   then count | kill 0 | pause 0 | delay US | errno N
 *
 * The steps are a chain: one is waited for when that before it was reached, and of a function
 * it counts what the same thread (of Go: goroutine) reaches inside that call. Breakpoints are bytes of
 * the program (int3); the threads are traced (PTRACE_SEIZE), and their signals passed on. On SIGTERM
 * all is as it was. A second process of ours puts the bytes back where this one is killed.
 */
#define _GNU_SOURCE
#include "aim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STATUS_NS 100000000LL

static const char *folder;
static bool detached;

static void status_rows(FILE *out)
{
    fprintf(out, "armed_ns %lld\nfired_ns %lld\nfired %llu\nstep %d\nhits %llu\n",
            (long long)account.armed_ns, (long long)account.fired_ns, (unsigned long long)aim.fired,
            aim.at, (unsigned long long)aim.hits);
    fprintf(out, "pid %d\ntid %d\nroot %d\naddress %llx\nfile %s\n", account.pid, account.tid,
            account.root, (unsigned long long)account.address, account.file);
    fprintf(out, "frames");
    for (int i = 0; i < account.frame_count; i++)
        fprintf(out, " %llx", (unsigned long long)account.frames[i]);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"stops", account.stops},
        {"stop_ns", account.stop_ns},
        {"stop_ns_max", account.stop_ns_max},
        {"emulated", account.emulated},
        {"stepped", account.stepped},
        {"delayed", account.delayed},
        {"delayed_us", account.delayed_us},
        {"refused", account.refused},
        {"killed", account.killed},
        {"paused", account.paused},
        {"processes", account.processes},
        {"threads", account.threads},
        {"lost", account.lost},
        {"detached", detached},
    };
    fputc('\n', out);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        fprintf(out, "%s %llu\n", rows[i].name, (unsigned long long)rows[i].value);
    for (int i = 0; i < aim.point_count; i++)
        if (aim.table[i].hits && !aim.table[i].is_return)
            fprintf(out, "point %llx %llu\n", (unsigned long long)aim.table[i].address,
                    (unsigned long long)aim.table[i].hits);
    for (int i = 0; i < CALLS_MAX; i++)
        if (account.calls[i])
            fprintf(out, "call %d %llu\n", i, (unsigned long long)account.calls[i]);
}

static void write_status(void)
{
    char now[4096], next[4096];
    snprintf(now, sizeof now, "%s/status", folder);
    snprintf(next, sizeof next, "%s/status.next", folder);
    FILE *out = fopen(next, "we");
    if (out == NULL)
        return;
    status_rows(out);
    if (fclose(out) == 0)
        rename(next, now);
}

static void fail(const char *what)
{
    fprintf(stderr, "aim: %s\n", what);
    exit(2);
}

static void read_step(char *words)
{
    if (aim.step_count == STEPS_MAX)
        fail("too many steps");
    struct step *s = &aim.steps[aim.step_count];
    char *rest = NULL, *word = strtok_r(words, " \n", &rest);
    s->fd = s->path = -1;
    if (word != NULL && !strcmp(word, "syscall")) {
        s->kind = SYSCALL;
        if (sscanf(rest, "%ld %d %d %255s", &s->call, &s->fd, &s->path, s->glob) < 3)
            fail("step syscall NUMBER FD PATH GLOB");
        if (!strcmp(s->glob, "-"))
            s->glob[0] = 0;
    } else if (word != NULL && (!strcmp(word, "function") || !strcmp(word, "return"))) {
        s->kind = word[0] == 'r' ? RETURN : FUNCTION;
        s->first = aim.point_count;
        while ((word = strtok_r(NULL, " \n", &rest)) != NULL) {
            if (aim.point_count == POINTS_MAX)
                fail("too many points");
            aim.table[aim.point_count++] = (struct point){.address = strtoull(word, NULL, 16),
                                                          .step = aim.step_count};
            s->points++;
        }
        if (!s->points)
            fail("a step without an address");
    } else {
        fail("step function, return or syscall");
    }
    aim.step_count++;
}

static void read_then(const char *words)
{
    static const char *const NAMES[] = {"count", "kill", "pause", "delay", "errno"};
    char name[16];
    long long value = 0;
    if (sscanf(words, "%15s %lld", name, &value) < 1)
        fail("then WHAT VALUE");
    for (int i = COUNT; i <= ERRNO; i++)
        if (!strcmp(name, NAMES[i])) {
            aim.act = (enum act)i;
            aim.delay_us = value;
            aim.error = (int)value;
            return;
        }
    fail("then count, kill, pause, delay or errno");
}

struct named_pid {
    int pid;
    uint64_t bias;
};

static int read_spec(struct named_pid *pids)
{
    char name[4096], line[8192], word[16];
    int count = 0, at;
    snprintf(name, sizeof name, "%s/spec", folder);
    FILE *in = fopen(name, "re");
    if (in == NULL)
        fail("no spec");
    aim.wanted = aim.times = 1;
    while (fgets(line, sizeof line, in) != NULL) {
        at = 0;
        if (sscanf(line, "%15s %n", word, &at) < 1)
            continue;
        char *rest = line + at;
        if (!strcmp(word, "step"))
            read_step(rest);
        else if (!strcmp(word, "then"))
            read_then(rest);
        else if (!strcmp(word, "hit"))
            aim.wanted = strtoull(rest, NULL, 10);
        else if (!strcmp(word, "times"))
            aim.times = strtoull(rest, NULL, 10);
        else if (!strcmp(word, "go"))
            aim.go = rest[0] == '1';
        else if (!strcmp(word, "process") && count < PROCESSES_MAX) {
            char *bias = NULL;
            pids[count].pid = (int)strtol(rest, &bias, 10);
            pids[count++].bias = strtoull(bias, NULL, 16);
        } else
            fail("a line of spec that is none");
    }
    fclose(in);
    if (!aim.step_count || !count)
        fail("no step, or no process");
    return count;
}

/* Has somebody taken our breakpoints away? */
static void look_after_points(void)
{
    for (int i = 0; i < aim.point_count; i++)
        for (int k = 0; aim.table[i].armed && !aim.table[i].is_return && k < process_count; k++) {
            uint8_t there = BREAKPOINT;
            uint64_t at = aim.table[i].address + processes[k].bias;
            if (!processes[k].gone && read_memory(&processes[k], at, &there, 1))
                account.lost |= there != BREAKPOINT;
        }
}

static bool anybody_left(void)
{
    for (int k = 0; k < process_count; k++)
        if (!processes[k].gone)
            return true;
    return false;
}

static int trace(void)
{
    static struct named_pid pids[PROCESSES_MAX];
    sigset_t set;
    int count = read_spec(pids);
    for (int i = 0; i < count; i++)
        if (!attach(pids[i].pid, pids[i].bias)) {
            detach_all(0);
            fail("a process cannot be traced: somebody else may do so");
        }
    arm_step(0);
    if (aim.steps[0].kind == SYSCALL)
        switch_mode();
    account.armed_ns = now_ns();
    write_status();
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    int64_t told_ns = now_ns();
    uint64_t told_fired = 0;
    bool more = false;
    while (!aim.over && anybody_left()) {
        int64_t wait_ns = more ? 0 : STATUS_NS, release_ns = next_release_ns();
        if (release_ns && release_ns - now_ns() < wait_ns)
            wait_ns = release_ns > now_ns() ? release_ns - now_ns() : 0;
        struct timespec limit = {.tv_nsec = wait_ns};
        if (sigtimedwait(&set, NULL, &limit) == SIGTERM)
            break;
        more = take_events();
        let_held_go();
        if (now_ns() - told_ns > STATUS_NS || aim.fired != told_fired) {
            look_after_points();
            write_status();
            told_ns = now_ns();
            told_fired = aim.fired;
        }
    }
    detach_all(aim.over && aim.act == PAUSE ? SIGSTOP : 0);
    detached = true;
    write_status();
    return 0;
}

/* Whoever ends the tracer leaves its breakpoints to us. */
static int watch_over(pid_t tracer)
{
    sigset_t set;
    int status = 0, signal;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    while (waitpid(tracer, &status, WNOHANG) == 0)
        if (sigwait(&set, &signal) == 0 && signal == SIGTERM)
            kill(tracer, SIGTERM);
    char name[4096];
    snprintf(name, sizeof name, "%s/patches", folder);
    int failed = patches_restore(name);
    return WIFEXITED(status) && !failed ? WEXITSTATUS(status) : 3;
}

int main(int argc, char **argv)
{
    sigset_t set;
    if (argc == 3 && !strcmp(argv[1], "--restore")) {
        char name[4096];
        snprintf(name, sizeof name, "%s/patches", argv[2]);
        return patches_restore(name) ? 3 : 0;
    }
    if (argc != 2)
        fail("usage: aim FOLDER | aim --restore FOLDER");
    folder = argv[1];
    char notes[4096];
    snprintf(notes, sizeof notes, "%s/patches", folder);
    if (!patches_open(notes))
        fail("its notes cannot be written");
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t tracer = fork();
    if (tracer < 0)
        fail("cannot fork");
    if (tracer > 0)
        return watch_over(tracer);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    return trace();
}
