// SPDX-License-Identifier: Apache-2.0
/* Loops: inside of foreign event loops, from thread to thread, in forked children, cancelled from
 * anywhere, and with hundreds of pipelines of every kind in little memory. */
#include <criterion/criterion.h>
#include <errno.h>
#include <headrace.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>
#if HR_HAVE_ZSTD
#include <zstd.h>
#endif

#include "chains.h"
#include "engines.h"
#include "quiet_fork.h"

static hr_loop *loops[2];
static unsigned n_loops;

static void make_loops(void)
{
    n_loops = test_loops(loops);
}

static void free_loops(void)
{
    for (unsigned i = 0; i < n_loops; i++)
        hr_loop_free(loops[i]);
}

TestSuite(many, .init = make_loops, .fini = free_loops, .timeout = 60);

enum { SIZE = 6000, CHUNK = 1000 };

/* ---- one transfer of each kind ---- */

enum kind { PLAIN, KERNEL, FILTER, PIPE, DECODE, ENCODE, PULL, N_KINDS };

struct one {
    struct chain chain;
    enum kind kind;
    size_t size;
    int fd;                /* of a pipe; -1: none */
    unsigned char *packed; /* encoded input */
};

static const unsigned char *data; /* SIZE bytes */

static void read_packed(struct one *one)
{
#if HR_HAVE_ZSTD
    const size_t cap = ZSTD_compressBound(one->size);
    one->packed = malloc(cap);
    const size_t n = ZSTD_compress(one->packed, cap, data, one->size, 1);
    cr_assert(!ZSTD_isError(n));
    chain_read_memory(&one->chain, one->packed, n);
    one->chain.config.decode = HR_CODEC_ZSTD;
#else
    chain_read_memory(&one->chain, data, one->size);
#endif
}

/* All of it fits into the pipe. */
static void read_pipe(struct one *one)
{
    int ends[2];
    cr_assert(pipe(ends) == 0 && write(ends[1], data, one->size) == (ssize_t)one->size);
    close(ends[1]);
    one->fd = ends[0];
    chain_read_fd(&one->chain, one->fd);
}

static void make_one(struct one *one, enum kind kind, size_t size)
{
    struct chain *chain = &one->chain;
    *one = (struct one){.kind = kind, .size = size, .fd = -1};
    chain_init(chain);
    chain->config.chunk_size = CHUNK;
    chain->config.frame_size = CHUNK;
    chain->config.depth = 3;
    chain->config.n_streams = 1;
    if (kind == PIPE)
        read_pipe(one);
    else if (kind == DECODE)
        read_packed(one);
    else
        chain_read_memory(chain, data, size);
    if (kind == KERNEL)
        chain_add(chain, "unshuffle:4,12");
    if (kind == KERNEL)
        chain_add(chain, "shuffle:4,12");
    if (kind == FILTER)
        chain_add(chain, "filter:u8,ge,0");
    chain->config.encode = HR_HAVE_ZSTD && kind == ENCODE ? HR_CODEC_ZSTD : HR_CODEC_NONE;
    if (kind == PULL)
        chain->config.sink.kind = HR_PULL;
}

/* Takes what the pull form has; a little output is compared at once. */
static void fetch(struct one *one)
{
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    if (one->kind != PULL)
        return;
    while (hr_pipeline_next(one->chain.pipeline, 0, &chunk, NULL) == HR_OK) {
        cr_assert(memcmp(chunk.data, data + chunk.stream_offset, (size_t)chunk.size) == 0);
        one->chain.n_out += (size_t)chunk.size;
        hr_chunk_release(&chunk, NULL);
    }
}

static void assert_output(const struct one *one)
{
    const unsigned char *out = one->chain.out;
    size_t n = one->chain.n_out;
#if HR_HAVE_ZSTD
    unsigned char decoded[SIZE + 1];
    if (one->kind == ENCODE) {
        n = ZSTD_decompress(decoded, sizeof decoded, out, n);
        out = decoded;
    }
#endif
    cr_assert_eq(n, one->size, "kind %d: %zu bytes of %zu", (int)one->kind, n, one->size);
    cr_assert(one->kind == PULL || n == 0 || memcmp(out, data, n) == 0, "kind %d", (int)one->kind);
}

