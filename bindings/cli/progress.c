// SPDX-License-Identifier: Apache-2.0
/* The line of progress on stderr, redrawn in place. It fits into the terminal's width, as a line
 * that wraps cannot be drawn over. */
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

static const uint64_t between_ns = 200000000; /* five times a second */

static int terminal_width(void)
{
    struct winsize size = {0};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

/* By default not where data, or nobody, reads the terminal. */
void progress_begin(struct progress *p, const struct options *options)
{
    const char *sink = options->ends[options->n_ends - 1];
    const bool data_on_terminal = is_standard_word(sink, 1) && isatty(STDOUT_FILENO);
    const uint64_t now = now_ns();
    *p = (struct progress){.last_ns = now, .next_ns = now + between_ns};
    for (unsigned i = 0; i + 1 < options->n_ends; i++)
        p->listens = p->listens || is_listener_word(options->ends[i]);
    p->on = options->progress == PROGRESS_ON ||
            (options->progress == PROGRESS_AUTO && isatty(STDERR_FILENO) && !data_on_terminal);
}

int progress_wait_ms(const struct progress *p)
{
    if (!p->on)
        return -1;
    const uint64_t now = now_ns();
    return now < p->next_ns ? (int)((p->next_ns - now + 999999) / 1000000) : 0;
}

/* The newest fifth of a second counts a quarter, so that the number can be read. */
static void update_rate(struct progress *p, uint64_t now, uint64_t bytes)
{
    const double rate = (double)(bytes - p->last_bytes) / seconds(now - p->last_ns);
    p->rate = p->last_bytes ? 0.75 * p->rate + 0.25 * rate : rate;
    p->last_ns = now;
    p->last_bytes = bytes;
}

static void format_time(double left, char *out, size_t size)
{
    const unsigned s = left < 3599999 ? (unsigned)(left + 0.5) : 3599999; /* 999:59:59 */
    if (s >= 3600)
        snprintf(out, size, "%u:%02u:%02u", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, size, "%u:%02u", s / 60, s % 60);
}

static void format_line(const struct progress *p, uint64_t done, uint64_t total, char *out,
                        size_t size)
{
    char moved[HUMAN_SIZE];
    char all[HUMAN_SIZE];
    char rate[HUMAN_SIZE];
    char left[32] = "-:--";
    human_bytes((double)done, moved);
    human_bytes(p->rate, rate);
    if (!total) {
        snprintf(out, size, "%9s  %9s/s", moved, rate);
        return;
    }
    if (done > total) /* the source grows */
        done = total;
    if (p->rate > 0)
        format_time((double)(total - done) / p->rate, left, sizeof left);
    snprintf(out, size, "%3u %%  %9s of %s  %9s/s  %s left",
             (unsigned)(100.0 * (double)done / (double)total), moved,
             human_bytes((double)total, all), rate, left);
}

static void draw(struct progress *p, const char *line)
{
    const int room = terminal_width() - 1; /* the last column would wrap on some terminals */
    int columns = (int)strlen(line);
    if (columns > room)
        columns = room;
    const int behind = p->drawn > columns ? p->drawn - columns : 0;
    fprintf(stderr, "\r%.*s%*s", columns, line, behind, "");
    fflush(stderr);
    p->drawn = columns;
}

/* What was delivered, unless it is made of other bytes than what is read. */
static uint64_t bytes_done(const struct hr_stats *s)
{
    const bool same = !s->stages[HR_STAGE_DECODE].bytes_in &&
                      !s->stages[HR_STAGE_KERNEL].bytes_in &&
                      !s->stages[HR_STAGE_ENCODE].bytes_in && !s->dropped_bytes;
    return s->stages[same ? HR_STAGE_WRITE : HR_STAGE_READ].bytes_in;
}

void progress_show(struct progress *p, const hr_pipeline *pipeline)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    const uint64_t now = now_ns();
    if (!p->on || now < p->next_ns || hr_pipeline_stats(pipeline, &stats) != HR_OK)
        return;
    const uint64_t done = bytes_done(&stats);
    char line[128] = "waiting for a connection";
    if (done || !p->listens || stats.stages[HR_STAGE_READ].bytes_in) {
        update_rate(p, now, done);
        format_line(p, done, stats.total_bytes_in, line, sizeof line);
    }
    draw(p, line);
    p->next_ns = now + between_ns;
}

void progress_wipe(struct progress *p)
{
    if (!p->drawn)
        return;
    const int room = terminal_width() - 1; /* which may have become narrower */
    fprintf(stderr, "\r%*s\r", p->drawn < room ? p->drawn : room, "");
    p->drawn = 0;
}
