/* Moves the clock of one running process, by what its vDSO answers.
 *
 *   clockshift PID START set OFFSET_NS RATE_PPM MONO STROBE_NS     patch
 *   clockshift PID START read                                      one line of what is in force
 *   clockshift PID START off                                       the vDSO as the kernel made it
 *
 * MONO 1 moves monotonic time too; with STROBE_NS the shift comes and goes at that pace, 0 = stays.
 *
 * START is field 22 of /proc/PID/stat: another process with the same number is left alone (exit 3).
 * Each call answers one line: `patched=0|1 offset_ns=N rate_ppm=N mono=0|1 strobe_ns=N hits=N`.
 *
 * One page is mapped into the process. It holds what is in force and a copy of the functions below;
 * the entries of the vDSO jump to them. They ask the kernel by system call and add the shift. Works
 * for whatever reads time through the vDSO, static Go programs included. x86-64 only.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clockshift_stubs.h"

#define CODE_AT 512
#define THREADS_MAX 4096
#define TRIES_MAX 2000
#define MAGIC 0x31746669686b6c63ULL

extern char __start_stubs[], __stop_stubs[];

/* ---- runs here ---- */
static int process, memory;
static uint64_t vdso, vdso_bytes, page_at;
static int threads[THREADS_MAX], pending[THREADS_MAX], thread_count;

static void fail(const char *what)
{
    fprintf(stderr, "clockshift: %s: %s\n", what, errno ? strerror(errno) : "not possible");
    exit(2);
}

static void get(uint64_t at, void *to, size_t bytes)
{
    if (pread(memory, to, bytes, (off_t)at) != (ssize_t)bytes)
        fail("read memory");
}

static void put(uint64_t at, const void *from, size_t bytes)
{
    if (pwrite(memory, from, bytes, (off_t)at) != (ssize_t)bytes)
        fail("write memory");
}

static int is_process(const char *start)
{
    char path[64], text[2048] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    char *field = strrchr(text, ')');
    for (int i = 0; field && i < 20; i++)
        field = strchr(field + 1, ' ');
    return field && strtoull(field + 1, NULL, 10) == strtoull(start, NULL, 10);
}

static void find_mappings(void)
{
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/maps", process);
    FILE *file = fopen(path, "r");
    if (!file)
        fail(path);
    while (fgets(line, sizeof line, file)) {
        unsigned long from, to;
        char mode[8] = "", name[256] = "";
        uint64_t magic = 0;
        if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %255s", &from, &to, mode, name) < 3)
            continue;
        if (strcmp(name, "[vdso]") == 0) {
            vdso = from;
            vdso_bytes = to - from;
        } else if (strncmp(mode, "rwx", 3) == 0 && name[0] == 0) {
            /* Neighbouring mappings may have been joined with ours. */
            for (unsigned long at = from; at < to; at += PAGE)
                if (pread(memory, &magic, 8, (off_t)at) == 8 && magic == MAGIC)
                    page_at = at;
        }
    }
    fclose(file);
    if (!vdso)
        fail("find the vDSO");
}

static void entries(uint64_t at[ENTRIES])
{
    static const char *wanted[] = {"__vdso_clock_gettime", "__vdso_gettimeofday", "__vdso_time"};
    unsigned char *image = malloc(vdso_bytes);
    if (!image)
        fail("memory");
    get(vdso, image, vdso_bytes);
    Elf64_Ehdr *head = (Elf64_Ehdr *)image;
    Elf64_Shdr *sections = (Elf64_Shdr *)(image + head->e_shoff);
    memset(at, 0, ENTRIES * sizeof at[0]);
    for (int s = 0; s < head->e_shnum; s++) {
        if (sections[s].sh_type != SHT_DYNSYM)
            continue;
        Elf64_Sym *symbols = (Elf64_Sym *)(image + sections[s].sh_offset);
        const char *names = (const char *)image + sections[sections[s].sh_link].sh_offset;
        for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++)
            for (int e = 0; e < ENTRIES; e++)
                if (strcmp(names + symbols[i].st_name, wanted[e]) == 0)
                    at[e] = vdso + symbols[i].st_value;
    }
    free(image);
    if (!at[0])
        fail("find __vdso_clock_gettime");
}