static void free_one(struct one *one)
{
    chain_reset(&one->chain);
    if (one->fd >= 0)
        close(one->fd);
    free(one->packed);
}

static void assert_done(struct one *one)
{
    hr_error error = {0};
    const hr_status status = hr_pipeline_state(one->chain.pipeline, &error);
    cr_assert_eq(status, HR_OK, "kind %d: %s %s", (int)one->kind, hr_status_name(status),
                 error.text);
    assert_output(one);
}

/* Sizes are whole units of 12 bytes. */
static size_t size_of(unsigned i)
{
    return (size_t)(i * 84 % SIZE);
}

/* ---- foreign loops ---- */

enum { N_ONES = 2 * N_KINDS };

static void make_ones(struct one *ones, hr_loop *loop)
{
    for (unsigned i = 0; i < N_ONES; i++) {
        make_one(&ones[i], (enum kind)(i % N_KINDS), i < N_KINDS ? SIZE : size_of(i));
        cr_assert_eq(chain_create(&ones[i].chain, loop), HR_OK, "%s", ones[i].chain.error.text);
    }
}

static void end_ones(struct one *ones)
{
    for (unsigned i = 0; i < N_ONES; i++) {
        assert_done(&ones[i]);
        free_one(&ones[i]);
    }
}

/* Fetching advances every pipeline of the loop, so their states are looked at after it. */
static bool all_ended(struct one *ones, unsigned n)
{
    bool ended = true;
    for (unsigned i = 0; i < n; i++)
        fetch(&ones[i]);
    for (unsigned i = 0; i < n; i++)
        ended &= hr_pipeline_state(ones[i].chain.pipeline, NULL) != HR_PENDING;
    return ended;
}

/* Steps as often as there is work: what comes before a sleep. False: all have ended. */
static bool step_and_arm(hr_loop *loop, struct one *ones)
{
    do {
        cr_assert_geq(hr_loop_step(loop, NULL), 0);
        if (all_ended(ones, N_ONES))
            return false;
    } while (hr_loop_arm(loop) == HR_PENDING);
    return true;
}

Test(many, a_foreign_loop_with_poll)
{
    data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        struct one ones[N_ONES];
        make_ones(ones, loops[i]);
        while (step_and_arm(loops[i], ones)) {
            struct pollfd event = {.fd = hr_loop_fd(loops[i]), .events = POLLIN};
            cr_assert_eq(poll(&event, 1, 20000), 1, "a wake-up was lost");
        }
        end_ones(ones);
    }
}

/* With a timer of its own, which goes on meanwhile. */
Test(many, a_foreign_loop_with_epoll)
{
    data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        struct one ones[N_ONES];
        const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
        const int epoll = epoll_create1(0);
        const struct itimerspec each = {.it_value.tv_nsec = 1000000,
                                        .it_interval.tv_nsec = 1000000};
        struct epoll_event event = {.events = EPOLLIN, .data.fd = timer};
        cr_assert_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event), 0);
        event.data.fd = hr_loop_fd(loops[i]);
        cr_assert_eq(epoll_ctl(epoll, EPOLL_CTL_ADD, event.data.fd, &event), 0);
        timerfd_settime(timer, 0, &each, NULL);
        make_ones(ones, loops[i]);
        uint64_t n_idle = 0; /* ticks since the loop was last woken */
        while (step_and_arm(loops[i], ones) && n_idle < 20000) {
            int n_ready;
            do /* io_uring may interrupt it, to start a worker of the kernel's */
                n_ready = epoll_wait(epoll, &event, 1, 20000);
            while (n_ready < 0 && errno == EINTR);
            cr_assert_eq(n_ready, 1, "a wake-up was lost");
            uint64_t n_ticks = 0;
            if (event.data.fd == timer)
                cr_assert_eq(read(timer, &n_ticks, sizeof n_ticks), sizeof n_ticks);
            n_idle = event.data.fd == timer ? n_idle + n_ticks : 0;
        }
        end_ones(ones);
        close(epoll);
        close(timer);
    }
}

