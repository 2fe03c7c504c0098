// SPDX-License-Identifier: Apache-2.0
/* What the Criterion tests of decode and encode begin with: both I/O engines, or the one that the
 * system offers, and the assertions on one trial. Included by a test file once. */
#ifndef HR_TEST_CODEC_SUITE_H
#define HR_TEST_CODEC_SUITE_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "codec_trials.h"
#include "engines.h"

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

/* Which trial it was, for messages; in a static buffer. */
static const char *name_of(const struct trial *t)
{
    static const char *const feeds[] = {"memory", "file", "callback", "pipe"};
    static char name[HR_ERROR_TEXT + 200];
    snprintf(name, sizeof name, "%s by %zu, chunk %llu, depth %u%s: %s %s", feeds[t->feed], t->step,
             (unsigned long long)t->chunk_size, t->depth, t->hung ? ", HUNG" : "",
             hr_status_name(t->status), t->status < 0 ? t->error.text : "");
    return name;
}

static inline struct hr_source memory_source(const struct buffer *b)
{
    return (struct hr_source){.struct_size = sizeof(struct hr_source),
                              .kind = HR_MEMORY,
                              .data = b->data,
                              .size = b->size};
}

static inline void assert_gives(hr_loop *loop, struct trial *t, const struct buffer *in,
                                const struct buffer *want)
{
    run_trial(loop, t, in);
    cr_assert_eq(t->status, HR_OK, "%s", name_of(t));
    cr_assert(same_bytes(&t->got, want), "%s: %zu bytes came, %zu were due, or others", name_of(t),
              t->got.size, want->size);
}

/* It fails with this status and says `text`. */
static inline void assert_fails(hr_loop *loop, struct trial *t, const struct buffer *in,
                                hr_status status, const char *text)
{
    run_trial(loop, t, in);
    cr_assert_eq(t->status, status, "wanted %s: %s", hr_status_name(status), name_of(t));
    cr_assert(strstr(t->error.text, text), "wanted '%s': %s", text, name_of(t));
}

#endif
