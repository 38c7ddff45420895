/* A libnvidia-ml.so.1 that plays recorded machines and faults, for the real pynvml to load.
 *
 * FAKE_NVML_MACHINE    one of the names below (default h100x2); NAMExN is N of NAME, "none" lists no GPU
 * FAKE_NVML_FAULTS     a file of lines "CALL INDEX CODE": CALL answers CODE for that GPU (INDEX -1: for every GPU, and
 *                      for calls about none); CODE -1 hangs. It may change at any time. CALL may also be
 *                      "field:NUMBER" for one field value, "gpm:NUMBER" for one activity metric, and
 *                      "power-not-available", "energy-joules" (CODE thousand joules more) for what is told.
 * FAKE_NVML_PROCESSES  a file of lines "INDEX PID BYTES INSTANCE" (BYTES and INSTANCE -1: not known)
 * FAKE_NVML_EVENTS     a file of lines "INDEX XID"; each new line is one event
 * FAKE_NVML_LEFT       a file that nvmlShutdown writes what was not given back into: "samples N"
 *
 * Built with -DWITHOUT_MEMORY_V2, -DWITHOUT_PROCESSES_V3, -DWITHOUT_EVENT_REASONS, -DWITHOUT_FIELDS, -DWITHOUT_GPM or
 * -DWITHOUT_EVENTS it is a driver from before those symbols; with -DBAD_WORDS its names are no UTF-8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define TIMEOUT 10
#define VERSION_MISMATCH 25
#define NOT_AVAILABLE 0xFFFFFFFFu
#define MOST_GPUS 16
#define MOST_PLACES 7
#define ABSENT (-1)

enum { MEMORY_V2, MEMORY_V1, MEMORY_NONE, MEMORY_LIES };

typedef struct {
  const char *machine, *uuid, *name;
  int utilization; /* ABSENT: not supported */
  unsigned long long total, reserved, used;
  int memory;
  unsigned milliwatts;
  long long millijoules;
  unsigned celsius;
  int limit_milliwatts, memory_celsius, margin, slowdown, shutdown, memory_max;
  int sm, sm_max, memory_clock, memory_clock_max;
  unsigned long long events;
  int generation, generation_max, width, width_max;
  int mig;   /* ABSENT: cannot be partitioned */
  int ecc;   /* ABSENT: has none; 0: switched off */
  int remap; /* ABSENT: has none; else rows replaced because of uncorrectable errors */
  int recovery;
  int links, nvlink; /* how many, and of which generation */
  int gpm;
} Gpu;