/* ---- threads ---- */

struct visit {
    hr_loop *loop;
    struct one *one; /* NULL: only look */
    hr_status step;
    hr_status take;
    hr_error error;
};

static void *look_in(void *argument)
{
    struct visit *visit = argument;
    visit->step = hr_loop_step(visit->loop, &visit->error);
    return NULL;
}

static void *take_over(void *argument)
{
    struct visit *visit = argument;
    visit->take = hr_loop_take(visit->loop, &visit->error);
    while (visit->take == HR_OK && (visit->step = hr_loop_poll(visit->loop, 10000, NULL)) > 0)
        fetch(visit->one);
    return NULL;
}

static void visit_from_thread(void *(*function)(void *), struct visit *visit)
{
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, function, visit), 0);
    pthread_join(thread, NULL);
}

Test(many, another_thread_is_refused_until_it_takes_the_loop)
{
    data = test_bytes(SIZE);
    for (unsigned i = 0; i < N_KINDS * n_loops; i++) {
        hr_loop *loop = loops[i % n_loops];
        struct one one;
        make_one(&one, (enum kind)(i / n_loops), SIZE);
        cr_assert_geq(hr_loop_step(loop, NULL), 0); /* it is this thread's */
        cr_assert_eq(chain_create(&one.chain, loop), HR_OK);
        struct visit visit = {.loop = loop, .one = &one};
        visit_from_thread(look_in, &visit);
        cr_assert_eq(visit.step, HR_ETHREAD);
        cr_assert(strstr(visit.error.text, "thread"), "%s", visit.error.text);
        visit_from_thread(take_over, &visit);
        cr_assert_eq(visit.take, HR_OK, "%s", visit.error.text);
        cr_assert_eq(visit.step, HR_OK);
        cr_assert_eq(hr_loop_step(loop, NULL), HR_ETHREAD);
        cr_assert_eq(hr_loop_take(loop, NULL), HR_OK);
        assert_done(&one);
        free_one(&one);
    }
}

/* Half of the chunks are on loan in one thread while another goes on. */
Test(many, a_loop_is_taken_in_the_middle_of_a_transfer)
{
    data = test_bytes(SIZE);
    for (unsigned i = 0; i < n_loops; i++) {
        struct hr_chunk chunks[3] = {{.struct_size = sizeof chunks[0]},
                                     {.struct_size = sizeof chunks[1]},
                                     {.struct_size = sizeof chunks[2]}};
        struct one one;
        make_one(&one, PULL, SIZE);
        cr_assert_eq(chain_create(&one.chain, loops[i]), HR_OK);
        for (unsigned k = 0; k < 3; k++)
            cr_assert_eq(hr_pipeline_next(one.chain.pipeline, -1, &chunks[k], NULL), HR_OK);
        for (unsigned k = 0; k < 3; k++) {
            one.chain.n_out += (size_t)chunks[k].size;
            hr_chunk_release(&chunks[k], NULL);
        }
        struct visit visit = {.loop = loops[i], .one = &one};
        visit_from_thread(take_over, &visit);
        cr_assert_eq(visit.step, HR_OK, "%s", visit.error.text);
        cr_assert_eq(hr_loop_take(loops[i], NULL), HR_OK);
        assert_done(&one);
        free_one(&one);
    }
}

