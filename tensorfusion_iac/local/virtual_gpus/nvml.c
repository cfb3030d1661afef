/* A libnvidia-ml.so.1 of our own: the calls that the agent makes, answered from a mapped file (FAKE_NVML_STATE names it).
 *
 * The prototypes are written from NVIDIA's public API documentation and checked against pynvml's structures by
 * test_fake_nvml.py. It proves the agent's logic, not the driver. Built with -DWITHOUT_MEMORY_LIMITS it lacks the symbols that
 * drivers before r615 lack.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define EXPORT __attribute__((visibility("default")))

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9, TIMEOUT = 10, GPU_IS_LOST = 15, IN_USE = 19, INSUFFICIENT_RESOURCES = 23,
    ARGUMENT_VERSION_MISMATCH = 25, UNKNOWN = 999,
};
#define MEMORY_V2 0x02000028u
#define PROCESSES_UTILIZATION_V1 0x01000018u
#define GPU_INSTANCE_PROFILE_V2 0x02000098u
#define COMPUTE_INSTANCE_PROFILE_V2 0x02000088u
#define FIELD_RECOVERY_ACTION 230
#define LIMIT_MAX UINT64_MAX

typedef int ret;

struct device { uint32_t card; int32_t instance; /* -1: the card itself */ };
struct gpu_instance { uint32_t card; uint32_t slot; };
struct event_set { uint64_t seen; uint64_t types[FAKE_CARDS]; };

struct memory_v1 { unsigned long long total, free, used; };
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
struct utilization { unsigned gpu, memory; };
struct process_v3 { unsigned pid; unsigned long long used; unsigned gpu_instance, compute_instance; };
struct util_sample { unsigned pid; unsigned long long time; unsigned sm, mem, enc, dec; };
struct util_info { unsigned long long time; unsigned pid, sm, mem, enc, dec, jpg, ofa; };
struct util_infos { unsigned version, count; unsigned long long last_seen; struct util_info *array; };
struct pci { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };
struct event_data { struct device *device; unsigned long long type, data; unsigned gpu_instance, compute_instance; };
struct field_value {
    unsigned field, scope; long long timestamp, latency; int type, result;
    union { double d; unsigned u; unsigned long long ull; } value;
};
struct placement { unsigned start, size; };
struct gpu_instance_profile {
    unsigned version, id, p2p, slices, instances, multiprocessors, copy, decoders, encoders, jpeg, ofa;
    unsigned long long memory_mb; char name[96];
};
struct gpu_instance_info { struct device *device; unsigned id, profile_id; struct placement placement; };
struct compute_profile { unsigned version, id, slices, instances, multiprocessors, copy, dec, enc, jpeg, ofa; char name[96]; };
struct compute_info { struct device *device; struct gpu_instance *parent; unsigned id, profile_id; struct placement placement; };
struct limits_set { const char *name_space; unsigned long long soft, hard; };
struct limits_get { const char *name_space; unsigned long long soft, hard, used; };

/* For the test that compares them with pynvml's. */
EXPORT unsigned fakeSizeOf(const char *name) {
    struct { const char *name; unsigned size; } sizes[] = {
        {"c_nvmlMemory_t", sizeof(struct memory_v1)}, {"c_nvmlMemory_v2_t", sizeof(struct memory_v2)},
        {"c_nvmlUtilization_t", sizeof(struct utilization)}, {"c_nvmlProcessInfo_v3_t", sizeof(struct process_v3)},
        {"c_nvmlProcessUtilizationSample_t", sizeof(struct util_sample)},
        {"c_nvmlProcessUtilizationInfo_v1_t", sizeof(struct util_info)},
        {"c_nvmlProcessesUtilizationInfo_v1_t", sizeof(struct util_infos)}, {"nvmlPciInfo_t", sizeof(struct pci)},
        {"c_nvmlEventData_t", sizeof(struct event_data)}, {"c_nvmlFieldValue_t", sizeof(struct field_value)},
        {"c_nvmlGpuInstancePlacement_t", sizeof(struct placement)},
        {"c_nvmlGpuInstanceProfileInfo_v2_t", sizeof(struct gpu_instance_profile)},
        {"c_nvmlGpuInstanceInfo_t", sizeof(struct gpu_instance_info)},
        {"c_nvmlComputeInstanceProfileInfo_v2_t", sizeof(struct compute_profile)},
        {"c_nvmlComputeInstanceInfo_t", sizeof(struct compute_info)},
        {"c_nvmlSetMemoryLimits_v1_t", sizeof(struct limits_set)}, {"c_nvmlGetMemoryLimits_v1_t", sizeof(struct limits_get)},
        {"State", sizeof(struct fake_state)}, {"Card", sizeof(struct fake_card)}, {"Process", sizeof(struct fake_process)},
    };
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!strcmp(sizes[i].name, name)) return sizes[i].size;
    return 0;
}