static void stop_threads(void)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", process);
    for (int more = 1; more;) {
        more = 0;
        DIR *folder = opendir(path);
        if (!folder)
            fail(path);
        for (struct dirent *entry; (entry = readdir(folder)) && thread_count < THREADS_MAX;) {
            int thread = atoi(entry->d_name), known = thread <= 0, status;
            for (int i = 0; i < thread_count; i++)
                known |= threads[i] == thread;
            if (known || ptrace(PTRACE_SEIZE, thread, 0, 0))
                continue;
            ptrace(PTRACE_INTERRUPT, thread, 0, 0);
            if (waitpid(thread, &status, __WALL) != thread || !WIFSTOPPED(status))
                continue;
            pending[thread_count] = status >> 16 ? 0 : WSTOPSIG(status);
            threads[thread_count++] = thread;
            more = 1;
        }
        closedir(folder);
    }
    if (!thread_count)
        fail("stop the process");
}

/* No thread may stand where bytes are about to change. */
static void leave_vdso(void)
{
    for (int i = 0; i < thread_count; i++)
        for (int tries = 0;; tries++) {
            struct user_regs_struct regs;
            int status;
            if (ptrace(PTRACE_GETREGS, threads[i], 0, &regs) || regs.rip < vdso ||
                regs.rip >= vdso + vdso_bytes)
                break;
            if (tries > TRIES_MAX)
                fail("get a thread out of the vDSO");
            if (ptrace(PTRACE_SINGLESTEP, threads[i], 0, 0))
                fail("single step");
            if (waitpid(threads[i], &status, __WALL) != threads[i] || !WIFSTOPPED(status))
                break;
            if (!(status >> 16) && WSTOPSIG(status) != SIGTRAP)
                pending[i] = WSTOPSIG(status);
        }
}

static void go_on(void)
{
    for (int i = 0; i < thread_count; i++)
        ptrace(PTRACE_DETACH, threads[i], 0, (long)pending[i]);
}

/* mmap(one page, rwx) in the process, by a syscall instruction lent from the vDSO's text. */
static uint64_t map_page(uint64_t at)
{
    unsigned char saved[3], lent[3] = {0x0f, 0x05, 0xcc};
    struct user_regs_struct before, regs;
    int status = 0;
    get(at, saved, 3);
    if (ptrace(PTRACE_GETREGS, threads[0], 0, &before))
        fail("read registers");
    put(at, lent, 3);
    regs = before;
    regs.rip = at, regs.rax = SYS_mmap, regs.orig_rax = regs.r8 = (unsigned long long)-1;
    regs.rdi = regs.r9 = 0, regs.rsi = PAGE;
    regs.rdx = PROT_READ | PROT_WRITE | PROT_EXEC, regs.r10 = MAP_PRIVATE | MAP_ANONYMOUS;
    ptrace(PTRACE_SETREGS, threads[0], 0, &regs);
    for (int tries = 0; tries < 100; tries++) {
        ptrace(PTRACE_CONT, threads[0], 0, 0);
        if (waitpid(threads[0], &status, __WALL) != threads[0] || !WIFSTOPPED(status))
            break;
        if (!(status >> 16) && WSTOPSIG(status) == SIGTRAP)
            break;
        if (!(status >> 16))
            pending[0] = WSTOPSIG(status);
    }
    ptrace(PTRACE_GETREGS, threads[0], 0, &regs);
    put(at, saved, 3);
    ptrace(PTRACE_SETREGS, threads[0], 0, &before);
    if (regs.rip != at + 3 || (int64_t)regs.rax < 0)
        fail("map a page into the process");
    return regs.rax;
}