Test(many, a_loop_with_something_under_way_is_not_taken)
{
    for (unsigned i = 0; i < n_loops; i++) {
        struct chain chain;
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        chain_init(&chain);
        chain_read_fd(&chain, ends[0]);
        cr_assert_eq(chain_create(&chain, loops[i]), HR_OK);
        cr_assert_eq(hr_loop_poll(loops[i], 0, NULL), HR_PENDING);
        struct visit visit = {.loop = loops[i]};
        visit_from_thread(take_over, &visit);
        cr_assert_eq(visit.take, HR_EINVAL);
        close(ends[1]);
        cr_assert_eq(hr_pipeline_run(chain.pipeline, NULL), HR_OK);
        chain_reset(&chain);
        close(ends[0]);
    }
}

static void *take_a_chunk(void *argument)
{
    struct visit *visit = argument;
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    visit->take = hr_loop_take(visit->loop, &visit->error);
    visit->step = hr_pipeline_next(visit->one->chain.pipeline, 10000, &chunk, &visit->error);
    if (visit->step == HR_OK)
        visit->one->chain.n_out += (size_t)chunk.size;
    hr_chunk_release(&chunk, NULL);
    return NULL;
}

/* The pipe is waited for, or read, whenever a thread ends. */
Test(many, threads_take_turns_on_a_shared_loop_with_something_under_way)
{
    uint32_t engines[2];
    const unsigned n = test_engines(engines);
    for (unsigned i = 0; i < n; i++) {
        const struct hr_loop_config config = {
            .struct_size = sizeof config, .io = engines[i], .flags = HR_LOOP_SHARED};
        hr_loop *loop = NULL;
        struct one one = {.kind = PULL};
        int ends[2];
        cr_assert_eq(pipe(ends), 0);
        cr_assert_eq(hr_loop_create(NULL, &config, &loop, NULL), HR_OK);
        chain_init(&one.chain);
        chain_read_fd(&one.chain, ends[0]);
        one.chain.config.sink.kind = HR_PULL;
        cr_assert_eq(chain_create(&one.chain, loop), HR_OK);
        struct visit visit = {.loop = loop, .one = &one};
        for (size_t k = 1; k <= 20; k++) {
            cr_assert_eq(write(ends[1], "0123456789", 10), 10);
            visit_from_thread(take_a_chunk, &visit);
            cr_assert_eq(visit.take, HR_OK, "%s", visit.error.text);
            cr_assert_eq(visit.step, HR_OK, "%s", visit.error.text);
            cr_assert_eq(one.chain.n_out, 10 * k);
        }
        close(ends[1]);
        visit_from_thread(take_a_chunk, &visit);
        cr_assert_eq(visit.step, HR_END);
        chain_reset(&one.chain);
        hr_loop_free(loop);
        close(ends[0]);
    }
}

/* ---- a forked child ---- */

/* Exit statuses tell which call went wrong; a hang ends by the alarm. */
static void use_in_child(hr_context *context, hr_loop *loop, hr_pipeline *pipeline)
{
    const struct hr_source source = {.struct_size = sizeof source, .kind = HR_MEMORY};
    const struct hr_pipeline_config config = {
        .struct_size = sizeof config,
        .n_sources = 1,
        .sources = &source,
        .sink = {.struct_size = sizeof config.sink, .kind = HR_NULL}};
    hr_pipeline *other = NULL;
    hr_loop *other_loop = NULL;
    hr_error error = {0};
    struct hr_chunk chunk = {.struct_size = sizeof chunk};
    alarm(10);
    if (hr_loop_step(loop, &error) != HR_EFORK || !strstr(error.text, "fork"))
        _exit(1);
    if (hr_loop_poll(loop, 0, NULL) != HR_EFORK)
        _exit(2);
    if (hr_loop_take(loop, &error) != HR_EFORK)
        _exit(3);
    if (hr_pipeline_run(pipeline, NULL) != HR_EFORK)
        _exit(4);
    if (hr_pipeline_next(pipeline, 0, &chunk, NULL) != HR_EFORK)
        _exit(5);
    if (hr_pipeline_create(loop, &config, &other, &error) != HR_EFORK)
        _exit(6);
    if (hr_loop_create(context, NULL, &other_loop, &error) != HR_EFORK ||
        !strstr(error.text, "fork"))
        _exit(7);
    hr_pipeline_free(pipeline);
    hr_loop_free(loop);
    hr_context_free(context);
    _exit(0);
}