static struct fake_state *state;
static int inits;
static uint32_t resets_at_init[FAKE_CARDS];
static struct device devices[FAKE_CARDS];
static struct device mig_devices[FAKE_CARDS][FAKE_INSTANCES];
static struct gpu_instance gpu_instances[FAKE_CARDS][FAKE_INSTANCES];
static struct gpu_instance compute_instances[FAKE_CARDS][FAKE_INSTANCES];

/* A test process starts the library again and again, each time for other cards. */
static ret map_state(void) {
    static char mapped_path[4096];
    const char *path = getenv("FAKE_NVML_STATE");
    if (!path) path = "/run/virtual-gpus/state"; /* where the runtime of a real node puts it */
    if (state && (inits || !strcmp(path, mapped_path))) return SUCCESS;
    if (state) munmap(state, sizeof *state);
    state = NULL;
    int file = open(path, O_RDWR);
    if (file < 0) return DRIVER_NOT_LOADED;
    struct stat found;
    if (fstat(file, &found) || (size_t)found.st_size < sizeof *state) { close(file); return DRIVER_NOT_LOADED; }
    void *mapped = mmap(NULL, sizeof *state, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (mapped == MAP_FAILED) return DRIVER_NOT_LOADED;
    state = mapped;
    snprintf(mapped_path, sizeof mapped_path, "%s", path);
    return state->magic == FAKE_MAGIC ? SUCCESS : UNKNOWN;
}

static ret overridden(const char *call, int card) {
    for (int i = 0; i < FAKE_OVERRIDES && state->overrides[i].call[0]; i++) {
        struct fake_override *rule = &state->overrides[i];
        if (!strcmp(rule->call, call) && (rule->card < 0 || rule->card == card)) return (ret)rule->code;
    }
    return SUCCESS;
}

static ret enter(const char *call) {
    if (!inits) return UNINITIALIZED;
    state->calls++;
    return overridden(call, -1);
}

static ret enter_card(const char *call, uint32_t card) {
    if (!inits) return UNINITIALIZED;
    state->calls++;
    if (card >= state->card_count) return INVALID_ARGUMENT;
    if (state->cards[card].error) return (ret)state->cards[card].error;
    if (state->cards[card].resets != resets_at_init[card]) return GPU_IS_LOST;
    return overridden(call, (int)card);
}

#define ENTER() do { ret code_ = enter(__func__); if (code_) return code_; } while (0)
#define ENTER_CARD(handle) \
    if (!(handle)) return INVALID_ARGUMENT; \
    do { ret code_ = enter_card(__func__, (handle)->card); if (code_) return code_; } while (0); \
    struct fake_card *card = &state->cards[(handle)->card]; (void)card
#define INSTANCE(handle) (&card->instances[(handle)->slot])

EXPORT ret nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    ret code = map_state();
    if (code) return code;
    if (state->init_error) return (ret)state->init_error;
    if (inits++) return SUCCESS;
    for (uint32_t i = 0; i < FAKE_CARDS; i++) {
        devices[i] = (struct device){i, -1};
        resets_at_init[i] = state->cards[i].resets;
        for (uint32_t j = 0; j < FAKE_INSTANCES; j++) {
            mig_devices[i][j] = (struct device){i, (int32_t)j};
            gpu_instances[i][j] = compute_instances[i][j] = (struct gpu_instance){i, j};
        }
    }
    return SUCCESS;
}
EXPORT ret nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
EXPORT ret nvmlShutdown(void) {
    if (!inits) return UNINITIALIZED;
    inits--;
    return SUCCESS;
}
EXPORT const char *nvmlErrorString(ret code) {
    static char text[32];
    snprintf(text, sizeof text, "fake error %d", code);
    return text;
}

