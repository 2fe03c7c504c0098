// SPDX-License-Identifier: Apache-2.0
/* Runs a fuzz target over files and folders of files given as arguments: the corpus as a test,
 * without a fuzzer. Each input lies in a block of its exact size, so that ASan sees every slip. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    int rc = -1;
    uint8_t *data = NULL;
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END))
        goto out;
    long size = ftell(f);
    if (size < 0 || fseek(f, 0, SEEK_SET))
        goto out;
    data = malloc((size_t)size);
    if (size > 0 && (!data || fread(data, 1, (size_t)size, f) != (size_t)size))
        goto out;
    LLVMFuzzerTestOneInput(data, (size_t)size);
    rc = 0;
out:
    if (rc)
        perror(path);
    free(data);
    if (f)
        fclose(f);
    return rc;
}

static int replay(const char *path, unsigned *n_inputs)
{
    DIR *dir = opendir(path);
    if (!dir) {
        ++*n_inputs;
        return replay_file(path);
    }
    int rc = 0;
    for (struct dirent *entry; rc == 0 && (entry = readdir(dir));) {
        char name[4096];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        rc = replay(name, n_inputs);
    }
    closedir(dir);
    return rc;
}

int main(int argc, char **argv)
{
    unsigned n_inputs = 0;
    for (int i = 1; i < argc; i++)
        if (replay(argv[i], &n_inputs))
            return 1;
    printf("%u inputs\n", n_inputs);
    return n_inputs == 0; /* an empty corpus is a mistake, not a success */
}
