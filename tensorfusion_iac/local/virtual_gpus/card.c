/* The simulated cards at work: gives GPU time to the jobs that have asked for it, in equal parts, and takes utilisation samples.
 *
 * Usage: card STATE. Each millisecond the time that has really passed is handed out; queued work is done whether its process is
 * frozen or not, as on a real card. Ends when its parent does, or by SIGTERM.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define WINDOW_NS 166666667ull /* NVML's shortest sample period, 1/6 s */

static uint64_t now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* Hand out `span` nanoseconds: equal parts to all with work, what one does not need to the others. */
static uint64_t drain(struct fake_card *card, uint64_t span) {
    uint64_t given = 0;
    while (span > 0) {
        int hungry = 0;
        uint64_t least = UINT64_MAX;
        for (int i = 0; i < FAKE_PROCESSES; i++) {
            struct fake_process *job = &card->processes[i];
            uint64_t pending = job->pid && job->is_job ? job->submitted_ns - job->drained_ns : 0;
            if (!pending) continue;
            hungry++;
            if (pending < least) least = pending;
        }
        if (!hungry) break;
        uint64_t part = span / (uint64_t)hungry;
        if (part > least) part = least;
        if (!part) break;
        for (int i = 0; i < FAKE_PROCESSES; i++) {
            struct fake_process *job = &card->processes[i];
            if (!job->pid || !job->is_job || job->submitted_ns - job->drained_ns < part) continue;
            job->window_ns += part;
            __atomic_store_n(&job->drained_ns, job->drained_ns + part, __ATOMIC_RELEASE);
            given += part;
        }
        span -= part * (uint64_t)hungry;
    }
    return given;
}

/* Jobs that came or went: new ones get the number by which this node knows them, and are seen from then on. */
static void look_for_jobs(struct fake_state *state, int file, uint32_t only_new) {
    for (uint32_t card = 0; card < state->card_count; card++) {
        for (int i = 0; i < FAKE_PROCESSES; i++) {
            struct fake_process *job = &state->cards[card].processes[i];
            if (!__atomic_load_n(&job->is_job, __ATOMIC_ACQUIRE) || (only_new && job->kind != KIND_FREE)) continue;
            pid_t pid = holder(file, (char *)job - (char *)state);
            if (!pid) { memset(job, 0, sizeof *job); continue; }
            job->pid = (uint32_t)pid;
            if (job->kind == KIND_FREE) __atomic_store_n(&job->kind, KIND_COMPUTE, __ATOMIC_RELEASE);
        }
    }
}

static void take_samples(struct fake_card *card, uint64_t window, uint64_t busy) {
    uint64_t time_us = now_ns(CLOCK_REALTIME) / 1000;
    card->gpu_percent = (uint32_t)((busy * 100 + window / 2) / window);
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        struct fake_process *job = &card->processes[i];
        if (!job->pid || !job->is_job) continue;
        uint64_t percent = (job->window_ns * 100 + window / 2) / window;
        job->window_ns = 0;
        if (percent) {
            card->samples[card->sample_count % FAKE_SAMPLES] =
                (struct fake_sample){time_us, job->pid, (uint32_t)(percent > 100 ? 100 : percent), 0, 0};
            __atomic_store_n(&card->sample_count, card->sample_count + 1, __ATOMIC_RELEASE);
        }
    }
}

int main(int argc, char **argv) {
    if (argc != 2) { fprintf(stderr, "usage: card STATE\n"); return 2; }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int file = open(argv[1], O_RDWR);
    struct fake_state *state = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (state == MAP_FAILED || state->magic != FAKE_MAGIC) { fprintf(stderr, "card: %s is no state\n", argv[1]); return 1; }
    hold(file, 0);
    uint64_t last = now_ns(CLOCK_MONOTONIC), window_began = last, busy[FAKE_CARDS] = {0};
    for (;;) {
        struct timespec tick = {0, 1000000};
        nanosleep(&tick, NULL);
        uint64_t now = now_ns(CLOCK_MONOTONIC), span = now - last;
        last = now;
        look_for_jobs(state, file, 1);
        for (uint32_t i = 0; i < state->card_count; i++) busy[i] += drain(&state->cards[i], span);
        if (now - window_began < WINDOW_NS) continue;
        for (uint32_t i = 0; i < state->card_count; i++) take_samples(&state->cards[i], now - window_began, busy[i]), busy[i] = 0;
        look_for_jobs(state, file, 0);
        window_began = now;
    }
}
