/* A test double of the NVIDIA driver's libnvidia-ml.so.1: the functions that are called, with the signatures of nvml.h.
 * FAKE_NVML_WATTS: what each GPU draws, as 100,50; its counter grows by that from the beginning of the epoch of this
 * process' clock. FAKE_NVML_INIT, FAKE_NVML_ENERGY: status instead of success. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double watts_of(unsigned int number, int *there) {
    const char *text = getenv("FAKE_NVML_WATTS");
    unsigned int at = 0;
    *there = 0;
    while (text != NULL && *text != '\0') {
        if (at == number) {
            *there = 1;
            return atof(text);
        }
        text = strchr(text, ',');
        text = text == NULL ? NULL : text + 1;
        at++;
    }
    return 0;
}

static int status_of(const char *name) {
    const char *text = getenv(name);
    return text == NULL ? 0 : atoi(text);
}

int nvmlInit_v2(void) { return status_of("FAKE_NVML_INIT"); }

int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned int *count) {
    int there = 1;
    for (*count = 0; there; (*count)++) watts_of(*count, &there);
    (*count)--;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int number, void **device) {
    int there;
    watts_of(number, &there);
    *device = (void *)(size_t)(number + 1);
    return there ? 0 : 2;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    struct timespec now;
    int there;
    double watts = watts_of((unsigned int)(size_t)device - 1, &there);
    clock_gettime(CLOCK_REALTIME, &now);
    *millijoules = (unsigned long long)(watts * 1000 * ((double)(now.tv_sec % 100000) + now.tv_nsec / 1e9));
    return status_of("FAKE_NVML_ENERGY");
}

const char *nvmlErrorString(int status) {
    switch (status) {
    case 2: return "Invalid Argument";
    case 3: return "Not Supported";
    case 9: return "Driver Not Loaded";
    default: return "Unknown Error";
    }
}