Test(many, a_forked_child_is_refused_and_the_parent_goes_on)
{
    data = test_bytes(SIZE);
    hr_context *context = NULL;
    cr_assert_eq(hr_context_create(NULL, &context, NULL), HR_OK);
    for (unsigned i = 0; i < 2 * n_loops; i++) {
        hr_loop *loop = loops[i % n_loops];
        struct one one;
        int status;
        make_one(&one, PULL, SIZE);
        cr_assert_eq(chain_create(&one.chain, loop), HR_OK);
        if (i / n_loops) /* it is under way */
            cr_assert_eq(hr_loop_step(loop, NULL), HR_PENDING);
        const pid_t child = fork_when_quiet();
        if (child == 0)
            use_in_child(context, loop, one.chain.pipeline);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "call %d, signal %d",
                  WEXITSTATUS(status), WIFSIGNALED(status) ? WTERMSIG(status) : 0);
        while (hr_pipeline_state(one.chain.pipeline, NULL) == HR_PENDING) {
            fetch(&one);
            cr_assert_geq(hr_loop_poll(loop, 1000, NULL), 0);
        }
        assert_done(&one);
        free_one(&one);
    }
    hr_context_free(context);
}

/* ---- cancel ---- */

static hr_pipeline *to_cancel;

static void cancel_on_signal(int signal_number)
{
    (void)signal_number;
    hr_pipeline_cancel(to_cancel);
}

struct canceller {
    pthread_t loop_thread;
    bool by_signal;
};

static void *cancel_later(void *argument)
{
    const struct canceller *canceller = argument;
    usleep(20000); /* the loop sleeps by now; if not, the cancel is merely early */
    if (canceller->by_signal)
        pthread_kill(canceller->loop_thread, SIGUSR1);
    else
        hr_pipeline_cancel(to_cancel);
    return NULL;
}

static int64_t give_for_ever(void *user, void *buffer, size_t size, uint64_t offset)
{
    (void)user;
    (void)offset;
    memset(buffer, 1, size);
    return (int64_t)size;
}

static void run_cancelled(hr_loop *loop, bool silent, bool by_signal)
{
    struct chain chain;
    struct canceller canceller = {.loop_thread = pthread_self(), .by_signal = by_signal};
    pthread_t thread;
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    chain_init(&chain);
    chain_read_fd(&chain, ends[0]);
    if (!silent)
        chain.sources[0] = (struct hr_source){
            .struct_size = sizeof chain.sources[0], .kind = HR_CALLBACK, .read = give_for_ever};
    chain.config.sink = (struct hr_sink){.struct_size = sizeof chain.config.sink};
    chain.config.chunk_size = CHUNK;
    chain_add(&chain, "filter:u8,lt,9");
    chain_add(&chain, "crc32");
    cr_assert_eq(chain_create(&chain, loop), HR_OK, "%s", chain.error.text);
    to_cancel = chain.pipeline;
    pthread_create(&thread, NULL, cancel_later, &canceller);
    cr_assert_eq(hr_pipeline_run(chain.pipeline, &chain.error), HR_ECANCELED);
    cr_assert_eq(chain.error.code, HR_ECANCELED);
    pthread_join(thread, NULL);
    chain_reset(&chain);
    close(ends[0]);
    close(ends[1]);
}

Test(many, cancel_from_a_thread_and_from_a_signal_handler)
{
    signal(SIGUSR1, cancel_on_signal);
    for (unsigned i = 0; i < 4 * n_loops; i++)
        run_cancelled(loops[i % n_loops], i / n_loops % 2, i / n_loops / 2);
}

