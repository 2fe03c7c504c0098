// SPDX-License-Identifier: Apache-2.0
/* What the fake HIP says of an image: it takes a code object, or a bundle with one, that is for its
 * processor, and what its compiler made, which begins with "fake". It does not take one that is
 * mapped from a file: the real one would open the file. As it may read an image as long as its
 * module is there, each is summed up when it comes, and compared with that whenever it is used. */
#include <elf.h>
#include <stdio.h>
#include <string.h>

#include "fake_hip.h"
#include "hip_driver.h"

static const char prefix[] = "hipv4-amdgcn-amd-amdhsa--";

/* LLVM, "User Guide for AMDGPU Backend": OS ABI, ABI version of code objects v4, and the numbers of
 * processors in the lowest byte of e_flags. */
enum { OSABI_HSA = 64, VERSION_4 = 2, MACHINE_MASK = 0xff };

static unsigned machine_of(const char *arch)
{
    static const struct {
        const char *processor;
        unsigned machine;
    } table[] = {
        {"gfx906", 0x2f},  {"gfx908", 0x30},  {"gfx90a", 0x3f},  {"gfx942", 0x4c},
        {"gfx1030", 0x36}, {"gfx1100", 0x41}, {"gfx1101", 0x46}, {"gfx1151", 0x4a},
        {"gfx1200", 0x48}, {"gfx1201", 0x4e},
    };
    const size_t n = strcspn(arch, ":");
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].processor) == n && memcmp(table[i].processor, arch, n) == 0)
            return table[i].machine;
    }
    return 0;
}

static int judge_code(const unsigned char *image, size_t *size)
{
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof header);
    *size = header.e_shoff + (size_t)header.e_shnum * header.e_shentsize;
    const unsigned machine = header.e_flags & MACHINE_MASK;
    if (header.e_machine != EM_AMDGPU || header.e_ident[EI_OSABI] != OSABI_HSA ||
        header.e_ident[EI_ABIVERSION] != VERSION_4)
        return HR__HIP_INVALID_IMAGE;
    return machine == machine_of(fake_hip_arch()) ? 0 : HR__HIP_NO_BINARY_FOR_GPU;
}

/* An entry's name names the processor without features: no others are made here. */
static int judge_bundle(const unsigned char *image, size_t *size)
{
    enum { MAGIC = 24 };
    const char *arch = fake_hip_arch();
    char wanted[sizeof prefix + 64];
    uint64_t n;
    uint64_t head[3]; /* offset, size, length of the name */
    const unsigned char *at = image + MAGIC + sizeof n;
    snprintf(wanted, sizeof wanted, "%s%.*s", prefix, (int)strcspn(arch, ":"), arch);
    memcpy(&n, image + MAGIC, sizeof n);
    for (; n > 0; n--) {
        memcpy(head, at, sizeof head);
        at += sizeof head + head[2];
        if (head[2] != strlen(wanted) || memcmp(at - head[2], wanted, head[2]) != 0)
            continue;
        const int status = judge_code(image + head[0], size);
        *size += head[0];
        return status;
    }
    return HR__HIP_NO_BINARY_FOR_GPU;
}

/* proc(5): "begin-end mode offset device inode path" of each mapping. */
static bool is_of_file(const void *memory)
{
    const uintptr_t address = (uintptr_t)memory;
    bool found = false;
    char line[4352];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && !found && fgets(line, sizeof line, maps)) {
        char *at;
        const uintptr_t begin = strtoull(line, &at, 16);
        const uintptr_t end = strtoull(at + 1, &at, 16);
        found = begin <= address && address < end && strchr(at, '/');
    }
    if (maps)
        fclose(maps);
    return found;
}

static int judge(const unsigned char *image, size_t *size)
{
    enum { HEAD_BYTES = 4096 }; /* read of any image */
    const char *refusal = getenv("FAKE_HIP_LOAD_STATUS");
    *size = HEAD_BYTES;
    if (is_of_file(image))
        return HR__HIP_INVALID_VALUE;
    if (memcmp(image, "fake", strlen("fake")) == 0)
        return 0;
    if (refusal)
        return (int)strtol(refusal, NULL, 10);
    if (memcmp(image, ELFMAG, SELFMAG) == 0)
        return judge_code(image, size);
    if (memcmp(image, "__CLANG_OFFLOAD_BUNDLE__", strlen("__CLANG_OFFLOAD_BUNDLE__")) == 0)
        return judge_bundle(image, size);
    return HR__HIP_INVALID_IMAGE;
}

/* FNV-1a, of words: half a megabyte is summed up at every use. A rest of a word is left out. */
static uint64_t sum_of(const unsigned char *bytes, size_t size)
{
    uint64_t sum = 0xcbf29ce484222325u;
    uint64_t word;
    for (size_t i = 0; i + sizeof word <= size; i += sizeof word) {
        memcpy(&word, bytes + i, sizeof word);
        sum = (sum ^ word) * 0x100000001b3u;
    }
    return sum;
}

int fake_hip_take_image(struct fake_hip_image *out, const unsigned char *bytes)
{
    size_t size;
    const int status = judge(bytes, &size);
    if (status == 0)
        *out = (struct fake_hip_image){.bytes = bytes, .size = size, .sum = sum_of(bytes, size)};
    return status;
}

void fake_hip_check_image(const struct fake_hip_image *image)
{
    if (sum_of(image->bytes, image->size) == image->sum)
        return;
    fprintf(stderr, "fake_hip: an image has changed since its module was loaded\n");
    abort();
}
