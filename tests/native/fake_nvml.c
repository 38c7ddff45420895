/* A libnvidia-ml.so.1 that plays recorded machines and faults, for the real pynvml to load.
 *
 * FAKE_NVML_MACHINE   h100x2 (default), geforce (no energy counter, no memory version 2), mig (no utilisation), none
 * FAKE_NVML_FAULTS    a file of lines "CALL INDEX CODE": CALL answers CODE for that GPU (INDEX -1: for every GPU, and
 *                     for calls about none); CODE -1 hangs. Read at every call, so that a test can change it.
 *                     The CALL "power-not-available" makes the power read as the driver's not-available mark.
 *
 * Built with -DWITHOUT_MEMORY_V2 it is a driver from before that symbol; with -DBAD_WORDS its names are no UTF-8.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_SUPPORTED 3
#define INSUFFICIENT_SIZE 7

typedef struct {
  const char *machine, *uuid, *name;
  int utilization; /* -1: not supported */
  unsigned long long total, reserved, used;
  int memory_v2;
  unsigned milliwatts;
  long long millijoules; /* -1: not supported */
  unsigned celsius;
} Gpu;

/* Answers as recorded on real machines, figures rounded. */
static const Gpu GPUS[] = {
    {"h100x2", "GPU-8f6d2a31-0000-4a6e-9d1c-5a1f00000000", "NVIDIA H100 80GB HBM3", 87, 85520809984ULL, 576716800ULL,
     72477573120ULL, 1, 512345, 123456789012LL, 61},
    {"h100x2", "GPU-8f6d2a31-0001-4a6e-9d1c-5a1f00000001", "NVIDIA H100 80GB HBM3", 0, 85520809984ULL, 576716800ULL, 0,
     1, 71210, 98765432109LL, 33},
    {"geforce", "GPU-3b1c77de-0000-11ee-8c99-0242ac120002", "NVIDIA GeForce RTX 4090", 12, 25757220864ULL, 0,
     1234567168ULL, 0, 44100, -1, 47},
    {"mig", "GPU-55aa77de-0000-11ee-8c99-0242ac120003", "NVIDIA A100-SXM4-40GB", -1, 42949672960ULL, 655360000ULL,
     104857600ULL, 1, 61000, 5000000LL, 36},
};

static const char *machine(void) {
  const char *name = getenv("FAKE_NVML_MACHINE");
  return name ? name : "h100x2";
}

static const Gpu *gpu_at(unsigned index) {
  for (unsigned i = 0; i < sizeof GPUS / sizeof *GPUS; i++)
    if (!strcmp(GPUS[i].machine, machine()) && index-- == 0) return &GPUS[i];
  return NULL;
}

static int index_of(const Gpu *gpu) {
  for (int index = 0; gpu_at(index); index++)
    if (gpu_at(index) == gpu) return index;
  return -1;
}

/* The code that this call should answer, 0 for none; hangs when so told. */
static int fault(const char *call, int index) {
  const char *path = getenv("FAKE_NVML_FAULTS");
  FILE *file = path ? fopen(path, "r") : NULL;
  char name[128];
  int at, code, found = 0;
  if (!file) return 0;
  while (!found && fscanf(file, "%127s %d %d", name, &at, &code) == 3)
    if (!strcmp(name, call) && (at == -1 || at == index)) found = code;
  fclose(file);
  while (found == -1) pause();
  return found;
}

#define PLAY(index)                          \
  do {                                       \
    int code = fault(__func__, index);       \
    if (code) return code;                   \
  } while (0)

int nvmlInitWithFlags(unsigned flags) {
  (void)flags;
  PLAY(-1);
  return 0;
}

int nvmlShutdown(void) { return 0; }

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

int nvmlDeviceGetCount_v2(unsigned *count) {
  PLAY(-1);
  for (*count = 0; gpu_at(*count); ++*count) {
  }
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, const Gpu **gpu) {
  PLAY((int)index);
  *gpu = gpu_at(index);
  return *gpu ? 0 : 2;
}

int nvmlDeviceGetUUID(const Gpu *gpu, char *uuid, unsigned size) {
  PLAY(index_of(gpu));
  return copy(gpu->uuid, uuid, size);
}

int nvmlDeviceGetName(const Gpu *gpu, char *name, unsigned size) {
  PLAY(index_of(gpu));
  return copy(gpu->name, name, size);
}

int nvmlDeviceGetUtilizationRates(const Gpu *gpu, unsigned rates[2]) {
  PLAY(index_of(gpu));
  if (gpu->utilization < 0) return NOT_SUPPORTED;
  rates[0] = (unsigned)gpu->utilization;
  rates[1] = 5;
  return 0;
}

typedef struct {
  unsigned long long total, free, used;
} Memory;

/* As since R510: what the driver reserves counts as used here. */
int nvmlDeviceGetMemoryInfo(const Gpu *gpu, Memory *memory) {
  PLAY(index_of(gpu));
  memory->total = gpu->total;
  memory->used = gpu->used + gpu->reserved;
  memory->free = memory->total - memory->used;
  return 0;
}

#ifndef WITHOUT_MEMORY_V2
typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} MemoryV2;

int nvmlDeviceGetMemoryInfo_v2(const Gpu *gpu, MemoryV2 *memory) {
  PLAY(index_of(gpu));
  if (!gpu->memory_v2) return NOT_SUPPORTED;
  if (memory->version != (sizeof *memory | 2 << 24)) return 25;
  memory->total = gpu->total;
  memory->reserved = gpu->reserved;
  memory->used = gpu->used;
  memory->free = gpu->total - gpu->reserved - gpu->used;
  return 0;
}
#endif

int nvmlDeviceGetPowerUsage(const Gpu *gpu, unsigned *milliwatts) {
  PLAY(index_of(gpu));
  *milliwatts = fault("power-not-available", index_of(gpu)) ? 0xFFFFFFFFu : gpu->milliwatts;
  return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(const Gpu *gpu, unsigned long long *millijoules) {
  PLAY(index_of(gpu));
  if (gpu->millijoules < 0) return NOT_SUPPORTED;
  *millijoules = (unsigned long long)gpu->millijoules;
  return 0;
}

int nvmlDeviceGetTemperature(const Gpu *gpu, int sensor, unsigned *celsius) {
  PLAY(index_of(gpu));
  if (sensor != 0) return 2;
  *celsius = gpu->celsius;
  return 0;
}
