// SPDX-License-Identifier: Apache-2.0
/* Each test writes "out.json" in a folder of its own, reads it back with a strict JSON reader and
 * prints each span again: what differs by a character is no span. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "trace.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
size_t __sanitizer_get_current_allocated_bytes(void); /* a header that gcc lacks has it */
#define assert_no_leak() cr_assert_eq(__lsan_do_recoverable_leak_check(), 0)
#define allocated() __sanitizer_get_current_allocated_bytes()
#else
#define assert_no_leak() ((void)0)
#define allocated() mallinfo2().uordblks
#endif

enum { BUFFER = 64 << 10, TRACK = HR__TRACE_TRACKS };

/* ---- Folder -------------------------------------------------------------------------------- */

static char folder[] = "/tmp/test_trace-XXXXXX";

static void enter_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

static void leave_folder(void)
{
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (unlink(entry->d_name) != 0)
            rmdir(entry->d_name);
    closedir(directory);
    rmdir(folder);
}

#define TRACE_TEST(name)                                                                           \
    Test(trace, name, .init = enter_folder, .fini = leave_folder, .timeout = 60)

static int n_files(const char *part_of_name)
{
    int n = 0;
    DIR *directory = opendir(".");
    for (struct dirent *entry; (entry = readdir(directory));)
        n += strstr(entry->d_name, part_of_name) != NULL;
    closedir(directory);
    return n;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

/* Allocated. */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s is not there", path);
    char *text = NULL;
    size_t size = 0;
    if (getdelim(&text, &size, '\0', file) < 0)
        text[0] = '\0';
    fclose(file);
    return text;
}

/* ---- JSON (RFC 8259): each function returns what follows the value, or NULL ------------------ */

static const char *skip_value(const char *p);

static const char *skip_space(const char *p)
{
    return p ? p + strspn(p, " \t\r\n") : NULL;
}

static const char *skip_string(const char *p)
{
    if (*p != '"')
        return NULL;
    for (p++; *p != '"'; p++) {
        if ((unsigned char)*p < 0x20)
            return NULL;
        if (*p != '\\')
            continue;
        p++;
        if (*p == 'u' && strspn(p + 1, "0123456789abcdefABCDEF") >= 4)
            p += 4;
        else if (!*p || !strchr("\"\\/bfnrt", *p))
            return NULL;
    }
    return p + 1;
}

static const char *skip_number(const char *p)
{
    const size_t digits = strspn(p, "0123456789");
    if (digits == 0 || (digits > 1 && *p == '0'))
        return NULL;
    p += digits;
    if (*p != '.')
        return p;
    const size_t decimals = strspn(p + 1, "0123456789");
    return decimals ? p + 1 + decimals : NULL;
}

static const char *skip_members(const char *p, char close)
{
    p = skip_space(p + 1);
    if (*p == close)
        return p + 1;
    for (;; p = skip_space(p + 1)) {
        if (close == '}') {
            p = skip_space(skip_string(p));
            if (!p || *p != ':')
                return NULL;
            p = skip_space(p + 1);
        }
        p = skip_space(skip_value(p));
        if (!p || *p == close)
            return p ? p + 1 : NULL;
        if (*p != ',')
            return NULL;
    }
}

static const char *skip_value(const char *p)
{
    if (*p == '{')
        return skip_members(p, '}');
    if (*p == '[')
        return skip_members(p, ']');
    return *p == '"' ? skip_string(p) : skip_number(p);
}

static bool is_json(const char *text)
{
    const char *end = skip_space(skip_value(text));
    return end && !*end;
}

/* ---- Spans --------------------------------------------------------------------------------- */

struct span {
    uint32_t track;
    char name[64];
    uint64_t start_ns; /* of the timeline */
    uint64_t end_ns;
    uint64_t chunk;
    uint64_t bytes;
};

static const char format[] =
    "{\"ph\":\"X\",\"pid\":1,\"tid\":%" PRIu32 ",\"name\":\"%s\",\"ts\":%" PRIu64 ".%03" PRIu64
    ",\"dur\":%" PRIu64 ".%03" PRIu64 ",\"args\":{\"chunk\":%" PRIu64 ",\"bytes\":%" PRIu64 "}}%s";