/* Answers as recorded on real machines, figures rounded. */
static const Gpu GPUS[] = {
    {"h100x2", "GPU-8f6d2a31-0000-4a6e-9d1c-5a1f00000000", "NVIDIA H100 80GB HBM3", 87, 85520809984ULL, 576716800ULL,
     72477573120ULL, MEMORY_V2, 512345, 123456789012LL, 61, 700000, 74, 26, 89, 92, 95, 1755, 1980, 2619, 2619, 0x4, 5,
     5, 16, 16, 0, 1, 1, 0, 18, 4, 1},
    {"h100x2", "GPU-8f6d2a31-0001-4a6e-9d1c-5a1f00000001", "NVIDIA H100 80GB HBM3", 0, 85520809984ULL, 576716800ULL, 0,
     MEMORY_V2, 71210, 98765432109LL, 33, 700000, 41, 54, 89, 92, 95, 345, 1980, 2619, 2619, 0x1, 1, 5, 16, 16, 0, 1, 0,
     0, 18, 4, 1},
    {"h200", "GPU-a0010200-0000-4b17-8a22-0c9d00000000", "NVIDIA H200", 96, 150754820096ULL, 645922816ULL,
     139586437120ULL, MEMORY_V2, 641002, 9876543210123LL, 66, 700000, 78, 21, 89, 92, 95, 1980, 1980, 3201, 3201, 0x4,
     5, 5, 16, 16, 0, 1, 0, 0, 18, 4, 1},
    {"gb200", "GPU-b2000000-0000-11f0-9a61-3cfdfe000000", "NVIDIA GB200", 93, 198126338048ULL, 702545920ULL,
     170000000000ULL, MEMORY_V2, 1043210, 44556677889900LL, 58, 1200000, 71, 29, ABSENT, ABSENT, ABSENT, 1965, 2062,
     3996, 3996, 0x4, 6, 6, 16, 16, 0, 1, 0, 1, 18, 5, 1},
    {"gb10", "GPU-10100000-0000-1212-8a4e-9c6b00000000", "NVIDIA GB10", 35, 0, 0, 0, MEMORY_NONE, 31250, ABSENT, 57,
     ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, 2405, 3003, ABSENT, ABSENT, 0, 5, 5, 1, 16, ABSENT, ABSENT,
     ABSENT, ABSENT, 0, 0, 0},
    {"gb10-lies", "GPU-10100000-0001-1212-8a4e-9c6b00000001", "NVIDIA GB10", 35, 0, 0, 4096, MEMORY_LIES, 31250, ABSENT,
     57, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, ABSENT, 2405, 3003, ABSENT, ABSENT, 0, 5, 5, 1, 16, ABSENT, ABSENT,
     ABSENT, ABSENT, 0, 0, 0},
    {"geforce", "GPU-3b1c77de-0000-11ee-8c99-0242ac120002", "NVIDIA GeForce RTX 4090", 12, 25757220864ULL, 0,
     1234567168ULL, MEMORY_V1, 44100, ABSENT, 47, 450000, ABSENT, 36, 90, 95, ABSENT, 2520, 3105, 10501, 10501, 0x200,
     4, 4, 16, 16, ABSENT, ABSENT, 0, ABSENT, 0, 0, 0},
    {"ecc-off", "GPU-eccf0000-0000-4c2a-9a10-6f2e00000000", "NVIDIA L40S", 44, 48305799168ULL, 476053504ULL,
     20000000000ULL, MEMORY_V2, 212000, 777000000LL, 51, 350000, ABSENT, 37, 88, 91, ABSENT, 2010, 2520, 9001, 9001, 0,
     4, 4, 16, 16, ABSENT, 0, 0, 0, 0, 0, 0},
    {"mig", "GPU-55aa77de-0000-11ee-8c99-0242ac120003", "NVIDIA A100-SXM4-40GB", ABSENT, 42949672960ULL, 655360000ULL,
     104857600ULL, MEMORY_V2, 61000, 5000000LL, 36, 400000, 44, ABSENT, 89, 92, 95, 1410, 1410, 1215, 1215, 0, 4, 4, 16,
     16, 1, 1, 0, ABSENT, 12, 3, 0},
    {"h100-mig", "GPU-55aa77de-0001-11ee-8c99-0242ac120004", "NVIDIA H100 80GB HBM3", ABSENT, 85520809984ULL,
     576716800ULL, 204857600ULL, MEMORY_V2, 161000, 6000000LL, 41, 700000, 49, 48, 89, 92, 95, 1980, 1980, 2619, 2619,
     0, 5, 5, 16, 16, 1, 1, 0, 0, 18, 4, 1},
};

/* The places of a partitioned GPU: which GPU instance and compute instance sits there; ABSENT: none. */
static const struct {
  int instance, compute;
  const char *profile;
  unsigned long long total, used;
} PLACES[MOST_PLACES] = {
    {1, 0, "MIG 3g.20gb", 20937965568ULL, 18253611008ULL},
    {ABSENT, 0, "", 0, 0},
    {5, 0, "MIG 1c.2g.10gb", 10468982784ULL, 5368709120ULL},
    {5, 1, "MIG 1c.2g.10gb", 10468982784ULL, 5368709120ULL},
    {ABSENT, 0, "", 0, 0},
    {13, 0, "MIG 1g.5gb", 5234491392ULL, 13107200ULL},
    {ABSENT, 0, "", 0, 0},
};

/* What a handle points to: a GPU, or one of its places. */
typedef struct {
  const Gpu *gpu;
  int index, place;
} Device;

static Device devices[MOST_GPUS], places[MOST_GPUS][MOST_PLACES];
static int samples_out;