/* A function of the user that is under way until it may go on. */
struct slow {
    atomic_uint n_calls;
    atomic_bool may_end;
    hr_pipeline *cancels; /* at its begin; or NULL */
};

static void work_slowly(struct slow *slow)
{
    slow->n_calls++;
    if (slow->cancels)
        hr_pipeline_cancel(slow->cancels);
    while (!slow->may_end)
        usleep(100);
}

static int32_t slow_kernel(void *user, const struct hr_kernel_call *call)
{
    (void)call;
    work_slowly(user);
    return 0;
}

static int64_t slow_read(void *user, void *buffer, size_t size, uint64_t offset)
{
    work_slowly(user);
    return give_for_ever(user, buffer, size, offset);
}

static int64_t slow_write(void *user, const void *buffer, size_t size, uint64_t offset)
{
    (void)buffer;
    (void)size;
    (void)offset;
    work_slowly(user);
    return 1;
}

/* chain_create would have the sink give to the chain. */
static void create_slow(struct chain *chain, hr_loop *loop)
{
    chain->config.sources = chain->sources;
    chain->config.kernels = chain->kernels;
    cr_assert_eq(hr_pipeline_create(loop, &chain->config, &chain->pipeline, &chain->error), HR_OK,
                 "%s", chain->error.text);
}

static void make_slow(struct chain *chain, struct slow *slow, unsigned kind)
{
    chain_init(chain);
    chain_read_memory(chain, data, SIZE);
    chain->config.chunk_size = CHUNK / 10;
    chain->config.depth = SIZE / (CHUNK / 10);
    chain->config.n_streams = 1; /* one call after the other */
    if (kind >= HR_KERNEL_FUNCTION)
        for (unsigned i = 0; i < 2; i++)
            chain_add_kernel(
                chain, (struct hr_kernel){.kind = kind, .function = slow_kernel, .user = slow});
    else
        chain->config.sink = (struct hr_sink){.struct_size = sizeof chain->config.sink,
                                              .kind = HR_CALLBACK,
                                              .write = slow_write,
                                              .user = slow};
}

/* The first of many calls is under way when the transfer is cancelled. A launch function is called
 * by the loop, and cancels itself. */
Test(many, after_a_cancel_no_function_of_the_user_begins)
{
    static const unsigned kinds[] = {0, HR_KERNEL_FUNCTION, HR_KERNEL_LAUNCH};
    data = test_bytes(SIZE);
    for (unsigned i = 0; i < 3 * n_loops; i++) {
        const unsigned kind = kinds[i % 3];
        struct slow slow = {.may_end = kind == HR_KERNEL_LAUNCH};
        struct chain chain;
        make_slow(&chain, &slow, kind);
        create_slow(&chain, loops[i / 3]);
        slow.cancels = kind == HR_KERNEL_LAUNCH ? chain.pipeline : NULL;
        while (slow.n_calls == 0)
            cr_assert_geq(hr_loop_poll(loops[i / 3], 1, NULL), 0);
        hr_pipeline_cancel(chain.pipeline);
        slow.may_end = true;
        cr_assert_eq(hr_pipeline_run(chain.pipeline, &chain.error), HR_ECANCELED);
        cr_assert_eq(slow.n_calls, 1, "kind %u: %u calls", kind, slow.n_calls);
        chain_reset(&chain);
    }
}