static ret text(char *out, unsigned length, const char *value) {
    if (!out) return INVALID_ARGUMENT;
    if (strlen(value) >= length) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

EXPORT ret nvmlSystemGetDriverVersion(char *out, unsigned length) { ENTER(); return text(out, length, state->driver_version); }
EXPORT ret nvmlSystemGetNVMLVersion(char *out, unsigned length) { ENTER(); return text(out, length, state->driver_version); }
EXPORT ret nvmlSystemGetCudaDriverVersion_v2(int *out) { ENTER(); *out = (int)state->cuda_version; return SUCCESS; }

EXPORT ret nvmlDeviceGetCount_v2(unsigned *out) { ENTER(); *out = state->card_count; return SUCCESS; }
EXPORT ret nvmlDeviceGetHandleByIndex_v2(unsigned index, struct device **out) {
    ret code = enter_card(__func__, index);
    if (code) return code;
    *out = &devices[index];
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetHandleByUUID(const char *uuid, struct device **out) {
    ENTER();
    for (uint32_t i = 0; i < state->card_count; i++)
        if (!strcmp(state->cards[i].uuid, uuid)) { *out = &devices[i]; return (ret)state->cards[i].error; }
    return NOT_FOUND;
}
EXPORT ret nvmlDeviceGetHandleByPciBusId_v2(const char *bus, struct device **out) {
    ENTER();
    for (uint32_t i = 0; i < state->card_count; i++)
        if (!strcasecmp(state->cards[i].bus_id, bus)) { *out = &devices[i]; return (ret)state->cards[i].error; }
    return NOT_FOUND;
}
EXPORT ret nvmlDeviceGetIndex(struct device *device, unsigned *out) { ENTER_CARD(device); *out = device->card; return SUCCESS; }
EXPORT ret nvmlDeviceGetMinorNumber(struct device *device, unsigned *out) {
    ENTER_CARD(device);
    *out = device->card;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetUUID(struct device *device, char *out, unsigned length) {
    ENTER_CARD(device);
    return text(out, length, device->instance < 0 ? card->uuid : card->instances[device->instance].uuid);
}
EXPORT ret nvmlDeviceGetName(struct device *device, char *out, unsigned length) {
    ENTER_CARD(device);
    return text(out, length, card->name);
}
EXPORT ret nvmlDeviceGetNumaNodeId(struct device *device, int *out) {
    ENTER_CARD(device);
    if (card->numa_node < 0) return NOT_SUPPORTED;
    *out = card->numa_node;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetCudaComputeCapability(struct device *device, int *major, int *minor) {
    ENTER_CARD(device);
    *major = 9, *minor = 0;
    return SUCCESS;
}

static void pci_of(const char *bus_id, struct pci *out) {
    memset(out, 0, sizeof *out);
    sscanf(bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", bus_id);
    snprintf(out->legacy, sizeof out->legacy, "%.12s", bus_id + 4);
}
EXPORT ret nvmlDeviceGetPciInfo_v3(struct device *device, struct pci *out) {
    ENTER_CARD(device);
    pci_of(card->bus_id, out);
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetNvLinkState(struct device *device, unsigned link, unsigned *active) {
    ENTER_CARD(device);
    if (link >= FAKE_LINKS) return INVALID_ARGUMENT;
    *active = card->links[link][0] != 0;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetNvLinkRemotePciInfo_v2(struct device *device, unsigned link, struct pci *out) {
    ENTER_CARD(device);
    if (link >= FAKE_LINKS || !card->links[link][0]) return INVALID_ARGUMENT;
    pci_of(card->links[link], out);
    return SUCCESS;
}

static uint64_t used_bytes(const struct fake_card *card) {
    uint64_t used = 0;
    for (int i = 0; i < FAKE_PROCESSES; i++)
        if (card->processes[i].pid) used += card->processes[i].used_bytes;
    return used;
}
EXPORT ret nvmlDeviceGetMemoryInfo(struct device *device, struct memory_v1 *out) {
    ENTER_CARD(device);
    uint64_t used = used_bytes(card) + card->reserved_bytes;
    *out = (struct memory_v1){card->total_bytes, card->total_bytes - used, used};
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *out) {
    ENTER_CARD(device);
    if (out->version != MEMORY_V2) return ARGUMENT_VERSION_MISMATCH;
    uint64_t used = used_bytes(card);
    out->total = card->total_bytes, out->reserved = card->reserved_bytes, out->used = used;
    out->free = card->total_bytes - card->reserved_bytes - used;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetUtilizationRates(struct device *device, struct utilization *out) {
    ENTER_CARD(device);
    *out = (struct utilization){card->gpu_percent, 0};
    return SUCCESS;
}

static ret running(struct fake_card *card, uint32_t kind, unsigned *count, struct process_v3 *out) {
    unsigned found = 0;
    for (int i = 0; i < FAKE_PROCESSES; i++) {
        struct fake_process *process = &card->processes[i];
        if (!process->pid || process->kind != kind) continue;
        if (out && found < *count)
            out[found] = (struct process_v3){process->pid, process->used_bytes, process->gpu_instance, process->compute_instance};
        found++;
    }
    unsigned room = *count;
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
EXPORT ret nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned *count, struct process_v3 *out) {
    ENTER_CARD(device);
    return running(card, KIND_COMPUTE, count, out);
}
EXPORT ret nvmlDeviceGetGraphicsRunningProcesses_v3(struct device *device, unsigned *count, struct process_v3 *out) {
    ENTER_CARD(device);
    return running(card, KIND_GRAPHICS, count, out);
}
EXPORT ret nvmlDeviceGetMPSComputeRunningProcesses_v3(struct device *device, unsigned *count, struct process_v3 *out) {
    ENTER_CARD(device);
    return running(card, KIND_MPS, count, out);
}

/* The newest sample of each process that is newer than `since`, as the driver gives them. */
static unsigned newest(struct fake_card *card, uint64_t since, const struct fake_sample **found) {
    unsigned count = 0;
    uint64_t end = __atomic_load_n(&card->sample_count, __ATOMIC_ACQUIRE);
    uint64_t begin = end > FAKE_SAMPLES ? end - FAKE_SAMPLES : 0;
    for (uint64_t at = end; at > begin && count < FAKE_PROCESSES; at--) {
        const struct fake_sample *sample = &card->samples[(at - 1) % FAKE_SAMPLES];
        if (sample->time_us <= since) continue;
        unsigned known = 0;
        while (known < count && found[known]->pid != sample->pid) known++;
        if (known == count) found[count++] = sample;
    }
    return count;
}
EXPORT ret nvmlDeviceGetProcessUtilization(struct device *device, struct util_sample *out, unsigned *count,
                                           unsigned long long since) {
    ENTER_CARD(device);
    if (card->mig_current) return NOT_SUPPORTED;
    const struct fake_sample *found[FAKE_PROCESSES];
    unsigned fresh = newest(card, since, found);
    if (!fresh) { *count = 0; return card->idle_success ? SUCCESS : NOT_FOUND; }
    if (!out || *count < fresh) { *count = fresh; return INSUFFICIENT_SIZE; }
    for (unsigned i = 0; i < fresh; i++)
        out[i] = (struct util_sample){found[i]->pid, found[i]->time_us, found[i]->sm, found[i]->memory, 0, 0};
    *count = fresh;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetProcessesUtilizationInfo(struct device *device, struct util_infos *infos) {
    ENTER_CARD(device);
    if (infos->version != PROCESSES_UTILIZATION_V1) return ARGUMENT_VERSION_MISMATCH;
    if (card->mig_current) return NOT_SUPPORTED;
    const struct fake_sample *found[FAKE_PROCESSES];
    unsigned fresh = newest(card, infos->last_seen, found);
    if (!fresh) { infos->count = 0; return card->idle_success ? SUCCESS : NOT_FOUND; }
    if (!infos->array || infos->count < fresh) { infos->count = fresh; return INSUFFICIENT_SIZE; }
    for (unsigned i = 0; i < fresh; i++)
        infos->array[i] = (struct util_info){found[i]->time_us, found[i]->pid, found[i]->sm, found[i]->memory, 0, 0, 0, 0};
    infos->count = fresh;
    return SUCCESS;
}

EXPORT ret nvmlDeviceGetComputeMode(struct device *device, unsigned *out) {
    ENTER_CARD(device);
    *out = card->compute_mode;
    return SUCCESS;
}
EXPORT ret nvmlDeviceSetComputeMode(struct device *device, unsigned mode) {
    ENTER_CARD(device);
    card->compute_mode = mode;
    return SUCCESS;
}

/* Health */
EXPORT ret nvmlDeviceGetRemappedRows(struct device *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                                     unsigned *failed) {
    ENTER_CARD(device);
    *corrected = card->remapped[0], *uncorrected = card->remapped[1];
    *pending = card->remapped[2], *failed = card->remapped[3];
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetTotalEccErrors(struct device *device, unsigned type, unsigned counter, unsigned long long *out) {
    ENTER_CARD(device);
    (void)counter;
    *out = type == 1 ? card->ecc_uncorrected : 0;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetCurrentClocksEventReasons(struct device *device, unsigned long long *out) {
    ENTER_CARD(device);
    *out = card->clocks_reasons;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetFieldValues(struct device *device, int count, struct field_value *values) {
    ENTER_CARD(device);
    for (int i = 0; i < count; i++) {
        int known = values[i].field == FIELD_RECOVERY_ACTION && card->recovery_supported;
        values[i].result = known ? SUCCESS : NOT_SUPPORTED;
        values[i].type = 1;
        if (known) values[i].value.u = card->recovery_action;
    }
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetSupportedEventTypes(struct device *device, unsigned long long *out) {
    ENTER_CARD(device);
    *out = 0x0000000000000008ull | 0x2ull;
    return SUCCESS;
}
EXPORT ret nvmlEventSetCreate(struct event_set **out) {
    ENTER();
    *out = calloc(1, sizeof **out);
    (*out)->seen = state->event_count;
    return SUCCESS;
}
EXPORT ret nvmlDeviceRegisterEvents(struct device *device, unsigned long long types, struct event_set *set) {
    ENTER_CARD(device);
    set->types[device->card] |= types;
    return SUCCESS;
}
EXPORT ret nvmlEventSetWait_v2(struct event_set *set, struct event_data *out, unsigned timeout_ms) {
    ENTER();
    for (unsigned waited = 0;; waited += 20) {
        while (set->seen < __atomic_load_n(&state->event_count, __ATOMIC_ACQUIRE)) {
            struct fake_event *event = &state->events[set->seen++ % FAKE_EVENTS];
            if (event->card >= FAKE_CARDS || !(set->types[event->card] & event->type)) continue;
            *out = (struct event_data){&devices[event->card], event->type, event->data, 0xFFFFFFFFu, 0xFFFFFFFFu};
            return SUCCESS;
        }
        if (waited >= timeout_ms) return TIMEOUT;
        usleep(20000);
    }
}
EXPORT ret nvmlEventSetFree(struct event_set *set) { free(set); return SUCCESS; }

/* Memory limits: r615 and newer */
#ifndef WITHOUT_MEMORY_LIMITS
static struct fake_limit *limit_of(struct fake_card *card, const char *path, int make) {
    for (int i = 0; i < FAKE_LIMITS; i++)
        if (!strcmp(card->limits[i].path, path)) return &card->limits[i];
    for (int i = 0; make && i < FAKE_LIMITS; i++)
        if (!card->limits[i].path[0]) return &card->limits[i];
    return NULL;
}
EXPORT ret nvmlDeviceSetMemoryLimits_v1(struct device *device, struct limits_set *wanted) {
    ENTER_CARD(device);
    if (!wanted->name_space || strlen(wanted->name_space) >= sizeof card->limits[0].path) return INVALID_ARGUMENT;
    if (card->mig_current) return NOT_SUPPORTED;
    int clears = wanted->soft == 0 && wanted->hard == LIMIT_MAX;
    if (!clears && access(wanted->name_space, F_OK)) return NOT_FOUND;
    struct fake_limit *limit = limit_of(card, wanted->name_space, !clears);
    if (!limit) return clears ? SUCCESS : INSUFFICIENT_RESOURCES;
    if (clears) { memset(limit, 0, sizeof *limit); return SUCCESS; }
    limit->soft_bytes = wanted->soft, limit->hard_bytes = wanted->hard;
    strcpy(limit->path, wanted->name_space);
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetMemoryLimits_v1(struct device *device, struct limits_get *out) {
    ENTER_CARD(device);
    if (!out->name_space) return INVALID_ARGUMENT;
    struct fake_limit *limit = limit_of(card, out->name_space, 0);
    out->soft = limit ? limit->soft_bytes : 0, out->hard = limit ? limit->hard_bytes : LIMIT_MAX, out->used = 0;
    return SUCCESS;
}
#endif

/* MIG */
EXPORT ret nvmlDeviceGetMigMode(struct device *device, unsigned *current, unsigned *pending) {
    ENTER_CARD(device);
    if (!card->mig_supported) return NOT_SUPPORTED;
    *current = card->mig_current, *pending = card->mig_pending;
    return SUCCESS;
}
EXPORT ret nvmlDeviceSetMigMode(struct device *device, unsigned mode, ret *status) {
    ENTER_CARD(device);
    if (!card->mig_supported) return NOT_SUPPORTED;
    *status = SUCCESS;
    for (int i = 0; i < FAKE_PROCESSES; i++)
        if (card->processes[i].pid) { card->mig_pending = mode; *status = IN_USE; return SUCCESS; }
    for (int i = 0; i < FAKE_INSTANCES; i++)
        if (card->instances[i].exists) return IN_USE;
    card->mig_current = card->mig_pending = mode;
    return SUCCESS;
}
static struct fake_profile *profile_by(struct fake_card *card, uint32_t value, int by_index) {
    for (int i = 0; i < FAKE_PROFILES && card->profiles[i].name[0]; i++)
        if ((by_index ? card->profiles[i].index : card->profiles[i].id) == value) return &card->profiles[i];
    return NULL;
}
EXPORT ret nvmlDeviceGetGpuInstanceProfileInfoV(struct device *device, unsigned index, struct gpu_instance_profile *out) {
    ENTER_CARD(device);
    if (out->version != GPU_INSTANCE_PROFILE_V2) return ARGUMENT_VERSION_MISMATCH;
    struct fake_profile *profile = profile_by(card, index, 1);
    if (!card->mig_current || !profile) return NOT_SUPPORTED;
    *out = (struct gpu_instance_profile){.version = out->version, .id = profile->id, .slices = profile->slices,
                                         .instances = profile->instances, .memory_mb = profile->memory_mb};
    snprintf(out->name, sizeof out->name, "MIG %.80s", profile->name);
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetGpuInstancePossiblePlacements_v2(struct device *device, unsigned id, struct placement *out,
                                                         unsigned *count) {
    ENTER_CARD(device);
    struct fake_profile *profile = profile_by(card, id, 0);
    if (!card->mig_current || !profile) return NOT_SUPPORTED;
    if (out && *count < profile->start_count) return INSUFFICIENT_SIZE;
    for (unsigned i = 0; out && i < profile->start_count; i++) out[i] = (struct placement){profile->starts[i], profile->size};
    *count = profile->start_count;
    return SUCCESS;
}
EXPORT ret nvmlDeviceCreateGpuInstanceWithPlacement(struct device *device, unsigned id, const struct placement *wanted,
                                                    struct gpu_instance **out) {
    ENTER_CARD(device);
    struct fake_profile *profile = profile_by(card, id, 0);
    if (!card->mig_current || !profile) return NOT_SUPPORTED;
    int allowed = 0, free_slot = -1;
    for (unsigned i = 0; i < profile->start_count; i++) allowed |= profile->starts[i] == wanted->start;
    if (!allowed || wanted->size != profile->size) return INVALID_ARGUMENT;
    for (int i = FAKE_INSTANCES - 1; i >= 0; i--) {
        struct fake_instance *other = &card->instances[i];
        if (!other->exists) { free_slot = i; continue; }
        if (other->start < wanted->start + wanted->size && wanted->start < other->start + other->size)
            return INSUFFICIENT_RESOURCES;
    }
    if (free_slot < 0) return INSUFFICIENT_RESOURCES;
    card->instances[free_slot] = (struct fake_instance){
        .exists = 1, .id = (uint32_t)free_slot + 1, .profile_id = id, .start = wanted->start, .size = wanted->size,
        .slices = profile->slices};
    *out = &gpu_instances[device->card][free_slot];
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetGpuInstances(struct device *device, unsigned id, struct gpu_instance **out, unsigned *count) {
    ENTER_CARD(device);
    unsigned found = 0;
    for (uint32_t i = 0; i < FAKE_INSTANCES; i++)
        if (card->instances[i].exists && card->instances[i].profile_id == id) out[found++] = &gpu_instances[device->card][i];
    *count = found;
    return SUCCESS;
}
EXPORT ret nvmlGpuInstanceGetInfo(struct gpu_instance *instance, struct gpu_instance_info *out) {
    ENTER_CARD(instance);
    struct fake_instance *found = INSTANCE(instance);
    if (!found->exists) return NOT_FOUND;
    *out = (struct gpu_instance_info){&devices[instance->card], found->id, found->profile_id, {found->start, found->size}};
    return SUCCESS;
}
EXPORT ret nvmlGpuInstanceDestroy(struct gpu_instance *instance) {
    ENTER_CARD(instance);
    if (INSTANCE(instance)->has_compute || INSTANCE(instance)->busy) return IN_USE;
    memset(INSTANCE(instance), 0, sizeof(struct fake_instance));
    return SUCCESS;
}
EXPORT ret nvmlGpuInstanceGetComputeInstanceProfileInfoV(struct gpu_instance *instance, unsigned index, unsigned engine,
                                                         struct compute_profile *out) {
    ENTER_CARD(instance);
    (void)engine;
    if (out->version != COMPUTE_INSTANCE_PROFILE_V2) return ARGUMENT_VERSION_MISMATCH;
    const unsigned slices[] = {1, 2, 3, 4, 7, 8, 6, 1, 7};
    if (index >= sizeof slices / sizeof *slices || slices[index] > INSTANCE(instance)->slices) return NOT_SUPPORTED;
    *out = (struct compute_profile){.version = out->version, .id = index, .slices = slices[index], .instances = 1};
    return SUCCESS;
}
EXPORT ret nvmlGpuInstanceCreateComputeInstance(struct gpu_instance *instance, unsigned id, struct gpu_instance **out) {
    ENTER_CARD(instance);
    struct fake_instance *parent = INSTANCE(instance);
    (void)id;
    if (!parent->exists || parent->has_compute) return INSUFFICIENT_RESOURCES;
    static unsigned made;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    snprintf(parent->uuid, sizeof parent->uuid, "MIG-%08x-%04x-5000-8000-%08x%04x", (unsigned)now.tv_nsec, instance->slot,
             instance->card, ++made & 0xffff);
    parent->has_compute = 1;
    *out = &compute_instances[instance->card][instance->slot];
    return SUCCESS;
}
EXPORT ret nvmlGpuInstanceGetComputeInstances(struct gpu_instance *instance, unsigned id, struct gpu_instance **out,
                                              unsigned *count) {
    ENTER_CARD(instance);
    (void)id;
    *count = INSTANCE(instance)->has_compute;
    if (*count) out[0] = &compute_instances[instance->card][instance->slot];
    return SUCCESS;
}
EXPORT ret nvmlComputeInstanceGetInfo_v2(struct gpu_instance *instance, struct compute_info *out) {
    ENTER_CARD(instance);
    if (!INSTANCE(instance)->has_compute) return NOT_FOUND;
    *out = (struct compute_info){&devices[instance->card], &gpu_instances[instance->card][instance->slot], 0, 0, {0, 1}};
    return SUCCESS;
}
EXPORT ret nvmlComputeInstanceDestroy(struct gpu_instance *instance) {
    ENTER_CARD(instance);
    if (INSTANCE(instance)->busy) return IN_USE;
    INSTANCE(instance)->has_compute = 0;
    INSTANCE(instance)->uuid[0] = 0;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned *out) {
    ENTER_CARD(device);
    *out = card->mig_supported ? FAKE_INSTANCES : 0;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned index, struct device **out) {
    ENTER_CARD(device);
    if (index >= FAKE_INSTANCES || !card->instances[index].has_compute) return NOT_FOUND;
    *out = &mig_devices[device->card][index];
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetGpuInstanceId(struct device *device, unsigned *out) {
    ENTER_CARD(device);
    if (device->instance < 0) return INVALID_ARGUMENT;
    *out = card->instances[device->instance].id;
    return SUCCESS;
}
EXPORT ret nvmlDeviceGetComputeInstanceId(struct device *device, unsigned *out) {
    ENTER_CARD(device);
    *out = 0;
    return SUCCESS;
}
