/* The state of the simulated cards: one mapped file, written by tests (cards.py has the same layout), by the fake library, by
 * the card that drains queues, and by virtual jobs. Each field has one writer, so there are no locks for a frozen process to hold.
 *
 * A job holds a record lock on the first byte of its slot, and a working card one on the first byte of the file. They keep nobody
 * out: the kernel says who holds a lock in the asker's own PID namespace, so the card learns the number by which its node knows a
 * job in a container, and that a job has ended, as a driver would.
 */
#ifndef TENSORFUSION_FAKE_STATE_H
#define TENSORFUSION_FAKE_STATE_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/types.h>

#define FAKE_MAGIC 0x54464e56u
#define FAKE_CARDS 16
#define FAKE_PROCESSES 512
#define FAKE_SAMPLES 2048
#define FAKE_LIMITS 64
#define FAKE_PROFILES 20
#define FAKE_STARTS 16
#define FAKE_INSTANCES 16
#define FAKE_EVENTS 64
#define FAKE_OVERRIDES 32
#define FAKE_LINKS 18

enum { KIND_FREE = 0, KIND_COMPUTE = 1, KIND_GRAPHICS = 2, KIND_MPS = 3 };

struct fake_process {
    uint32_t pid;  /* claimed by compare-and-swap from 0, with the job's own number; the card puts the node's there */
    uint32_t kind; /* a working card sets a job's, once it knows its number; nobody sees it before */
    uint64_t used_bytes;
    uint32_t gpu_instance; /* 0xFFFFFFFF: none */
    uint32_t compute_instance;
    uint32_t is_job; /* a virtual job, which the card forgets when it is dead */
    uint32_t padding;
    uint64_t submitted_ns; /* by the job: GPU time asked for since its start */
    uint64_t drained_ns;   /* by the card: GPU time given to it */
    uint64_t window_ns;    /* by the card: given in the present sample window */
};

struct fake_sample {
    uint64_t time_us;
    uint32_t pid;
    uint32_t sm;
    uint32_t memory;
    uint32_t padding;
};

struct fake_limit {
    char path[512]; /* empty: free */
    uint64_t soft_bytes;
    uint64_t hard_bytes;
};

struct fake_profile {
    char name[96]; /* empty: end of the table */
    uint32_t index; /* NVML_GPU_INSTANCE_PROFILE_* */
    uint32_t id;    /* what the driver calls it; not the index, and another one on other cards */
    uint32_t slices;
    uint32_t instances;
    uint32_t size;
    uint32_t start_count;
    uint32_t starts[FAKE_STARTS];
    uint64_t memory_mb;
};

struct fake_instance {
    uint32_t exists;
    uint32_t id;
    uint32_t profile_id;
    uint32_t start;
    uint32_t size;
    uint32_t slices;
    uint32_t has_compute;
    uint32_t busy; /* a process is in it: destroying answers IN_USE */
    char uuid[80];
};

struct fake_card {
    char uuid[80];
    char name[96];
    char bus_id[32];
    uint64_t total_bytes;
    uint64_t reserved_bytes;
    int32_t numa_node;
    uint32_t error; /* what every call about the card answers; 15 is GPU_IS_LOST */
    uint32_t resets; /* handles from before the last reset are stale */
    uint32_t compute_mode;
    uint32_t mig_supported;
    uint32_t mig_current;
    uint32_t mig_pending;
    uint32_t recovery_action;
    uint32_t recovery_supported;
    uint32_t remapped[4]; /* corrected, uncorrected, pending, failed */
    uint64_t ecc_uncorrected;
    uint64_t clocks_reasons;
    uint32_t gpu_percent;
    uint32_t idle_success; /* no samples: SUCCESS with none, as some drivers answer, instead of NOT_FOUND */
    char links[FAKE_LINKS][32]; /* bus id of the other card of each NVLink; empty: off */
    struct fake_process processes[FAKE_PROCESSES];
    struct fake_sample samples[FAKE_SAMPLES];
    uint64_t sample_count; /* ever written; the newest FAKE_SAMPLES are kept */
    struct fake_limit limits[FAKE_LIMITS];
    struct fake_profile profiles[FAKE_PROFILES];
    struct fake_instance instances[FAKE_INSTANCES];
};

struct fake_event {
    uint64_t type;
    uint64_t data;
    uint32_t card;
    uint32_t padding;
};

struct fake_override {
    char call[64];
    int32_t card; /* -1: every card */
    uint32_t code;
};

struct fake_state {
    uint32_t magic;
    uint32_t card_count;
    char driver_version[80];
    uint32_t cuda_version;
    uint32_t init_error;
    struct fake_override overrides[FAKE_OVERRIDES];
    struct fake_event events[FAKE_EVENTS];
    uint64_t event_count;
    uint64_t calls; /* by the library: how many calls it has answered */
    struct fake_card cards[FAKE_CARDS];
};

/* Lock one byte of a file for as long as this process lives. */
static inline int hold(int file, off_t at) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(file, F_SETLKW, &lock); /* its last holder may be about to end */
}

/* The process that holds the lock on a byte, by its number in our PID namespace; 0: nobody does. */
static inline pid_t holder(int file, off_t at) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(file, F_GETLK, &lock) || lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

#endif