static bool read_span(const char *line, struct span *out)
{
    struct span s = {0};
    uint64_t t[4];
    if (sscanf(line,
               "{\"ph\":\"X\",\"pid\":1,\"tid\":%" SCNu32 ",\"name\":\"%63[^\"]\",\"ts\":%" SCNu64
               ".%" SCNu64 ",\"dur\":%" SCNu64 ".%" SCNu64 ",\"args\":{\"chunk\":%" SCNu64
               ",\"bytes\":%" SCNu64,
               &s.track, s.name, &t[0], &t[1], &t[2], &t[3], &s.chunk, &s.bytes) != 8)
        return false;
    char again[512];
    snprintf(again, sizeof again, format, s.track, s.name, t[0], t[1], t[2], t[3], s.chunk, s.bytes,
             line[strlen(line) - 1] == ',' ? "," : "");
    s.start_ns = t[0] * 1000 + t[1];
    s.end_ns = s.start_ns + t[2] * 1000 + t[3];
    *out = s;
    return strcmp(line, again) == 0;
}

/* The spans of out.json, in its order, at most max. */
static size_t read_spans(struct span *spans, size_t max)
{
    char *text = read_file("out.json");
    cr_assert(is_json(text), "%s", text);
    size_t n = 0;
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line && n < max;
         line = strtok_r(NULL, "\n", &rest))
        n += read_span(line, &spans[n]);
    free(text);
    return n;
}

static struct hr__trace *create(void)
{
    struct hr__trace *trace = NULL;
    hr_error error = {0};
    cr_assert_eq(hr__trace_create("out.json", &trace, &error), HR_OK, "%s", error.text);
    return trace;
}

static void finish(struct hr__trace *trace)
{
    hr_error error = {0};
    cr_assert_eq(hr__trace_finish(trace, &error), HR_OK, "%s", error.text);
    cr_assert_eq(n_files("partial"), 0);
}

TRACE_TEST(a_trace_without_spans_is_valid)
{
    finish(create());
    char *text = read_file("out.json");
    cr_assert(is_json(text), "%s", text);
    cr_assert_not_null(strstr(text, "\"traceEvents\":["));
    free(text);
    assert_no_leak();
}

TRACE_TEST(spans_tell_microseconds_since_creation)
{
    const uint64_t before = hr__now_ns();
    struct hr__trace *trace = create();
    const uint64_t base = hr__now_ns();
    hr__trace_span(trace, TRACK, "first", base, base + 1, 0, 0);
    hr__trace_span(trace, UINT32_MAX, "second", base + 1234567, base + 1235567, UINT64_MAX,
                   UINT64_MAX);
    finish(trace);
    struct span s[3];
    cr_assert_eq(read_spans(s, 3), 2);
    cr_assert_leq(s[0].start_ns, base - before);
    cr_assert_eq(s[0].end_ns - s[0].start_ns, 1);
    cr_assert_eq(s[0].track, TRACK);
    cr_assert_str_eq(s[0].name, "first");
    cr_assert_eq(s[1].start_ns - s[0].start_ns, 1234567);
    cr_assert_eq(s[1].end_ns - s[1].start_ns, 1000);
    cr_assert_eq(s[1].track, UINT32_MAX);
    cr_assert_eq(s[1].chunk, UINT64_MAX);
    cr_assert_eq(s[1].bytes, UINT64_MAX);
    assert_no_leak();
}

TRACE_TEST(times_that_cannot_be_are_never_negative)
{
    struct hr__trace *trace = create();
    const uint64_t base = hr__now_ns();
    hr__trace_span(trace, TRACK, "ends before it starts", base + 10, base, 0, 0);
    hr__trace_span(trace, TRACK, "starts before the trace", 0, base, 1, 0);
    hr__trace_span(trace, TRACK, "ends before the trace", 0, 1, 2, 0);
    finish(trace);
    struct span s[4];
    cr_assert_eq(read_spans(s, 4), 3);
    cr_assert_eq(s[0].end_ns, s[0].start_ns);
    cr_assert_eq(s[1].start_ns, 0);
    cr_assert_eq(s[1].end_ns + 10, s[0].start_ns);
    cr_assert_eq(s[2].end_ns, 0);
    assert_no_leak();
}