static int count_gpus(void) {
  const char *name = getenv("FAKE_NVML_MACHINE");
  static int known = -1;
  if (known >= 0) return known;
  char base[64] = "h100x2";
  int wanted = 0;
  if (name) snprintf(base, sizeof base, "%s", name);
  for (int exact = 1; known < 0; exact = 0) {
    known = 0;
    for (unsigned i = 0; i < sizeof GPUS / sizeof *GPUS; i++)
      if (!strcmp(GPUS[i].machine, base)) devices[known++].gpu = &GPUS[i];
    char *x = strrchr(base, 'x');
    if (known || !exact || !x) break;
    wanted = atoi(x + 1);
    *x = 0;
    known = -1;
  }
  for (; known && known < wanted && known < MOST_GPUS; known++) devices[known].gpu = devices[0].gpu;
  for (int i = 0; i < MOST_GPUS; i++) {
    devices[i].index = i;
    devices[i].place = ABSENT;
    for (int place = 0; place < MOST_PLACES; place++) places[i][place] = (Device){devices[i].gpu, i, place};
  }
  return known;
}

/* The lines of a file, read again when it was changed. */
typedef struct {
  struct stat seen;
  int count;
  struct {
    char call[64];
    int index, code;
  } lines[64];
} Faults;

static const Faults *faults(void) {
  static Faults known;
  const char *path = getenv("FAKE_NVML_FAULTS");
  struct stat now;
  if (!path || stat(path, &now)) return NULL;
  if (now.st_ino == known.seen.st_ino && now.st_size == known.seen.st_size &&
      now.st_mtim.tv_sec == known.seen.st_mtim.tv_sec && now.st_mtim.tv_nsec == known.seen.st_mtim.tv_nsec)
    return &known;
  FILE *file = fopen(path, "r");
  if (!file) return NULL;
  known.seen = now;
  for (known.count = 0; known.count < 64; known.count++)
    if (fscanf(file, "%63s %d %d", known.lines[known.count].call, &known.lines[known.count].index,
               &known.lines[known.count].code) != 3)
      break;
  fclose(file);
  return &known;
}

/* The code that this call should answer, 0 for none; hangs when so told. */
static int fault(const char *call, int index) {
  const Faults *all = faults();
  for (int i = 0; all && i < all->count; i++) {
    if (strcmp(all->lines[i].call, call) || (all->lines[i].index != -1 && all->lines[i].index != index)) continue;
    while (all->lines[i].code == -1) pause();
    return all->lines[i].code;
  }
  return 0;
}

static int numbered_fault(const char *kind, unsigned number, int index) {
  char call[64];
  if (!faults() || !faults()->count) return 0;
  snprintf(call, sizeof call, "%s:%u", kind, number);
  return fault(call, index);
}

#define PLAY(index)                          \
  do {                                       \
    int code = fault(__func__, index);       \
    if (code) return code;                   \
  } while (0)

#define TELL(value, into)                    \
  do {                                       \
    if ((value) == ABSENT) return NOT_SUPPORTED; \
    *(into) = (value);                       \
    return 0;                                \
  } while (0)

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  PLAY(-1);
  return 0;
}

int nvmlShutdown(void) {
  const char *path = getenv("FAKE_NVML_LEFT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (file) {
    fprintf(file, "samples %d\n", samples_out);
    fclose(file);
  }
  return 0;
}

const char *nvmlErrorString(int code) { return code == 28 ? "GPU not found" : "an error that the fake knows nothing of"; }

static int copy(const char *text, char *into, unsigned size) {
#ifdef BAD_WORDS
  text = "\xff\xfe";
#endif
  if (strlen(text) >= size) return INSUFFICIENT_SIZE;
  strcpy(into, text);
  return 0;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
  PLAY(-1);
  return copy("550.54.15", version, size);
}

int nvmlSystemGetNVMLVersion(char *version, unsigned size) {
  PLAY(-1);
  return copy("12.550.54.15", version, size);
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
  PLAY(-1);
  *version = 12040;
  return 0;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
  PLAY(-1);
  *count = (unsigned)count_gpus();
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device **device) {
  PLAY((int)index);
  if ((int)index >= count_gpus()) return INVALID_ARGUMENT;
  *device = &devices[index];
  return 0;
}