/* Behind another transfer's call, in the queue of the only worker. */
Test(many, after_a_cancel_a_read_that_was_queued_is_not_called)
{
    const struct hr_context_config one_worker = {.struct_size = sizeof one_worker, .n_threads = 1};
    struct slow slow[2] = {0};
    struct chain chains[2];
    hr_context *context;
    hr_loop *loop;
    cr_assert_eq(hr_context_create(&one_worker, &context, NULL), HR_OK);
    cr_assert_eq(hr_loop_create(context, NULL, &loop, NULL), HR_OK);
    for (unsigned i = 0; i < 2; i++) {
        chain_init(&chains[i]);
        chains[i].sources[0] = (struct hr_source){.struct_size = sizeof chains[i].sources[0],
                                                  .kind = HR_CALLBACK,
                                                  .read = slow_read,
                                                  .user = &slow[i]};
        chains[i].config.n_sources = 1;
        create_slow(&chains[i], loop);
        while (slow[0].n_calls == 0)
            cr_assert_eq(hr_loop_poll(loop, 1, NULL), HR_PENDING);
    }
    cr_assert_eq(hr_loop_step(loop, NULL), HR_PENDING);
    hr_pipeline_cancel(chains[1].pipeline);
    hr_pipeline_cancel(chains[0].pipeline);
    slow[0].may_end = slow[1].may_end = true;
    for (unsigned i = 0; i < 2; i++) {
        cr_assert_eq(hr_pipeline_run(chains[i].pipeline, NULL), HR_ECANCELED);
        cr_assert_eq(slow[i].n_calls, 1 - i);
        chain_reset(&chains[i]);
    }
    hr_loop_free(loop);
    hr_context_free(context);
}

/* ---- very many ---- */

/* Creates n pipelines; where memory is all leased, those that are there go on first. Returns how
 * often that was so. */
static unsigned create_many(struct one *ones, unsigned n, hr_loop *loop)
{
    unsigned n_again = 0;
    for (unsigned i = 0; i < n; i++) {
        make_one(&ones[i], (enum kind)(i % N_KINDS), size_of(i));
        hr_status status;
        while ((status = chain_create(&ones[i].chain, loop)) == HR_AGAIN) {
            n_again++;
            cr_assert(i > 0 && n_again < 100000);
            cr_assert_geq(hr_loop_poll(loop, 10, NULL), 0);
            all_ended(ones, i);
        }
        cr_assert_eq(status, HR_OK, "%s", ones[i].chain.error.text);
    }
    return n_again;
}

static uint64_t leased_by(const struct one *ones, unsigned n)
{
    struct hr_stats stats = {.struct_size = sizeof stats};
    uint64_t leased = 0;
    for (unsigned i = 0; i < n; i++) {
        cr_assert_eq(hr_pipeline_stats(ones[i].chain.pipeline, &stats), HR_OK);
        leased += stats.leased_bytes;
    }
    return leased;
}

static void run_many(uint32_t io, uint64_t max_memory, bool short_of_memory)
{
    enum { N = 256 };
    const struct hr_context_config bounded = {
        .struct_size = sizeof bounded, .n_threads = 2, .max_memory = max_memory};
    const struct hr_loop_config config = {.struct_size = sizeof config, .io = io};
    hr_context *context = NULL;
    hr_loop *loop = NULL;
    struct one *ones = calloc(N, sizeof *ones);
    cr_assert_eq(hr_context_create(&bounded, &context, NULL), HR_OK);
    cr_assert_eq(hr_loop_create(context, &config, &loop, NULL), HR_OK);
    hr_context_free(context);
    const unsigned n_again = create_many(ones, N, loop);
    cr_assert_eq(n_again > 0, short_of_memory, "%u times short", n_again);
    cr_assert(short_of_memory || leased_by(ones, N) <= max_memory);
    unsigned n_polls = 0;
    while (!all_ended(ones, N)) {
        cr_assert_geq(hr_loop_poll(loop, 1000, NULL), 0);
        cr_assert_lt(n_polls++, 100000, "it hangs");
    }
    for (unsigned i = 0; i < N; i++) {
        assert_done(&ones[i]);
        free_one(&ones[i]);
    }
    free(ones);
    hr_loop_free(loop);
}

Test(many, hundreds_at_once_in_bounded_memory)
{
    uint32_t engines[2];
    const unsigned n = test_engines(engines);
    data = test_bytes(SIZE);
    for (unsigned i = 0; i < n; i++) {
        run_many(engines[i], 32 << 20, false);
        run_many(engines[i], 1 << 20, true);
    }
}
