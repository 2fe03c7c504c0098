// SPDX-License-Identifier: Apache-2.0
/* headrace run: one pipeline, from its words to its end. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "tuned.h"

/* Freed by the main thread, and handlers run there alone: the library's threads take no signals. */
static _Atomic(hr_pipeline *) running;

static volatile sig_atomic_t someone_watches;

static void cancel_running(void)
{
    static const char text[] = "\nheadrace: interrupted: ending what is under way; interrupt again "
                               "to end at once\n";
    if (someone_watches && write(STDERR_FILENO, text, sizeof text - 1) < 0)
        someone_watches = 0;
    hr_pipeline *pipeline = atomic_load(&running);
    if (pipeline)
        hr_pipeline_cancel(pipeline);
}

static void print_notes(const struct options *o, FILE *out)
{
    if (o->stats == STATS_TEXT || o->config.flags & HR_STRICT)
        for (unsigned i = 0; i < n_notes(); i++)
            fprintf(out, "headrace: note: %s\n", note(i));
}

/* Everything that is told at the end. report is NULL if there was no transfer, error if it did not
 * fail. */
static void print_told(const struct report *report, const hr_error *error, hr_pipeline *pipeline,
                       const struct options *o, FILE *out)
{
    print_notes(o, out);
    if (o->stats == STATS_JSON)
        print_report_json(report, error, pipeline, o, out);
    if (o->stats == STATS_TEXT && report)
        print_report_text(report, out);
    if (!error && !o->result && (o->stats == STATS_TEXT || o->stats == STATS_UNSET))
        print_results_text(out, pipeline, o);
}

/* False: said why on stderr. */
static bool tell(const struct report *report, const hr_error *error, hr_pipeline *pipeline,
                 const struct options *o)
{
    struct whole_file file;
    if (!o->stats_file) {
        print_told(report, error, pipeline, o, stderr);
        return true;
    }
    if (whole_file_open(&file, o->stats_file)) {
        print_told(report, error, pipeline, o, file.stream);
        if (whole_file_close(&file))
            return true;
    }
    fprintf(stderr, "headrace: --stats-file %s: %s\n", o->stats_file, strerror(errno));
    return false;
}

static hr_status run_to_end(hr_pipeline *pipeline, hr_loop *loop, struct progress *progress,
                            hr_error *error)
{
    hr_status status;
    while ((status = hr_pipeline_state(pipeline, error)) == HR_PENDING) {
        status = hr_loop_poll(loop, progress_wait_ms(progress), error);
        if (status < 0)
            break;
        progress_show(progress, pipeline);
    }
    progress_wipe(progress);
    return status;
}

/* A transfer that could not begin, with its error. */
static int give_up(hr_error *error, const struct options *o)
{
    name_standard_ends(error, o);
    tell(NULL, error, NULL, o);
    return report_failure(error, o);
}

/* The end of one that began; error is NULL if it is done. */
static int finish(hr_pipeline *pipeline, const hr_loop *loop, hr_error *error, bool shown_progress,
                  const struct options *o)
{
    struct report report;
    const bool known = make_report(pipeline, loop, o, &report);
    if (o->sink_looks_encoded && report.stats.n_frames_in)
        take_note(NULL, "the output is decoded, although its name ends in .zst: --decode none "
                        "copies, --encode zstd encodes again");
    if (known && shown_progress && !error && o->stats != STATS_TEXT && o->stats != STATS_JSON)
        print_report_line(&report, stderr);
    if (error)
        name_standard_ends(error, o);
    int code = tell(known ? &report : NULL, error, pipeline, o) ? EXIT_DONE : EXIT_TRANSFER;
    if (error)
        code = report_failure(error, o);
    else if (!write_results(pipeline, o))
        code = EXIT_TRANSFER;
    return code;
}

static int transfer(hr_loop *loop, const struct options *o)
{
    hr_error error = {0};
    hr_pipeline *pipeline = NULL;
    struct progress progress;
    hr_status status = hr_pipeline_create(loop, &o->config, &pipeline, &error);
    if (status != HR_OK)
        return give_up(&error, o);
    atomic_store(&running, pipeline);
    if (interrupted())
        hr_pipeline_cancel(pipeline);
    progress_begin(&progress, o);
    status = run_to_end(pipeline, loop, &progress, &error);
    atomic_store(&running, NULL);
    const int code = finish(pipeline, loop, status == HR_OK ? NULL : &error, progress.on, o);
    hr_pipeline_free(pipeline);
    return code;
}

static int run_with(const struct options *o)
{
    hr_error error = {0};
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    hr_status status = hr_context_create(&o->context, &context, &error);
    if (status == HR_OK)
        status = hr_loop_create(context, &o->loop, &loop, &error);
    const int code = status == HR_OK ? transfer(loop, o) : give_up(&error, o);
    hr_loop_free(loop);
    hr_context_free(context);
    return code;
}

/* False: said which word is wrong. */
static bool resolve_ends(struct options *o)
{
    const char *why = NULL;
    const unsigned n_sources = o->n_ends - 1;
    unsigned i = 0;
    while (i < n_sources && parse_source(o->ends[i], &o->sources[i], &why))
        i++;
    if (i == n_sources && parse_sink(o->ends[i], &o->config.sink, &why)) {
        o->config.n_sources = n_sources;
        o->config.sources = o->sources;
        o->config.sink.flags |= o->sink_flags;
        return true;
    }
    fprintf(stderr, "headrace: %s '%s': %s\n", i == n_sources ? "sink" : "source", o->ends[i], why);
    return false;
}

int command_run(int argc, char **argv)
{
    static struct options options;
    struct options *o = &options;
    parse_run_options(argc, argv, o);
    if (!resolve_ends(o))
        return EXIT_USAGE;
    if (!load_given_files(o))
        return EXIT_TRANSFER;
    if (o->offset || o->length != UINT64_MAX) {
        o->sources[0].flags |= HR_RANGE;
        o->sources[0].offset = o->offset;
        o->sources[0].length = o->length;
    }
    o->config.kernels = o->config.n_kernels ? o->kernels : NULL;
    if (!use_tuned(o))
        return EXIT_TRANSFER;
    o->context.log = take_note;
    if (o->config.flags & HR_STRICT && o->loop.io == HR_IO_AUTO)
        o->loop.io = HR_IO_URING;
    someone_watches = o->progress == PROGRESS_ON || isatty(STDERR_FILENO);
    catch_interrupts(cancel_running);
    signal(SIGPIPE, SIG_IGN); /* a reader of stderr that leaves does not end the transfer */
    return run_with(o);
}