int nvmlDeviceGetUUID(const Device *device, char *uuid, unsigned size) {
  char text[96];
  PLAY(device->index);
  if (device->place != ABSENT)
    snprintf(text, sizeof text, "MIG-%d-%d-%d", device->index, PLACES[device->place].instance,
             PLACES[device->place].compute);
  else if (count_gpus() > 1 && devices[0].gpu == devices[1].gpu)
    snprintf(text, sizeof text, "%.9s%04d%s", device->gpu->uuid, device->index, device->gpu->uuid + 13);
  else
    snprintf(text, sizeof text, "%s", device->gpu->uuid);
  return copy(text, uuid, size);
}

int nvmlDeviceGetName(const Device *device, char *name, unsigned size) {
  char text[96];
  PLAY(device->index);
  if (device->place == ABSENT) return copy(device->gpu->name, name, size);
  snprintf(text, sizeof text, "%s %s", device->gpu->name, PLACES[device->place].profile);
  return copy(text, name, size);
}

typedef struct {
  char legacy[16];
  unsigned domain, bus, device, pci_device, pci_subsystem;
  char bus_id[32];
} Pci;

int nvmlDeviceGetPciInfo_v3(const Device *device, Pci *pci) {
  PLAY(device->index);
  memset(pci, 0, sizeof *pci);
  snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", 0x1b + device->index);
  return 0;
}

int nvmlDeviceGetUtilizationRates(const Device *device, unsigned rates[2]) {
  PLAY(device->index);
  if (device->gpu->utilization == ABSENT) return NOT_SUPPORTED;
  rates[0] = (unsigned)device->gpu->utilization;
  rates[1] = 5;
  return 0;
}

static void sizes(const Device *device, unsigned long long *total, unsigned long long *reserved,
                  unsigned long long *used) {
  const Gpu *gpu = device->gpu;
  int of_place = device->place != ABSENT;
  *total = of_place ? PLACES[device->place].total : gpu->total;
  *reserved = of_place ? 0 : gpu->reserved;
  *used = of_place ? PLACES[device->place].used : gpu->used;
}

typedef struct {
  unsigned long long total, free, used;
} Memory;

/* As since R510: what the driver reserves counts as used here. */
int nvmlDeviceGetMemoryInfo(const Device *device, Memory *memory) {
  unsigned long long reserved;
  PLAY(device->index);
  if (device->gpu->memory == MEMORY_NONE) return NOT_SUPPORTED;
  sizes(device, &memory->total, &reserved, &memory->used);
  memory->used += reserved;
  memory->free = memory->total - memory->used;
  return 0;
}

#ifndef WITHOUT_MEMORY_V2
typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} MemoryV2;

int nvmlDeviceGetMemoryInfo_v2(const Device *device, MemoryV2 *memory) {
  PLAY(device->index);
  if (device->gpu->memory == MEMORY_V1 || device->gpu->memory == MEMORY_NONE) return NOT_SUPPORTED;
  if (memory->version != (sizeof *memory | 2 << 24)) return VERSION_MISMATCH;
  sizes(device, &memory->total, &memory->reserved, &memory->used);
  memory->free = memory->total - memory->reserved - memory->used;
  return 0;
}
#endif

int nvmlDeviceGetPowerUsage(const Device *device, unsigned *milliwatts) {
  PLAY(device->index);
  *milliwatts = fault("power-not-available", device->index) ? NOT_AVAILABLE : device->gpu->milliwatts;
  return 0;
}

int nvmlDeviceGetEnforcedPowerLimit(const Device *device, unsigned *milliwatts) {
  PLAY(device->index);
  TELL(device->gpu->limit_milliwatts, milliwatts);
}

static long long energy(const Device *device) {
  return device->gpu->millijoules + 1000000LL * fault("energy-joules", device->index);
}

int nvmlDeviceGetTotalEnergyConsumption(const Device *device, unsigned long long *millijoules) {
  PLAY(device->index);
  if (device->gpu->millijoules == ABSENT) return NOT_SUPPORTED;
  *millijoules = (unsigned long long)energy(device);
  return 0;
}