TRACE_TEST(names_of_any_characters_make_valid_json)
{
    struct hr__trace *trace = create();
    const uint64_t base = hr__now_ns();
    hr__trace_track(trace, TRACK, "worker \"1\" \\ \n\t\x01\x1f\x7f");
    hr__trace_track(trace, TRACK + 1, "");
    hr__trace_span(trace, TRACK, "5 \xc2\xb5s \"quoted\\\"", base, base, 0, 0);
    finish(trace);
    char *text = read_file("out.json");
    cr_assert(is_json(text), "%s", text);
    cr_assert_not_null(strstr(text, "\"worker \\\"1\\\" \\\\ \\u000a\\u0009\\u0001\\u001f\x7f\""));
    cr_assert_not_null(strstr(text, "\"5 \xc2\xb5s \\\"quoted\\\\\\\"\""));
    free(text);
    /* the opinion of a reader that is not ours, where there is one */
    cr_assert_eq(system("! command -v python3 >/dev/null ||"
                        " python3 -c 'import json; json.load(open(\"out.json\"))'"),
                 0);
    assert_no_leak();
}

TRACE_TEST(spans_at_once_get_lanes_that_are_named_once)
{
    struct hr__trace *trace = create();
    const uint32_t read = HR_STAGE_READ * HR__TRACE_LANES;
    cr_assert_eq(hr__trace_lane(trace, HR_STAGE_READ, 0, 10), read);
    cr_assert_eq(hr__trace_lane(trace, HR_STAGE_READ, 9, 11), read + 1, "it overlaps");
    cr_assert_eq(hr__trace_lane(trace, HR_STAGE_READ, 10, 12), read, "it begins where one ends");
    cr_assert_eq(hr__trace_lane(trace, HR_STAGE_READ, 12, 12), read, "of no duration");
    cr_assert_eq(hr__trace_lane(trace, HR_STAGE_READ, 1, 2), read + 2, "told late");
    cr_assert_eq(hr__trace_lane(trace, HR_STAGE_WRITE, 0, 10), HR_STAGE_WRITE * HR__TRACE_LANES);
    finish(trace);
    char *text = read_file("out.json");
    cr_assert(is_json(text), "%s", text);
    static const char *const names[] = {"\"read 0\"", "\"read 1\"", "\"read 2\"", "\"write 0\""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *first = strstr(text, names[i]);
        cr_assert_not_null(first, "%s", names[i]);
        cr_assert_null(strstr(first + 1, names[i]), "%s", names[i]);
    }
    cr_assert_null(strstr(text, "\"read 3\""));
    free(text);
    assert_no_leak();
}

TRACE_TEST(lanes_are_as_many_as_ran_at_once)
{
    enum { SPANS = 2000, LONGEST = 12 };
    struct hr__trace *trace = create();
    int at_once[SPANS + LONGEST] = {
        0}; /* by start, in the order of ends: one ends each time unit */
    uint64_t lane_end[HR__TRACE_LANES] = {0};
    uint32_t n_lanes = 0;
    int most = 0;
    srand(1);
    for (uint64_t end = LONGEST; end < SPANS + LONGEST; end++) {
        const uint64_t start = end - 1 - (uint64_t)(rand() % LONGEST);
        const uint32_t lane = hr__trace_lane(trace, HR_STAGE_DECODE, start, end) % HR__TRACE_LANES;
        cr_assert_geq(start, lane_end[lane], "lane %u overlaps at %" PRIu64, lane, end);
        lane_end[lane] = end;
        n_lanes = lane >= n_lanes ? lane + 1 : n_lanes;
        for (uint64_t t = start; t < end; t++)
            most = ++at_once[t] > most ? at_once[t] : most;
    }
    cr_assert_eq(n_lanes, (uint32_t)most);
    cr_assert_gt(most, 4, "the test tests nothing");
    hr__trace_abandon(trace);
    assert_no_leak();
}

TRACE_TEST(what_fits_into_no_lane_shares_the_last)
{
    struct hr__trace *trace = create();
    const uint32_t first = HR_STAGE_WRITE * HR__TRACE_LANES;
    for (uint32_t i = 0; i < HR__TRACE_LANES + 3; i++) {
        const uint32_t lane = i < HR__TRACE_LANES ? i : HR__TRACE_LANES - 1;
        cr_assert_eq(hr__trace_lane(trace, HR_STAGE_WRITE, 0, 100 + i), first + lane);
    }
    /* the last one's end is the latest of all its spans */
    hr__trace_lane(trace, HR_STAGE_WRITE, 0, 1);
    const uint64_t end = 100 + HR__TRACE_LANES + 2;
    cr_assert_eq(hr__trace_lane(trace, HR_STAGE_WRITE, end - 1, 900), first + HR__TRACE_LANES - 2);
    cr_assert_eq(hr__trace_lane(trace, HR_STAGE_WRITE, end, 900), first + HR__TRACE_LANES - 1);
    finish(trace);
    assert_no_leak();
}

