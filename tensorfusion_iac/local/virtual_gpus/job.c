/* A virtual GPU job: a real process that asks a simulated card for work as a CUDA program does.
 *
 * Usage: job STATE CARD KERNEL_US SUBMIT_US SYNC_KERNELS DEPTH VRAM_BYTES [SECONDS]
 * CARD is an index, or `-` for the first card of NVIDIA_VISIBLE_DEVICES. Each kernel takes KERNEL_US of the card and SUBMIT_US of the job's own time to submit; after SYNC_KERNELS of them it waits for
 * all (0: never); it runs at most DEPTH kernels ahead of the card. It asks while it runs and cannot while it is frozen.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

static volatile sig_atomic_t ended;
static void end(int signal) { (void)signal; ended = 1; }

static void pause_us(uint64_t us) {
    struct timespec span = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&span, NULL);
}

static struct fake_process *claim(struct fake_card *card, uint32_t pid) {
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        uint32_t none = 0;
        if (__atomic_compare_exchange_n(&card->processes[i].pid, &none, pid, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return &card->processes[i];
    }
    return NULL;
}

/* The card to work on: by index, or the one that the container sees. */
static struct fake_card *chosen(struct fake_state *state, const char *which) {
    const char *visible = getenv("NVIDIA_VISIBLE_DEVICES");
    for (uint32_t i = 0; i < state->card_count; i++) {
        struct fake_card *card = &state->cards[i];
        size_t length = strlen(card->uuid);
        if (strcmp(which, "-") ? (uint32_t)atoi(which) == i
                               : visible && !strncmp(visible, card->uuid, length) && strchr(",", visible[length]))
            return card;
    }
    return NULL;
}

/* Let a working card say by which number its node knows us; without one, our own is it. */
static void appear(struct fake_process *job, int file, off_t slot) {
    hold(file, slot);
    __atomic_store_n(&job->is_job, 1, __ATOMIC_RELEASE);
    for (int waited_ms = 0; holder(file, 0) && waited_ms < 2000; waited_ms++) {
        if (__atomic_load_n(&job->kind, __ATOMIC_ACQUIRE) != KIND_FREE) return;
        pause_us(1000);
    }
    __atomic_store_n(&job->kind, KIND_COMPUTE, __ATOMIC_RELEASE);
}

static uint64_t pending(const struct fake_process *job) {
    return job->submitted_ns - __atomic_load_n(&job->drained_ns, __ATOMIC_ACQUIRE);
}

int main(int argc, char **argv) {
    if (argc < 8) { fprintf(stderr, "usage: job STATE CARD KERNEL_US SUBMIT_US SYNC_KERNELS DEPTH VRAM_BYTES [SECONDS]\n"); return 2; }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int file = open(argv[1], O_RDWR);
    struct fake_state *state = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (state == MAP_FAILED || state->magic != FAKE_MAGIC) { fprintf(stderr, "job: %s is no state\n", argv[1]); return 1; }
    uint64_t kernel_ns = strtoull(argv[3], NULL, 10) * 1000, submit_us = strtoull(argv[4], NULL, 10);
    uint64_t sync_kernels = strtoull(argv[5], NULL, 10), depth = strtoull(argv[6], NULL, 10);
    struct fake_card *card = chosen(state, argv[2]);
    if (!card) { fprintf(stderr, "job: there is no card %s\n", argv[2]); return 1; }
    struct fake_process *job = claim(card, (uint32_t)getpid());
    if (!job) { fprintf(stderr, "job: too many processes\n"); return 1; }
    job->used_bytes = strtoull(argv[7], NULL, 10);
    job->gpu_instance = job->compute_instance = 0xFFFFFFFFu;
    appear(job, file, (char *)job - (char *)state);
    signal(SIGTERM, end);
    time_t deadline = argc > 8 ? time(NULL) + atoi(argv[8]) : 0;
    puts("ready");
    fflush(stdout);
    for (uint64_t kernels = 1; !ended && (!deadline || time(NULL) < deadline); kernels++) {
        if (submit_us) pause_us(submit_us);
        __atomic_store_n(&job->submitted_ns, job->submitted_ns + kernel_ns, __ATOMIC_RELEASE);
        while (!ended && pending(job) >= depth * kernel_ns) pause_us(kernel_ns / 4000 + 50);
        if (sync_kernels && kernels % sync_kernels == 0)
            while (!ended && pending(job)) pause_us(300);
    }
    memset(job, 0, sizeof *job);
    return 0;
}