int nvmlDeviceGetTemperature(const Device *device, int sensor, unsigned *celsius) {
  PLAY(device->index);
  if (sensor != 0) return INVALID_ARGUMENT;
  *celsius = device->gpu->celsius;
  return 0;
}

typedef struct {
  unsigned version;
  int margin;
} Margin;

int nvmlDeviceGetMarginTemperature(const Device *device, Margin *margin) {
  PLAY(device->index);
  TELL(device->gpu->margin, &margin->margin);
}

int nvmlDeviceGetTemperatureThreshold(const Device *device, int threshold, unsigned *celsius) {
  const int known[] = {device->gpu->shutdown, device->gpu->slowdown, device->gpu->memory_max};
  PLAY(device->index);
  if (threshold < 0 || threshold > 2) return INVALID_ARGUMENT;
  TELL(known[threshold], celsius);
}

int nvmlDeviceGetClockInfo(const Device *device, int domain, unsigned *megahertz) {
  PLAY(device->index);
  TELL(domain == 1 ? device->gpu->sm : device->gpu->memory_clock, megahertz);
}

int nvmlDeviceGetMaxClockInfo(const Device *device, int domain, unsigned *megahertz) {
  PLAY(device->index);
  TELL(domain == 1 ? device->gpu->sm_max : device->gpu->memory_clock_max, megahertz);
}

#ifndef WITHOUT_EVENT_REASONS
int nvmlDeviceGetCurrentClocksEventReasons(const Device *device, unsigned long long *reasons) {
  PLAY(device->index);
  *reasons = device->gpu->events;
  return 0;
}
#endif

int nvmlDeviceGetCurrentClocksThrottleReasons(const Device *device, unsigned long long *reasons) {
  PLAY(device->index);
  *reasons = device->gpu->events;
  return 0;
}

int nvmlDeviceGetCurrPcieLinkGeneration(const Device *device, unsigned *generation) {
  PLAY(device->index);
  TELL(device->gpu->generation, generation);
}

int nvmlDeviceGetMaxPcieLinkGeneration(const Device *device, unsigned *generation) {
  PLAY(device->index);
  TELL(device->gpu->generation_max, generation);
}

int nvmlDeviceGetCurrPcieLinkWidth(const Device *device, unsigned *width) {
  PLAY(device->index);
  TELL(device->gpu->width, width);
}

int nvmlDeviceGetMaxPcieLinkWidth(const Device *device, unsigned *width) {
  PLAY(device->index);
  TELL(device->gpu->width_max, width);
}

int nvmlDeviceGetPersistenceMode(const Device *device, int *mode) {
  PLAY(device->index);
  *mode = 1;
  return 0;
}

#ifndef WITHOUT_FIELDS
typedef struct {
  unsigned field, scope;
  long long timestamp, latency;
  int type;
  int code;
  union {
    double real;
    unsigned small;
    unsigned long long large;
  } value;
} FieldValue;

static int small(FieldValue *answer, int value) {
  answer->type = 1;
  answer->value.small = (unsigned)value;
  return value == ABSENT ? NOT_SUPPORTED : 0;
}

static int large(FieldValue *answer, long long value) {
  answer->type = 3;
  answer->value.large = (unsigned long long)value;
  return value == ABSENT ? NOT_SUPPORTED : 0;
}

static int link_value(const Gpu *gpu, FieldValue *answer) {
  int link = (int)answer->scope, fifth = gpu->nvlink >= 5;
  if (!gpu->links) return NOT_SUPPORTED;
  if (link >= gpu->links) return INVALID_ARGUMENT;
  switch (answer->field) {
    case 165: return small(answer, 1);
    case 138: return large(answer, 1000 + link);
    case 139: return large(answer, 2000 + link);
    case 208: return fifth ? large(answer, link == 3 ? 7 : 0) : NOT_SUPPORTED;
    case 215: return fifth ? large(answer, 1) : NOT_SUPPORTED;
    default: return NOT_SUPPORTED;
  }
}

