// SPDX-License-Identifier: Apache-2.0
/* Clocks, threads that share work, and a peer on the loopback. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_tools.h"

bool bench_told(char *error, const char *what)
{
    snprintf(error, HR_ERROR_TEXT, "%s: %s", what, strerror(errno));
    return false;
}

double bench_clock_seconds(void)
{
    return seconds(now_ns());
}

double bench_cpu_seconds(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

void sample_begin(struct sample *sample)
{
    *sample = (struct sample){.cpu_s = bench_cpu_seconds()};
    sample->wall_s = bench_clock_seconds();
}

void sample_end(struct sample *sample, uint64_t bytes)
{
    sample->wall_s = bench_clock_seconds() - sample->wall_s;
    sample->cpu_s = bench_cpu_seconds() - sample->cpu_s;
    if (sample->wall_s < 1e-9)
        sample->wall_s = 1e-9;
    sample->rate = (double)bytes / sample->wall_s;
}

/* ---- the library's ---- */

bool bench_make_pool(struct pool *pool, uint64_t threads, uint64_t max_memory, char *error)
{
    hr_error why = {0};
    const struct hr_context_config config = {
        .struct_size = sizeof config, .n_threads = (uint32_t)threads, .max_memory = max_memory};
    hr_status status = HR_OK;
    if (!pool->context)
        status = hr_context_create(&config, &pool->context, &why);
    if (status == HR_OK && !pool->loop)
        status = hr_loop_create(pool->context, NULL, &pool->loop, &why);
    if (status != HR_OK)
        snprintf(error, HR_ERROR_TEXT, "%s", why.text);
    return status == HR_OK;
}

void bench_drop_pool(struct pool *pool)
{
    hr_loop_free(pool->loop);
    hr_context_free(pool->context);
}

struct hr_source bench_memory(const void *data, uint64_t size)
{
    return (struct hr_source){
        .struct_size = sizeof(struct hr_source), .kind = HR_MEMORY, .data = data, .size = size};
}

/* ---- threads ---- */

struct team {
    struct bench *bench;
    slice_fn slice;
    int fd;
    pthread_mutex_t lock; /* the rest */
    pthread_cond_t told;
    enum { WAIT, GO, GO_HOME } word;
    int error; /* of the first that failed */
};

struct worker {
    pthread_t thread;
    struct team *team;
    unsigned char *buffer;
    uint64_t begin;
    uint64_t end;
};

static void *work(void *argument)
{
    struct worker *w = argument;
    struct team *team = w->team;
    pthread_mutex_lock(&team->lock);
    while (team->word == WAIT)
        pthread_cond_wait(&team->told, &team->lock);
    const bool go = team->word == GO;
    pthread_mutex_unlock(&team->lock);
    if (!go || team->slice(team->bench, team->fd, w->buffer, w->begin, w->end))
        return NULL;
    const int error = errno;
    pthread_mutex_lock(&team->lock);
    if (!team->error)
        team->error = error ? error : EIO;
    pthread_mutex_unlock(&team->lock);
    return NULL;
}

/* Whole pages, so that direct I/O takes them. */
static uint64_t border(uint64_t bytes, unsigned i, unsigned n)
{
    return i == n ? bytes : bytes / n * i / 4096 * 4096;
}

/* A worker without memory for its buffer, or a thread, is none: 0 or an errno. */
static int hire(struct worker *w)
{
    void *buffer = NULL;
    const int error = posix_memalign(&buffer, 4096, SLICE_BUFFER);
    if (error)
        return error;
    memset(buffer, 1, SLICE_BUFFER);
    w->buffer = buffer;
    const int rc = pthread_create(&w->thread, NULL, work, w);
    if (rc)
        free(buffer);
    return rc;
}

static void tell_all(struct team *team, bool go)
{
    pthread_mutex_lock(&team->lock);
    team->word = go ? GO : GO_HOME;
    pthread_cond_broadcast(&team->told);
    pthread_mutex_unlock(&team->lock);
}

/* How many were hired; *rc says why not all. */
static unsigned hire_all(struct team *team, struct worker *workers, const struct way *way,
                         unsigned n, int *rc)
{
    for (unsigned i = 0; i < n; i++) {
        workers[i] = (struct worker){
            .team = team, .begin = border(way->bytes, i, n), .end = border(way->bytes, i + 1, n)};
        *rc = hire(&workers[i]);
        if (*rc)
            return i;
    }
    return n;
}

/* The clock begins when all are there. */
static int work_together(struct team *team, struct worker *workers, const struct way *way,
                         struct sample *sample)
{
    const unsigned n = way->width ? way->width : 1;
    int rc = 0;
    const unsigned n_hired = hire_all(team, workers, way, n, &rc);
    sample_begin(sample);
    tell_all(team, !rc);
    for (unsigned i = 0; i < n_hired; i++)
        pthread_join(workers[i].thread, NULL);
    sample_end(sample, way->bytes);
    for (unsigned i = 0; i < n_hired; i++)
        free(workers[i].buffer);
    return rc ? rc : team->error;
}

bool on_threads(struct bench *b, struct way *way, slice_fn slice, int fd, const char *what,
                struct sample *sample, char *error)
{
    struct team team = {.bench = b, .slice = slice, .fd = fd};
    struct worker *workers = calloc(way->width ? way->width : 1, sizeof *workers);
    errno = ENOMEM;
    if (workers) {
        pthread_mutex_init(&team.lock, NULL);
        pthread_cond_init(&team.told, NULL);
        errno = work_together(&team, workers, way, sample);
        pthread_cond_destroy(&team.told);
        pthread_mutex_destroy(&team.lock);
    }
    const int rc = errno;
    free(workers);
    errno = rc;
    return !rc || bench_told(error, what);
}

/* ---- the loopback ---- */

int listen_on_loopback(uint16_t *port)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof name;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    if (bind(fd, (struct sockaddr *)&name, sizeof name) == 0 && listen(fd, 1) == 0 &&
        getsockname(fd, (struct sockaddr *)&name, &size) == 0) {
        *port = ntohs(name.sin_port);
        return fd;
    }
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* A receiver that leaves early is the one that tells why. */
static void *send_all(void *argument)
{
    const struct sender *s = argument;
    const int fd = accept(s->listener, NULL, NULL);
    uint64_t at = 0;
    ssize_t gone = 1;
    while (fd >= 0 && at < s->size && gone > 0) {
        const uint64_t left = s->size - at;
        gone = send(fd, s->data + at, left < SLICE_BUFFER ? left : SLICE_BUFFER, MSG_NOSIGNAL);
        at += gone > 0 ? (uint64_t)gone : 0;
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

bool sender_begin(struct sender *s, const unsigned char *data, uint64_t size, uint16_t *port)
{
    *s = (struct sender){.data = data, .size = size};
    s->listener = listen_on_loopback(port);
    if (s->listener < 0)
        return false;
    const int rc = pthread_create(&s->thread, NULL, send_all, s);
    if (rc) {
        close(s->listener);
        errno = rc;
    }
    return !rc;
}

/* One that nobody connected to is woken. */
void sender_end(struct sender *s)
{
    shutdown(s->listener, SHUT_RDWR);
    pthread_join(s->thread, NULL);
    close(s->listener);
}