TRACE_TEST(a_long_trace_takes_no_more_memory)
{
    enum { SPANS = 100000 };
    const size_t without = allocated();
    struct hr__trace *trace = create();
    const size_t at_first = allocated();
    cr_assert_geq(at_first - without, BUFFER, "allocated() does not see it");
    cr_assert_lt(at_first - without, 2 * BUFFER);
    const uint64_t base = hr__now_ns();
    for (uint64_t i = 0; i < SPANS; i++) {
        const uint64_t start = base + i * 700;
        const uint64_t end = start + 1600;
        hr__trace_span(trace, hr__trace_lane(trace, HR_STAGE_READ, start, end), "read", start, end,
                       i, i * 4096);
        if (i % 97 == 0) /* at any fill of the buffer; mallinfo2 is slow */
            cr_assert_eq(allocated(), at_first, "span %" PRIu64, i);
    }
    finish(trace);
    struct span *spans = calloc(SPANS + 1, sizeof *spans);
    cr_assert_eq(read_spans(spans, SPANS + 1), SPANS);
    uint64_t lane_end[3] = {0};
    for (uint64_t i = 0; i < SPANS; i++) {
        const struct span *s = &spans[i];
        const uint32_t lane = s->track - HR_STAGE_READ * HR__TRACE_LANES;
        cr_assert_lt(lane, 3);
        cr_assert_geq(s->start_ns, lane_end[lane]);
        lane_end[lane] = s->end_ns;
        cr_assert_eq(s->start_ns, spans[0].start_ns + i * 700);
        cr_assert_eq(s->end_ns - s->start_ns, 1600);
        cr_assert(s->chunk == i && s->bytes == i * 4096);
    }
    free(spans);
    assert_no_leak();
}

TRACE_TEST(a_name_longer_than_the_buffer_is_whole)
{
    for (size_t size = BUFFER - 200; size <= BUFFER + 1; size += size == BUFFER ? 1 : 25) {
        char *name = malloc(size + 1);
        memset(name, 'n', size);
        name[size] = '\0';
        struct hr__trace *trace = create();
        hr__trace_track(trace, TRACK, name);
        finish(trace);
        char *text = read_file("out.json");
        cr_assert(is_json(text));
        const char *first = strstr(text, "nnn");
        cr_assert(first && strspn(first, "n") == size, "%zu", size);
        free(text);
        free(name);
    }
    assert_no_leak();
}

static void expect_refused(const char *path, hr_status status, int native)
{
    struct hr__trace *trace = NULL;
    hr_error error = {0};
    cr_assert_eq(hr__trace_create(path, &trace, &error), status, "%s: %s", path, error.text);
    cr_assert_eq(error.code, status);
    cr_assert_eq(error.native, native, "%s: %s", path, error.text);
    cr_assert_not_null(strstr(error.text, path), "%s", error.text);
    cr_assert_null(trace);
    cr_assert_eq(hr__trace_create(path, &trace, NULL), status);
}

TRACE_TEST(a_path_that_cannot_be_written_fails_at_creation)
{
    write_file("file", "");
    cr_assert_eq(mkdir("directory", 0777), 0);
    cr_assert_eq(mkfifo("fifo", 0666), 0);
    cr_assert_eq(symlink("/dev/null", "link"), 0);
    expect_refused("", HR_EIO, ENOENT);
    expect_refused("missing/out.json", HR_EIO, ENOENT);
    expect_refused("missing/", HR_EIO, ENOENT);
    expect_refused("file/out.json", HR_EIO, ENOTDIR);
    expect_refused("directory", HR_EINVAL, 0);
    expect_refused("fifo", HR_EINVAL, 0);
    expect_refused("/dev/null", HR_EINVAL, 0);
    expect_refused("link", HR_EINVAL, 0);
    char name[257]; /* one byte too long for a file */
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    expect_refused(name, HR_EIO, ENAMETOOLONG);
    cr_assert_eq(n_files("partial"), 0);
    assert_no_leak();
}