static int field_value(const Device *device, FieldValue *answer) {
  const Gpu *gpu = device->gpu;
  int old_links = gpu->links && gpu->nvlink < 5;
  switch (answer->field) {
    case 1: return small(answer, gpu->ecc);
    case 3: return gpu->ecc == 1 ? large(answer, 12) : NOT_SUPPORTED;
    case 4: return gpu->ecc == 1 ? large(answer, 0) : NOT_SUPPORTED;
    case 5: return gpu->ecc == 1 ? large(answer, 340) : NOT_SUPPORTED;
    case 6: return gpu->ecc == 1 ? large(answer, 2) : NOT_SUPPORTED;
    case 38: return old_links ? large(answer, 3) : NOT_SUPPORTED;
    case 45: return old_links ? large(answer, 4) : NOT_SUPPORTED;
    case 52: return old_links ? large(answer, 5) : NOT_SUPPORTED;
    case 59: return old_links ? large(answer, 6) : NOT_SUPPORTED;
    case 82: return small(answer, gpu->memory_celsius);
    case 83: return gpu->millijoules == ABSENT ? NOT_SUPPORTED : large(answer, energy(device));
    case 94: return small(answer, 9);
    case 142: return gpu->remap == ABSENT ? NOT_SUPPORTED : small(answer, 0);
    case 143: return small(answer, gpu->remap);
    case 144: return gpu->remap == ABSENT ? NOT_SUPPORTED : small(answer, gpu->remap > 0);
    case 145: return gpu->remap == ABSENT ? NOT_SUPPORTED : small(answer, 0);
    case 185: return small(answer, (int)gpu->milliwatts);
    case 186: return small(answer, (int)gpu->milliwatts + 1500);
    case 190: return small(answer, gpu->limit_milliwatts);
    case 230: return small(answer, gpu->recovery);
    default: return link_value(gpu, answer);
  }
}

int nvmlDeviceGetFieldValues(const Device *device, int count, FieldValue *answers) {
  PLAY(device->index);
  for (int i = 0; i < count; i++) {
    int code = numbered_fault("field", answers[i].field, device->index);
    answers[i].code = code ? code : field_value(device, &answers[i]);
  }
  return 0;
}
#endif

int nvmlDeviceGetMigMode(const Device *device, unsigned *current, unsigned *pending) {
  PLAY(device->index);
  *pending = (unsigned)device->gpu->mig;
  TELL(device->gpu->mig, current);
}

