// SPDX-License-Identifier: Apache-2.0
/* What the search tried and found, as text and as JSON. */
#include "bench_tune.h"

static const double giga = 1e9;

static const char *const knob_words[N_KNOBS] = {"chunk", "depth", "threads", "streams"};
static const char *const knob_keys[N_KNOBS] = {"chunk_bytes", "depth", "threads", "streams"};

uint64_t knob_value(const struct tune *t, const struct tuned *with, enum knob knob)
{
    const uint64_t said[N_KNOBS] = {with->chunk, with->depth, with->threads, with->streams};
    const uint64_t defaults[N_KNOBS] = {t->defaults.chunk_size, t->defaults.depth,
                                        (uint64_t)t->bench.n_cpus, t->defaults.n_streams};
    return said[knob] ? said[knob] : defaults[knob];
}

static double rate_of(const struct tune *t, const struct trial *trial)
{
    const double wall_s = median_of(trial->wall_s, trial->n);
    return wall_s > 0 ? (double)t->bytes / wall_s : 0;
}

/* ---- text ---- */

static void print_knob(const struct tune *t, const struct tuned *with, enum knob knob, FILE *out)
{
    const unsigned long long value = knob_value(t, with, knob);
    if (knob == KNOB_CHUNK)
        fprintf(out, "%llu KiB", value >> 10);
    else
        fprintf(out, "%llu", value);
}

static void print_trials(const struct tune *t, FILE *out)
{
    for (enum knob knob = KNOB_CHUNK; knob < N_KNOBS; knob++) {
        const char *between = knob_words[knob];
        for (unsigned i = 0; i < t->n_trials; i++) {
            if (t->trials[i].knob != knob)
                continue;
            fprintf(out, "%s ", between);
            print_knob(t, &t->trials[i].with, knob, out);
            fprintf(out, ": %.2f", rate_of(t, &t->trials[i]) / giga);
            between = ",";
        }
        if (*between == ',')
            fputs(" GB/s\n", out);
    }
}

static void print_settings(const struct tune *t, const struct tuned *with, FILE *out)
{
    for (enum knob knob = KNOB_CHUNK; knob < N_KNOBS; knob++) {
        if (knob == KNOB_STREAMS && t->bench.on_host)
            continue;
        fprintf(out, "%s%s ", knob ? ", " : "", knob_words[knob]);
        print_knob(t, with, knob, out);
    }
    fputc('\n', out);
}

void tune_print(const struct tune *t, FILE *out)
{
    char bytes[HUMAN_SIZE];
    char text[TUNED_TEXT];
    fprintf(out, "%s of %s%s to %s\n", human_bytes((double)t->bytes, bytes), t->path,
            t->decodes ? ", decoded," : "",
            t->bench.on_host ? "null: on the host" : t->bench.device);
    print_trials(t, out);
    if (t->out_of_time)
        fputs("not all was tried: the time was over\n", out);
    fputs("by default: ", out);
    print_settings(t, &t->by_default.with, out);
    if (t->found.n)
        fprintf(out, "found: %s: %.2f GB/s beside %.2f, by turns %u times: gain %.2f%s\n",
                tuned_text(&t->found.with, text), rate_of(t, &t->found) / giga,
                rate_of(t, &t->by_default) / giga, t->found.n, t->gain,
                t->is_gain ? "" : ", which is no more than noise");
    fprintf(out, "proposed: %s\n", tuned_text(&t->proposed, text));
    if (t->saved[0])
        fprintf(out, "kept for headrace run in %s\n", t->saved);
}

/* ---- JSON ---- */

static void print_json_settings(const struct tune *t, const struct tuned *with, FILE *out)
{
    for (enum knob knob = KNOB_CHUNK; knob < N_KNOBS; knob++)
        fprintf(out, "%s\"%s\": %llu", knob ? ", " : "", knob_keys[knob],
                (unsigned long long)knob_value(t, with, knob));
}

static void print_trial(const struct tune *t, const struct trial *trial, FILE *out)
{
    fputc('{', out);
    print_json_settings(t, &trial->with, out);
    fprintf(out, ", \"gigabytes_per_s\": %.6g, \"wall_s\": [", rate_of(t, trial) / giga);
    for (unsigned i = 0; i < trial->n; i++)
        fprintf(out, "%s%.9f", i ? ", " : "", trial->wall_s[i]);
    fputs("]}", out);
}

/* Settings are what is in force, also where they are the defaults. */
void tune_print_json(const void *what, FILE *out)
{
    const struct tune *t = what;
    fputs("{\"machine\": ", out);
    bench_print_json_machine(&t->bench.pool, t->bench.device, out);
    fputs(",\n \"file\": ", out);
    json_text(out, t->path);
    fprintf(out, ", \"bytes\": %llu, \"decoded\": %s, \"out_of_time\": %s,\n \"tried\": [",
            (unsigned long long)t->bytes, t->decodes ? "true" : "false",
            t->out_of_time ? "true" : "false");
    for (unsigned i = 0; i < t->n_trials; i++) {
        fputs(i ? ",\n  " : "\n  ", out);
        print_trial(t, &t->trials[i], out);
    }
    fputs("],\n \"default\": ", out);
    print_trial(t, &t->by_default, out);
    fputs(",\n \"found\": ", out);
    print_trial(t, &t->found, out);
    fprintf(out, ",\n \"gain\": %.4f, \"more_than_noise\": %s, \"proposed\": {", t->gain,
            t->is_gain ? "true" : "false");
    print_json_settings(t, &t->proposed, out);
    fputs("}, \"saved\": ", out);
    if (t->saved[0])
        json_text(out, t->saved);
    else
        fputs("null", out);
    fputs("}\n", out);
}
