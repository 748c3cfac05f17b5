/* Acts on a program at a point of its code: see aim.c for the order of things.
 *
 * Addresses are those of the file that the program was started from; `bias` is what the kernel has
 * added to them in a process.
 */
#ifndef DSTEST_AIM_H
#define DSTEST_AIM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#define STEPS_MAX 8
#define POINTS_MAX 256 /* functions of one step, and returns that are waited for */
#define PROCESSES_MAX 512
#define THREADS_MAX 8192
#define CODE_BYTES 16
#define FRAMES_MAX 24
#define BREAKPOINT 0xCC
#define CALLS_MAX 512
#define ANY_CALL (-1)

enum kind { FUNCTION, RETURN, SYSCALL };
enum act { COUNT, KILL, PAUSE, DELAY, ERRNO };

/* A part of the chain: what has to be reached after the one before it. Of `function` and `return`
 * any of `points` will do. */
struct step {
    enum kind kind;
    int points, first; /* in `table` */
    long call;         /* system call, and which of its arguments is a file: `fd` or `path` */
    int fd, path;      /* -1: none */
    char glob[256];
};

/* Where a breakpoint is, or was: the bytes that belong there. `frame` tells whose return it waits
 * for: the stack pointer then, or the goroutine. */
struct point {
    uint64_t address, frame;
    uint8_t code[CODE_BYTES];
    bool armed, is_return, closes; /* closes: the call that has reached its step is over there */
    int step;
    uint64_t hits,
        order; /* order: the oldest of those that wait for a return goes where all are full */
};

struct process {
    pid_t pid, root; /* root: which of those that were named has forked it, or itself */
    int memory;      /* /proc/PID/mem */
    uint64_t bias;
    bool gone;
};

struct thread {
    pid_t tid;
    struct process *process;
    bool stopped, pending, refuse, told; /* told: we know of its birth */
    int status;                          /* of a stop that waits to be looked at */
    int signal;                          /* to be passed on */
    int64_t until_ns;                    /* held until then; 0: not held */
};

struct aim {
    struct step steps[STEPS_MAX];
    int step_count, at;                  /* the step that is waited for */
    uint64_t wanted, hits, times, fired; /* hits of the last step; so often it was acted */
    struct place {
        uint64_t who, depth; /* who: 0 for nobody */
    } before; /* who is inside the step before, and how deep the stack was when it was entered */
    enum act act;
    int64_t delay_us;
    int error;
    bool go, over;
    struct point table[POINTS_MAX];
    int point_count;
};

/* What happened at the first action, and what the stops have cost. */
struct account {
    int64_t armed_ns, fired_ns;
    pid_t pid, tid, root;
    uint64_t address, frames[FRAMES_MAX];
    int frame_count;
    char file[256];
    uint64_t stops, stop_ns, stop_ns_max, emulated, stepped, delayed, delayed_us, refused;
    uint64_t killed, paused, processes, threads;
    uint64_t calls[CALLS_MAX]; /* where any system call is a hit: of each by its number */
    bool lost;                 /* somebody else has taken our breakpoints or tracees away */
};

extern struct aim aim;
extern struct account account;

int64_t now_ns(void);

/* aim_code.c: bytes of the program. */
bool read_memory(const struct process *p, uint64_t address, void *to, size_t bytes);
bool write_memory(const struct process *p, uint64_t address, const void *from, size_t bytes);
bool arm(struct process *p, struct point *point);
void sweep(const struct process *p, bool all);
void disarm(struct process *p, const struct point *point);
bool emulate(const struct process *p, const uint8_t *code, struct user_regs_struct *r);
void note_frames(const struct process *p, const struct user_regs_struct *r, bool entered);
bool patches_open(const char *path);
int patches_restore(const char *path);

/* aim_trace.c: threads and their stops. */
bool attach(pid_t pid, uint64_t bias);
void detach_all(int signal_to_all);
bool take_events(void);
void let_held_go(void);
int64_t next_release_ns(void);
void switch_mode(void);
extern struct process processes[PROCESSES_MAX];
extern int process_count;

/* aim_chain.c: the chain, and what is done at its end. */
void reach(struct thread *t, struct user_regs_struct *r, struct point *point);
void at_call(struct thread *t, long call, const uint64_t *args);
void arm_step(int step);
void disarm_everything(void);

#endif