int nvmlDeviceGetMaxMigDeviceCount(const Device *device, unsigned *count) {
  PLAY(device->index);
  *count = device->gpu->mig == 1 ? MOST_PLACES : 0;
  return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(const Device *device, unsigned place, Device **found) {
  PLAY(device->index);
  if (place >= MOST_PLACES) return INVALID_ARGUMENT;
  if (PLACES[place].instance == ABSENT) return NOT_FOUND;
  *found = &places[device->index][place];
  return 0;
}

int nvmlDeviceGetGpuInstanceId(const Device *device, unsigned *instance) {
  PLAY(device->index);
  if (device->place == ABSENT) return NOT_SUPPORTED;
  *instance = (unsigned)PLACES[device->place].instance;
  return 0;
}

typedef struct {
  unsigned pid;
  unsigned long long used;
  unsigned instance, compute;
} Process;

static int list_processes(const Device *device, unsigned *room, Process *found) {
  const char *path = getenv("FAKE_NVML_PROCESSES");
  FILE *file = path ? fopen(path, "r") : NULL;
  unsigned count = 0;
  int index, instance;
  long long pid, used;
  while (file && fscanf(file, "%d %lld %lld %d", &index, &pid, &used, &instance) == 4) {
    if (index != device->index) continue;
    if (found && count < *room) found[count] = (Process){(unsigned)pid, (unsigned long long)used, (unsigned)instance, 0};
    count++;
  }
  if (file) fclose(file);
  int fits = count <= *room && (found || !count);
  *room = count;
  return fits ? 0 : INSUFFICIENT_SIZE;
}

int nvmlDeviceGetComputeRunningProcesses_v2(const Device *device, unsigned *room, Process *found) {
  PLAY(device->index);
  return list_processes(device, room, found);
}

#ifndef WITHOUT_PROCESSES_V3
int nvmlDeviceGetComputeRunningProcesses_v3(const Device *device, unsigned *room, Process *found) {
  PLAY(device->index);
  return list_processes(device, room, found);
}
#endif

#ifndef WITHOUT_GPM
typedef struct {
  unsigned version, supported;
} GpmSupport;

typedef struct {
  const Device *device;
  int instance;
} Sample;

typedef struct {
  unsigned id;
  int code;
  double value;
  char *names[3];
} Metric;

typedef struct {
  unsigned version, count;
  Sample *first, *second;
  Metric metrics[];
} Question;

int nvmlGpmQueryDeviceSupport(const Device *device, GpmSupport *support) {
  PLAY(device->index);
  support->supported = (unsigned)device->gpu->gpm;
  return 0;
}

int nvmlGpmSampleAlloc(Sample **sample) {
  PLAY(-1);
  *sample = calloc(1, sizeof **sample);
  samples_out++;
  return 0;
}

int nvmlGpmSampleFree(Sample *sample) {
  free(sample);
  samples_out--;
  return 0;
}

int nvmlGpmSampleGet(const Device *device, Sample *sample) {
  PLAY(device->index);
  if (!device->gpu->gpm || device->gpu->mig == 1) return NOT_SUPPORTED;
  *sample = (Sample){device, ABSENT};
  return 0;
}

int nvmlGpmMigSampleGet(const Device *device, unsigned instance, Sample *sample) {
  PLAY(device->index);
  if (!device->gpu->gpm) return NOT_SUPPORTED;
  *sample = (Sample){device, (int)instance};
  return 0;
}

/* Percent for what is a share, MiB per second for what is traffic. */
static double activity(unsigned id, int instance) {
  double base = instance == ABSENT ? 0 : instance;
  switch (id) {
    case 2: return 62.5 + base;
    case 3: return 31.25 + base;
    case 5: return 12.5 + base;
    case 10: return 50.0 + base;
    case 20: return 1024.0;
    case 21: return 2048.0;
    default: return 0.0 / base;
  }
}

int nvmlGpmMetricsGet(Question *question) {
  if (question->version != 1 || !question->first->device || !question->second->device ||
      question->first == question->second)
    return INVALID_ARGUMENT;
  const Sample *sample = question->second;
  PLAY(sample->device->index);
  for (unsigned i = 0; i < question->count; i++) {
    Metric *metric = &question->metrics[i];
    metric->code = numbered_fault("gpm", metric->id, sample->device->index);
    metric->value = metric->code == 999 ? 0.0 / 0.0 : activity(metric->id, sample->instance);
    if (metric->code == 999) metric->code = 0;
  }
  return 0;
}
#endif

#ifndef WITHOUT_EVENTS
typedef struct {
  const Device *device;
  unsigned long long type, data;
  unsigned instance, compute;
} Event;

int nvmlEventSetCreate(void **set) {
  static int the_set;
  PLAY(-1);
  *set = &the_set;
  return 0;
}

int nvmlDeviceRegisterEvents(const Device *device, unsigned long long types, void *set) {
  (void)set;
  PLAY(device->index);
  return types == 8 ? 0 : INVALID_ARGUMENT;
}

int nvmlEventSetWait_v2(void *set, Event *event, unsigned milliseconds) {
  static int told;
  const char *path = getenv("FAKE_NVML_EVENTS");
  (void)set;
  if (!path) {
    usleep(milliseconds * 1000);
    return TIMEOUT;
  }
  for (unsigned waited = 0; waited <= milliseconds; waited += 10) {
    FILE *file = path ? fopen(path, "r") : NULL;
    int index, xid;
    for (int line = 0; file && fscanf(file, "%d %d", &index, &xid) == 2; line++)
      if (line == told) {
        told++;
        fclose(file);
        *event = (Event){&devices[index], 8, (unsigned long long)xid, NOT_AVAILABLE, NOT_AVAILABLE};
        return 0;
      }
    if (file) fclose(file);
    usleep(10000);
  }
  return TIMEOUT;
}
#endif