/* The folder would let it be replaced. */
TRACE_TEST(a_read_only_file_is_not_replaced)
{
    write_file("out.json", "old");
    cr_assert_eq(chmod("out.json", 0444), 0);
    cr_assert_eq(chmod(".", 0777), 0);
    const bool is_root = geteuid() == 0; /* who may write everything */
    cr_assert(!is_root || seteuid(65534) == 0);
    expect_refused("out.json", HR_EIO, EACCES);
    cr_assert(!is_root || seteuid(0) == 0);
    cr_assert_eq(n_files("partial"), 0);
    assert_no_leak();
}

TRACE_TEST(the_old_file_stays_until_the_new_one_is_whole)
{
    write_file("out.json", "old");
    struct hr__trace *trace = create();
    cr_assert_eq(n_files(".out.json.partial-"), 1);
    hr__trace_abandon(trace);
    cr_assert_eq(n_files("partial"), 0);
    char *text = read_file("out.json");
    cr_assert_str_eq(text, "old");
    free(text);
    finish(create());
    text = read_file("out.json");
    cr_assert(is_json(text));
    free(text);
    assert_no_leak();
}

TRACE_TEST(an_abandoned_trace_leaves_nothing)
{
    hr__trace_abandon(create());
    cr_assert_eq(n_files("out.json"), 0);
    assert_no_leak();
}

TRACE_TEST(links_are_followed_and_the_mode_is_the_old_one_or_by_the_umask)
{
    write_file("real.json", "old");
    cr_assert_eq(chmod("real.json", 0604), 0);
    cr_assert_eq(symlink("real.json", "out.json"), 0);
    finish(create());
    struct stat st;
    cr_assert_eq(lstat("out.json", &st), 0);
    cr_assert(S_ISLNK(st.st_mode));
    cr_assert_eq(lstat("real.json", &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0604u);
    umask(027);
    cr_assert_eq(unlink("real.json"), 0);
    finish(create());
    cr_assert_eq(lstat("real.json", &st), 0);
    cr_assert_eq(st.st_mode & 07777, 0640u);
    assert_no_leak();
}

/* RLIMIT_FSIZE is a disk that is full after so many bytes. */
TRACE_TEST(a_write_that_fails_is_told_at_the_end_and_leaves_no_file)
{
    signal(SIGXFSZ, SIG_IGN);
    write_file("out.json", "old");
    static const rlim_t limits[] = {0, 1, 200, BUFFER - 1, BUFFER, BUFFER + 1, 3 * BUFFER};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit limit;
        cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
        const rlim_t before = limit.rlim_cur;
        struct hr__trace *trace = create();
        limit.rlim_cur = limits[i];
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        for (uint64_t chunk = 0; chunk < 4000; chunk++)
            hr__trace_span(trace, TRACK, "span", hr__now_ns(), hr__now_ns(), chunk, 0);
        limit.rlim_cur = before; /* a disk that has room again does not make the file whole */
        if (limits[i] % 2)
            cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        hr_error error = {0};
        cr_assert_eq(hr__trace_finish(trace, &error), HR_EIO, "limit %zu", (size_t)limits[i]);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        cr_assert_eq(error.native, EFBIG);
        cr_assert_not_null(strstr(error.text, "out.json"), "%s", error.text);
        cr_assert_eq(n_files("partial"), 0);
        char *text = read_file("out.json");
        cr_assert_str_eq(text, "old");
        free(text);
    }
    assert_no_leak();
}

TRACE_TEST(a_rename_that_fails_leaves_no_file)
{
    struct hr__trace *trace = create();
    cr_assert_eq(mkdir("out.json", 0777), 0);
    hr_error error = {0};
    cr_assert_eq(hr__trace_finish(trace, &error), HR_EIO);
    cr_assert_eq(error.native, EISDIR, "%s", error.text);
    cr_assert_eq(n_files("partial"), 0);
    assert_no_leak();
}

TRACE_TEST(null_is_a_trace_that_nobody_asked_for)
{
    hr_error error = {0};
    hr__trace_track(NULL, TRACK, "track");
    hr__trace_span(NULL, hr__trace_lane(NULL, HR_STAGE_READ, 0, 1), "read", 0, 1, 0, 0);
    hr__trace_abandon(NULL);
    cr_assert_eq(hr__trace_finish(NULL, &error), HR_OK);
    cr_assert_eq(error.code, 0);
    cr_assert_eq(n_files("partial"), 0);
    assert_no_leak();
}
