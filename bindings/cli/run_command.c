// SPDX-License-Identifier: Apache-2.0
/* headrace run: one pipeline, from its words to its end. */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "cli.h"

/* Freed by the main thread, and handlers run there alone: the library's threads take no signals. */
static _Atomic(hr_pipeline *) running;

static void cancel_running(void)
{
    hr_pipeline *pipeline = atomic_load(&running);
    if (pipeline)
        hr_pipeline_cancel(pipeline);
}

static int report_status(hr_status status, const hr_error *error)
{
    if (status == HR_OK)
        return EXIT_DONE;
    if (interrupted() && status == HR_ECANCELED) {
        fprintf(stderr, "headrace: interrupted: %s\n", error->text);
        return EXIT_INTERRUPTED;
    }
    fprintf(stderr, "headrace: %s\n", error->text);
    return EXIT_TRANSFER;
}

static void print_notes(const struct options *o)
{
    if (o->stats == STATS_TEXT || o->config.flags & HR_STRICT)
        for (unsigned i = 0; i < n_notes(); i++)
            fprintf(stderr, "headrace: note: %s\n", note(i));
}

static void print_statistics(const hr_pipeline *pipeline, const hr_loop *loop,
                             const struct options *o, bool shown_progress)
{
    struct report report;
    print_notes(o);
    if (!make_report(pipeline, loop, o, &report))
        return;
    if (o->stats == STATS_TEXT)
        print_report_text(&report, stderr);
    else if (o->stats == STATS_JSON)
        print_report_json(&report, stderr);
    else if (shown_progress)
        print_report_line(&report, stderr);
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

static int transfer(hr_loop *loop, const struct options *o)
{
    hr_error error = {0};
    hr_pipeline *pipeline = NULL;
    struct progress progress;
    hr_status status = hr_pipeline_create(loop, &o->config, &pipeline, &error);
    if (status != HR_OK) {
        print_notes(o);
        /* what --kernel names is a word of the command line, which only the library can read */
        const bool word = error.code == HR_EINVAL && error.stage == HR_STAGE_KERNEL;
        const int code = report_status(status, &error);
        return word ? EXIT_USAGE : code;
    }
    atomic_store(&running, pipeline);
    if (interrupted())
        hr_pipeline_cancel(pipeline);
    progress_begin(&progress, o);
    status = run_to_end(pipeline, loop, &progress, &error);
    atomic_store(&running, NULL);
    print_statistics(pipeline, loop, o, progress.on && status == HR_OK);
    int code = report_status(status, &error);
    if (code == EXIT_DONE && !write_results(pipeline, o))
        code = EXIT_TRANSFER;
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
    const int code = status == HR_OK ? transfer(loop, o) : report_status(status, &error);
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
    o->context.log = take_note;
    if (o->config.flags & HR_STRICT && o->loop.io == HR_IO_AUTO)
        o->loop.io = HR_IO_URING;
    catch_interrupts(cancel_running);
    signal(SIGPIPE, SIG_IGN); /* a reader of stderr that leaves does not end the transfer */
    return run_with(o);
}
