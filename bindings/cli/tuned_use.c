// SPDX-License-Identifier: Apache-2.0
/* What becomes of kept settings: `headrace run` takes them, `headrace devices` shows them. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tuned.h"

const char *tuned_text(const struct tuned *t, char out[TUNED_TEXT])
{
    const struct {
        const char *word;
        uint64_t value;
        const char *unit;
    } parts[] = {{"chunk", t->chunk >> 10, " KiB"},
                 {"depth", t->depth, ""},
                 {"streams", t->streams, ""},
                 {"threads", t->threads, ""}};
    size_t n = 0;
    snprintf(out, TUNED_TEXT, "the defaults");
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i].value)
            n += (size_t)snprintf(out + n, TUNED_TEXT - n, "%s%s %llu%s", n ? ", " : "",
                                  parts[i].word, (unsigned long long)parts[i].value, parts[i].unit);
    return out;
}

/* ---- run ---- */

/* The device that bytes will visit, as the library names it; without one it is the host's CPUs that
 * do all. */
static bool visited_device(const struct options *o, char name[HR_DEVICE_NAME])
{
    struct hr_device device;
    const bool visits = o->config.n_kernels || o->config.sink.kind == HR_DEVICE;
    const char *word = o->config.device ? o->config.device : visits ? "auto" : "host";
    snprintf(name, HR_DEVICE_NAME, "host");
    if (strcmp(word, "host") == 0)
        return true;
    if (!find_listed_device(word, &device))
        return false; /* which the pipeline tells */
    snprintf(name, HR_DEVICE_NAME, "%s", device.name);
    return true;
}

/* Regular files alone can be looked at without taking anything from who reads next. */
static bool all_files(const struct options *o)
{
    struct stat status;
    for (uint32_t i = 0; i < o->config.n_sources; i++)
        if (o->sources[i].kind != HR_FILE || stat(o->sources[i].path, &status) != 0 ||
            !S_ISREG(status.st_mode))
            return false;
    return true;
}

/* By the first bytes, as --decode auto: RFC 8878, 3.1.1 and 3.1.2. */
static bool is_zstd(const struct options *o)
{
    uint32_t magic = 0;
    FILE *file = o->config.decode == HR_CODEC_AUTO ? fopen(o->sources[0].path, "re") : NULL;
    if (!file)
        return o->config.decode == HR_CODEC_ZSTD;
    const bool read = fread(&magic, sizeof magic, 1, file) == 1;
    fclose(file);
    return read && (magic == 0xfd2fb528u || (magic & 0xfffffff0u) == 0x184d2a50u);
}

static void take(struct options *o, const struct tuned *t, const char *path)
{
    char text[TUNED_TEXT];
    char line[HR_ERROR_TEXT];
    struct hr_pipeline_config *c = &o->config;
    if (!(o->given & (GIVEN_CHUNK | GIVEN_MEMORY))) /* which may be too little for it */
        c->chunk_size = t->chunk;
    if (!(o->given & (GIVEN_DEPTH | GIVEN_MEMORY)))
        c->depth = (uint32_t)t->depth;
    if (!(o->given & GIVEN_STREAMS) && c->n_kernels)
        c->n_streams = (uint32_t)t->streams;
    if (!(o->given & GIVEN_THREADS))
        o->context.n_threads = (uint32_t)t->threads;
    snprintf(line, sizeof line, "tuned for %s, %s: %s, where no option says another (%.300s)",
             t->device, t->kind, tuned_text(t, text), path);
    take_note(NULL, line);
}

static bool is_like_tuned(const struct options *o, const char *device)
{
    return !o->config.encode && !(o->config.n_kernels && strcmp(device, "host") == 0);
}

bool use_tuned(struct options *o)
{
    char why[HR_ERROR_TEXT];
    char device[HR_DEVICE_NAME];
    struct tuned_file file;
    const bool strict = o->config.flags & HR_STRICT;
    if (o->no_tuned || !all_files(o))
        return true;
    const bool right = tuned_read(&file, why);
    if (!right)
        fprintf(stderr, "headrace: %stuned settings: %s%s\n", strict ? "" : "warning: ", why,
                strict ? "; --no-tuned ignores it" : "; the defaults are taken");
    if (right && file.n && visited_device(o, device) && is_like_tuned(o, device)) {
        const struct tuned *t = tuned_find(&file, device, is_zstd(o) ? "zstd" : "plain");
        if (t && (t->chunk || t->depth || t->streams || t->threads))
            take(o, t, file.path);
    }
    tuned_free(&file);
    return right || !strict;
}

/* ---- devices ---- */

void print_tuned_text(void)
{
    char why[HR_ERROR_TEXT];
    char text[TUNED_TEXT];
    struct machine m;
    struct tuned_file file;
    look_at_machine(&m);
    if (!tuned_read(&file, why))
        printf("%-8s %-8s %s\n", "tuned", "broken", why);
    for (unsigned i = 0; i < file.n; i++) {
        const struct tuned *t = &file.all[i];
        if (strcmp(t->machine, m.host) == 0)
            printf("%-8s %-8s %s: %s (gain %.2f; %s)\n", "tuned", t->device, t->kind,
                   tuned_text(t, text), t->gain, file.path);
    }
    tuned_free(&file);
}

void print_tuned_json(void)
{
    char why[HR_ERROR_TEXT];
    struct machine m;
    struct tuned_file file;
    const char *between = "";
    look_at_machine(&m);
    const bool right = tuned_read(&file, why);
    fputs(",\n \"tuned_file\": ", stdout);
    if (file.path)
        json_text(stdout, file.path);
    else
        fputs("null", stdout);
    if (!right) {
        fputs(", \"tuned_error\": ", stdout);
        json_text(stdout, why);
    }
    fputs(", \"tuned\": [", stdout);
    for (unsigned i = 0; i < file.n; i++) {
        const struct tuned *t = &file.all[i];
        if (strcmp(t->machine, m.host) != 0)
            continue;
        printf("%s{\"device\": ", between);
        json_text(stdout, t->device);
        printf(", \"kind\": \"%s\"", t->kind);
        printf(", \"chunk_bytes\": %llu, \"depth\": %llu, \"streams\": %llu, \"threads\": %llu, "
               "\"gain\": %.3f}",
               (unsigned long long)t->chunk, (unsigned long long)t->depth,
               (unsigned long long)t->streams, (unsigned long long)t->threads, t->gain);
        between = ", ";
    }
    fputs("]", stdout);
    tuned_free(&file);
}
