// SPDX-License-Identifier: Apache-2.0
/* Settings that `headrace bench --tune --save` found, and `headrace run` takes. One file in the user's
 * configuration, which several machines may share: a section for each machine, device and kind.
 *
 *     # headrace tuned 1
 *     [node7 cuda:0 plain]
 *     chunk=8388608
 *     depth=12
 *     streams=0
 *     threads=0
 *     gain=1.08
 *
 * 0 is the default of each. Nothing else is in it: a file that has more is not ours, and is told. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tuned.h"

static const char first_line[] = "# headrace tuned 1";

enum { MOST_LINE = 256 };

/* ---- where ---- */

/* Relative paths are to be ignored: XDG Base Directory Specification 0.8, section 3. */
char *tuned_path(void)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    char *path = NULL;
    int rc = -1;
    if (config && *config == '/')
        rc = asprintf(&path, "%s/headrace/tuned", config);
    else if (home && *home == '/')
        rc = asprintf(&path, "%s/.config/headrace/tuned", home);
    return rc < 0 ? NULL : path;
}

/* ---- reading ---- */

/* A line of a section. False: it is none. */
static bool read_value(struct tuned *t, const char *key, const char *value)
{
    const struct {
        const char *key;
        uint64_t most;
        uint64_t *at;
    } known[] = {{"chunk", UINT64_C(1) << 30, &t->chunk},
                 {"depth", 4096, &t->depth},
                 {"streams", 64, &t->streams},
                 {"threads", 1024, &t->threads}};
    char *end;
    if (strcmp(key, "gain") == 0) {
        t->gain = strtod(value, &end);
        return isdigit((unsigned char)*value) && !*end && t->gain < 1e6;
    }
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(key, known[i].key) == 0)
            return parse_number(value, known[i].at) && *known[i].at <= known[i].most;
    return false;
}

/* "[MACHINE DEVICE KIND]". */
static bool read_section(struct tuned *t, const char *line)
{
    int end = 0;
    *t = (struct tuned){0};
    return sscanf(line, "[%64s %31s %7[a-z]]%n", t->machine, t->device, t->kind, &end) == 3 &&
           end && !line[end] && (!strcmp(t->kind, "plain") || !strcmp(t->kind, "zstd"));
}

static bool read_line(struct tuned_file *f, char *line)
{
    char *equals = strchr(line, '=');
    if (*line == '[')
        return f->n < MAX_TUNED && read_section(&f->all[f->n++], line);
    if (!f->n || !equals)
        return false;
    *equals = '\0';
    return read_value(&f->all[f->n - 1], line, equals + 1);
}

/* why has HR_ERROR_TEXT bytes. */
static bool read_lines(struct tuned_file *f, FILE *file, char *why)
{
    char line[MOST_LINE];
    for (unsigned n = 1; fgets(line, sizeof line, file); n++) {
        const bool whole = strchr(line, '\n');
        line[strcspn(line, "\n")] = '\0';
        if (n == 1 ? strcmp(line, first_line) == 0 : whole && (!*line || read_line(f, line)))
            continue;
        f->n = 0;
        snprintf(why, HR_ERROR_TEXT, "%.300s, line %u: %s", f->path, n,
                 n == 1 ? "it is not a file of headrace bench --tune"
                        : "it is broken: remove it, and tune again");
        return false;
    }
    return true;
}

/* What can be waited for, or read without end, is no file of settings. */
static FILE *open_regular(const char *path)
{
    struct stat status;
    FILE *file = stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "re") : NULL;
    if (!file && !errno)
        errno = EINVAL;
    return file;
}

bool tuned_read(struct tuned_file *f, char *why)
{
    *f = (struct tuned_file){.path = tuned_path()};
    errno = 0;
    FILE *file = f->path ? open_regular(f->path) : NULL;
    if (!file) {
        if (!f->path || errno == ENOENT || errno == ENOTDIR)
            return true;
        snprintf(why, HR_ERROR_TEXT, "%.300s: %s", f->path,
                 errno == EINVAL ? "it is no regular file" : strerror(errno));
        return false;
    }
    const bool right = read_lines(f, file, why);
    fclose(file);
    return right;
}

void tuned_free(struct tuned_file *f)
{
    free(f->path);
}

const struct tuned *tuned_find(const struct tuned_file *f, const char *device, const char *kind)
{
    struct machine m;
    look_at_machine(&m);
    for (unsigned i = 0; i < f->n; i++)
        if (strcmp(f->all[i].machine, m.host) == 0 && strcmp(f->all[i].device, device) == 0 &&
            strcmp(f->all[i].kind, kind) == 0)
            return &f->all[i];
    return NULL;
}

/* ---- writing ---- */

/* With its parents. */
static bool make_folder_of(const char *path)
{
    char *folder = strdup(path);
    bool made = folder;
    for (char *slash = folder ? strchr(folder + 1, '/') : NULL; slash && made;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        made = mkdir(folder, 0777) == 0 || errno == EEXIST;
        *slash = '/';
    }
    const int error = errno;
    free(folder);
    errno = error;
    return made;
}

static void print_tuned(const struct tuned *t, FILE *out)
{
    fprintf(out, "[%s %s %s]\nchunk=%llu\ndepth=%llu\nstreams=%llu\nthreads=%llu\ngain=%.3f\n",
            t->machine, t->device, t->kind, (unsigned long long)t->chunk,
            (unsigned long long)t->depth, (unsigned long long)t->streams,
            (unsigned long long)t->threads, t->gain);
}

/* The oldest gives its place to a new one. */
static void put(struct tuned_file *f, const struct tuned *t)
{
    const struct tuned *known = tuned_find(f, t->device, t->kind);
    unsigned at = known ? (unsigned)(known - f->all) : f->n;
    if (at == MAX_TUNED) {
        memmove(f->all, f->all + 1, (MAX_TUNED - 1) * sizeof f->all[0]);
        at--;
    }
    f->all[at] = *t;
    f->n = at < f->n ? f->n : at + 1;
}

bool tuned_save(struct tuned *t, char *why)
{
    struct machine m;
    struct whole_file file;
    struct tuned_file f;
    look_at_machine(&m);
    snprintf(t->machine, sizeof t->machine, "%s", m.host);
    bool saved = tuned_read(&f, why);
    if (saved && !f.path) {
        snprintf(why, HR_ERROR_TEXT, "neither XDG_CONFIG_HOME nor HOME names a folder");
        saved = false;
    } else if (saved) {
        put(&f, t);
        saved = make_folder_of(f.path) && whole_file_open(&file, f.path);
        if (saved) {
            fprintf(file.stream, "%s\n", first_line);
            for (unsigned i = 0; i < f.n; i++)
                print_tuned(&f.all[i], file.stream);
            saved = whole_file_close(&file);
        }
        if (!saved)
            snprintf(why, HR_ERROR_TEXT, "%.300s: %s", f.path, strerror(errno));
    }
    tuned_free(&f);
    return saved;
}
