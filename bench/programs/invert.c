// SPDX-License-Identifier: Apache-2.0
/* A filter: each byte x of the standard input becomes 255 - x. With a FILE it writes there how
 * often each byte came in, one count a line.
 * Usage: invert [FILE] */
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

static unsigned char block[1 << 20];
static uint64_t counts[256];

static int write_all(size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = write(1, block + done, size - done);
        if (n < 0)
            return -1;
        done += (size_t)n;
    }
    return 0;
}

static int write_counts(const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return -1;
    for (int i = 0; i < 256; i++)
        fprintf(file, "%llu\n", (unsigned long long)counts[i]);
    return fclose(file);
}

int main(int argc, char **argv)
{
    ssize_t n;
    while ((n = read(0, block, sizeof block)) > 0) {
        for (ssize_t i = 0; argc > 1 && i < n; i++)
            counts[block[i]]++;
        for (ssize_t i = 0; i < n; i++)
            block[i] = (unsigned char)(255 - block[i]);
        if (write_all((size_t)n) != 0)
            return 1;
    }
    return n < 0 || (argc > 1 && write_counts(argv[1]) != 0);
}
