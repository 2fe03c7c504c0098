// SPDX-License-Identifier: Apache-2.0
/* What the search tried and found, as text and as JSON. */
#include "bench_tune.h"

static const double giga = 1e9;

struct tuned tune_in_force(const struct tune *t, const struct tuned *with)
{
    return (struct tuned){
        .chunk = with->chunk ? with->chunk : t->defaults.chunk_size,
        .depth = with->depth ? with->depth : t->defaults.depth,
        .threads = with->threads ? with->threads : (uint64_t)t->bench.n_cpus,
    };
}

static double rate_of(const struct tune *t, const double *wall_s, unsigned n)
{
    const double median_s = median_of(wall_s, n);
    return median_s > 0 ? (double)t->bytes * t->n_transfers / median_s : 0;
}

/* ---- text ---- */

static void print_trial(const struct tune *t, const struct trial *trial, FILE *out)
{
    char text[TUNED_TEXT];
    const struct tuned with = tune_in_force(t, &trial->with);
    fprintf(out, "%-40s %8.2f %8.2f %6.3f %3u%s\n", tuned_text(&with, text),
            rate_of(t, trial->with_s, trial->n) / giga,
            rate_of(t, trial->beside_s, trial->n) / giga, trial->gain, trial->n,
            trial->is_gain ? "  taken" : "");
}

static void print_trials(const struct tune *t, FILE *out)
{
    if (t->n_trials)
        fprintf(out, "%-40s %8s %8s %6s %3s\n", "tried, by turns with the best so far", "GB/s",
                "that", "gain", "n");
    for (unsigned i = 0; i < t->n_trials; i++)
        print_trial(t, &t->trials[i], out);
    if (t->out_of_time)
        fputs("not all was tried: the time was over\n", out);
}

static void print_proof(const struct tune *t, FILE *out)
{
    char text[TUNED_TEXT];
    const struct trial *proof = &t->proof;
    const struct tuned defaults = tune_in_force(t, &proof->beside);
    fprintf(out, "by default: %s\n", tuned_text(&defaults, text));
    if (!proof->n) {
        fputs("found: nothing that is faster by more than noise\n", out);
        return;
    }
    fprintf(out, "found: %s: %.2f GB/s beside %.2f, by turns %u times: gain %.3f%s\n",
            tuned_text(&proof->with, text), rate_of(t, proof->with_s, proof->n) / giga,
            rate_of(t, proof->beside_s, proof->n) / giga, proof->n, proof->gain,
            proof->is_gain    ? ""
            : proof->gain > 1 ? ", which is no more than noise"
                              : ", which is none");
}

void tune_print(const struct tune *t, FILE *out)
{
    char bytes[HUMAN_SIZE];
    char text[TUNED_TEXT];
    fprintf(out, "%s of %s%s to %s, %u time%s a run\n", human_bytes((double)t->bytes, bytes),
            t->path, t->decodes ? ", decoded," : "",
            t->bench.on_host ? "null: on the host" : t->bench.device, t->n_transfers,
            t->n_transfers == 1 ? "" : "s");
    print_trials(t, out);
    print_proof(t, out);
    fprintf(out, "proposed: %s\n", tuned_text(&t->proposed, text));
    if (!t->bench.on_host)
        fputs("streams stay the default: they are of kernels, and there is none\n", out);
    if (t->saved[0])
        fprintf(out, "kept for headrace run in %s\n", t->saved);
}

/* ---- JSON ---- */

static void print_settings(const struct tune *t, const struct tuned *with, FILE *out)
{
    const struct tuned all = tune_in_force(t, with);
    fprintf(out, "\"chunk_bytes\": %llu, \"depth\": %llu, \"threads\": %llu",
            (unsigned long long)all.chunk, (unsigned long long)all.depth,
            (unsigned long long)all.threads);
}

static void print_runs(const struct tune *t, const struct tuned *with, const double *wall_s,
                       unsigned n, FILE *out)
{
    fputc('{', out);
    print_settings(t, with, out);
    fprintf(out, ", \"gigabytes_per_s\": %.6g, \"wall_s\": [", rate_of(t, wall_s, n) / giga);
    for (unsigned i = 0; i < n; i++)
        fprintf(out, "%s%.9f", i ? ", " : "", wall_s[i]);
    fputs("]}", out);
}

static void print_pair(const struct tune *t, const struct trial *trial, const char *with,
                       const char *beside, FILE *out)
{
    fprintf(out, "\"%s\": ", with);
    print_runs(t, &trial->with, trial->with_s, trial->n, out);
    fprintf(out, ", \"%s\": ", beside);
    print_runs(t, &trial->beside, trial->beside_s, trial->n, out);
    fprintf(out, ", \"gain\": %.4f, \"more_than_noise\": %s", trial->gain,
            trial->is_gain ? "true" : "false");
}

/* Settings are what is in force, also where they are the defaults. */
void tune_print_json(const void *what, FILE *out)
{
    const struct tune *t = what;
    fputs("{\"machine\": ", out);
    bench_print_json_machine(&t->bench.pool, t->bench.device, out);
    fputs(",\n \"file\": ", out);
    json_text(out, t->path);
    fprintf(out,
            ", \"bytes\": %llu, \"transfers_per_run\": %u, \"decoded\": %s, "
            "\"out_of_time\": %s,\n \"tried\": [",
            (unsigned long long)t->bytes, t->n_transfers, t->decodes ? "true" : "false",
            t->out_of_time ? "true" : "false");
    for (unsigned i = 0; i < t->n_trials; i++) {
        fputs(i ? ",\n  {" : "\n  {", out);
        print_pair(t, &t->trials[i], "with", "beside", out);
        fputc('}', out);
    }
    fputs("],\n ", out);
    print_pair(t, &t->proof, "found", "default", out);
    fputs(",\n \"proposed\": {", out);
    print_settings(t, &t->proposed, out);
    fputs("}, \"saved\": ", out);
    if (t->saved[0])
        json_text(out, t->saved);
    else
        fputs("null", out);
    fputs("}\n", out);
}