static int64_t monotonic_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

static void jump_to(unsigned char code[JUMP], uint64_t to)
{
    memcpy(code, "\x48\xb8", 2);
    memcpy(code + 2, &to, 8);
    memcpy(code + 10, "\xff\xe0", 2);
}

static void install(const uint64_t at[ENTRIES], const struct shift *shift)
{
    size_t bytes = (size_t)(__stop_stubs - __start_stubs);
    const char *stubs[] = {(const char *)shifted_gettime, (const char *)shifted_timeofday,
                           (const char *)shifted_time};
    struct page page = {.magic = MAGIC};
    if (CODE_AT + bytes > PAGE || sizeof page > CODE_AT)
        fail("fit the code into a page");
    stop_threads();
    leave_vdso();
    if (!page_at)
        page_at = map_page(at[0]);
    page.shifts[0] = page.shifts[1] = *shift;
    for (int e = 0; e < ENTRIES; e++)
        if (at[e])
            get(at[e], page.saved[e], JUMP);
    put(page_at + CODE_AT, __start_stubs, bytes);
    put(page_at, &page, sizeof page);
    for (int e = 0; e < ENTRIES; e++) {
        unsigned char code[JUMP];
        jump_to(code, page_at + CODE_AT + (uint64_t)(stubs[e] - __start_stubs));
        if (at[e])
            put(at[e], code, JUMP);
    }
    go_on();
}

static void restore(const uint64_t at[ENTRIES])
{
    struct page page;
    get(page_at, &page, sizeof page);
    stop_threads();
    leave_vdso();
    for (int e = 0; e < ENTRIES; e++)
        if (at[e])
            put(at[e], page.saved[e], JUMP);
    go_on();
}

static int patched(const uint64_t at[ENTRIES])
{
    unsigned char code[JUMP];
    uint64_t to;
    get(at[0], code, JUMP);
    memcpy(&to, code + 2, 8);
    return page_at && code[0] == 0x48 && code[1] == 0xb8 && (to & ~(uint64_t)(PAGE - 1)) == page_at;
}

static void update(const struct shift *shift)
{
    uint64_t active;
    get(page_at + offsetof(struct page, active), &active, 8);
    active = !active;
    put(page_at + offsetof(struct page, shifts) + active * sizeof *shift, shift, sizeof *shift);
    put(page_at + offsetof(struct page, active), &active, 8);
}

static int report(const uint64_t at[ENTRIES])
{
    struct page page = {0};
    struct shift none = {0};
    int is = patched(at);
    if (page_at)
        get(page_at, &page, sizeof page);
    struct shift *shift = is ? &page.shifts[page.active & 1] : &none;
    printf("patched=%d offset_ns=%lld rate_ppm=%lld mono=%lld strobe_ns=%lld hits=%llu\n", is,
           (long long)shift->offset_ns, (long long)shift->rate_ppm, (long long)shift->mono,
           (long long)shift->strobe_ns, (unsigned long long)page.hits);
    return 0;
}

int main(int count, char **words)
{
    if (count < 4)
        return fprintf(stderr, "usage: clockshift PID START set|read|off ...\n"), 1;
    process = atoi(words[1]);
    if (!is_process(words[2]))
        return fprintf(stderr, "clockshift: process %s is gone\n", words[1]), 3;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    memory = open(path, O_RDWR | O_CLOEXEC);
    if (memory < 0)
        fail(path);
    uint64_t at[ENTRIES];
    find_mappings();
    entries(at);
    if (strcmp(words[3], "set") == 0 && count == 8) {
        struct shift shift = {atoll(words[4]), monotonic_ns(), atoll(words[5]), atoll(words[6]),
                              atoll(words[7])};
        if (patched(at))
            update(&shift);
        else
            install(at, &shift);
    } else if (strcmp(words[3], "off") == 0 && patched(at))
        restore(at);
    return report(at);
}
