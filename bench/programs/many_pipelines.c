// SPDX-License-Identifier: Apache-2.0
/* N pipelines at once, each a FILE to null, on one context that may lease MAX_MEMORY bytes: as soon
 * as one cannot be created for want of memory, those that are there advance. Prints how many there
 * were at once, and the peak resident memory in bytes.
 * Usage: many_pipelines FILE N CHUNK MAX_MEMORY */
#include <headrace.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

struct many {
    hr_loop *loop;
    hr_pipeline **pipelines;
    unsigned n;
    unsigned n_made;
    unsigned n_freed;
    unsigned n_at_once; /* at most */
};

static void stop(const char *what, const hr_error *error)
{
    fprintf(stderr, "many_pipelines: %s: %s\n", what, error->text);
    exit(1);
}

static void make(struct many *all, const struct hr_pipeline_config *config)
{
    hr_error error = {0};
    while (all->n_made < all->n) {
        hr_status status =
            hr_pipeline_create(all->loop, config, &all->pipelines[all->n_made], &error);
        if (status == HR_AGAIN)
            break;
        if (status != HR_OK)
            stop("create", &error);
        all->n_made++;
    }
    if (all->n_made - all->n_freed > all->n_at_once)
        all->n_at_once = all->n_made - all->n_freed;
}

/* Steps, and frees those that have ended. */
static void advance(struct many *all)
{
    hr_error error = {0};
    if (hr_loop_poll(all->loop, -1, &error) < 0)
        stop("poll", &error);
    for (unsigned i = 0; i < all->n_made; i++) {
        hr_status state =
            all->pipelines[i] ? hr_pipeline_state(all->pipelines[i], &error) : HR_PENDING;
        if (state == HR_PENDING)
            continue;
        if (state != HR_OK)
            stop("state", &error);
        hr_pipeline_free(all->pipelines[i]);
        all->pipelines[i] = NULL;
        all->n_freed++;
    }
}

static void run(struct many *all, const char *path, uint64_t chunk_size)
{
    struct hr_source source = {.struct_size = sizeof source, .kind = HR_FILE, .path = path};
    struct hr_pipeline_config config = {.struct_size = sizeof config,
                                        .n_sources = 1,
                                        .sources = &source,
                                        .sink = {.struct_size = sizeof config.sink},
                                        .chunk_size = chunk_size};
    while (all->n_freed < all->n) {
        make(all, &config);
        advance(all);
    }
}

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    hr_error error = {0};
    hr_context *context = NULL;
    struct hr_context_config limits = {.struct_size = sizeof limits,
                                       .max_memory = strtoull(argv[4], NULL, 10)};
    struct many all = {.n = (unsigned)atoi(argv[2])};
    all.pipelines = calloc(all.n, sizeof *all.pipelines);
    if (all.pipelines == NULL || hr_context_create(&limits, &context, &error) != HR_OK ||
        hr_loop_create(context, NULL, &all.loop, &error) != HR_OK)
        stop("begin", &error);
    run(&all, argv[1], strtoull(argv[3], NULL, 10));
    hr_loop_free(all.loop);
    hr_context_free(context);
    free(all.pipelines);

    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%u %lld\n", all.n_at_once, (long long)used.ru_maxrss * 1024);
    return 0;
}
