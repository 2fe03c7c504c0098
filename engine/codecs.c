// SPDX-License-Identifier: Apache-2.0
#include "codecs.h"

#include <stdlib.h>

void hr__codecs_init(struct hr__codecs *codecs, unsigned n_workers)
{
    pthread_mutex_init(&codecs->lock, NULL);
    codecs->max_kept = n_workers;
    codecs->kept = NULL;
}

static void free_entries(struct hr__codec_entry *entry)
{
    while (entry) {
        struct hr__codec_entry *next = entry->next;
        hr__decoder_free(entry->decoder);
        hr__encoder_free(entry->encoder);
        free(entry);
        entry = next;
    }
}

void hr__codecs_destroy(struct hr__codecs *codecs)
{
    free_entries(codecs->kept);
    pthread_mutex_destroy(&codecs->lock);
}

static bool alike(const struct hr__codec_kind *a, const struct hr__codec_kind *b)
{
    return a->encoder == b->encoder && a->level == b->level && a->window_log == b->window_log &&
           a->streams == b->streams && a->dict == b->dict;
}

static struct hr__codec_entry *make_entry(struct hr__codec_kind kind, struct hr__codec_error *error)
{
    struct hr__codec_entry *entry = calloc(1, sizeof *entry);
    *error = (struct hr__codec_error){.code = HR__CODEC_MEMORY, .text = "out of memory"};
    if (!entry)
        return NULL;
    entry->kind = kind;
    const enum hr__codec_code code =
        kind.encoder
            ? hr__encoder_create(&entry->encoder, kind.level, kind.dict, kind.dict_size, error)
            : hr__decoder_create(&entry->decoder, kind.dict, kind.dict_size, kind.window_log,
                                 error);
    if (code == HR__CODEC_OK)
        return entry;
    free(entry);
    return NULL;
}

struct hr__codec_entry *hr__codecs_take(struct hr__codecs *codecs, struct hr__codec_kind kind,
                                        struct hr__codec_error *error)
{
    pthread_mutex_lock(&codecs->lock);
    struct hr__codec_entry **at = &codecs->kept;
    while (*at && !alike(&(*at)->kind, &kind))
        at = &(*at)->next;
    struct hr__codec_entry *entry = *at;
    if (entry)
        *at = entry->next;
    pthread_mutex_unlock(&codecs->lock);
    return entry ? entry : make_entry(kind, error);
}

/* Under lock: puts the entry behind all others, unless there are enough of its kind. */
static bool keep(struct hr__codecs *codecs, struct hr__codec_entry *entry)
{
    unsigned n = 0;
    struct hr__codec_entry **at = &codecs->kept;
    for (; *at; at = &(*at)->next)
        n += alike(&(*at)->kind, &entry->kind);
    if (n >= codecs->max_kept)
        return false;
    entry->next = NULL;
    *at = entry;
    return true;
}

void hr__codecs_return(struct hr__codecs *codecs, struct hr__codec_entry *entry)
{
    if (!entry)
        return;
    pthread_mutex_lock(&codecs->lock);
    const bool kept = keep(codecs, entry);
    pthread_mutex_unlock(&codecs->lock);
    if (!kept) {
        entry->next = NULL;
        free_entries(entry);
    }
}

static unsigned count_kept(struct hr__codecs *codecs, const struct hr__codec_kind *kind)
{
    unsigned n = 0;
    pthread_mutex_lock(&codecs->lock);
    for (const struct hr__codec_entry *entry = codecs->kept; entry; entry = entry->next)
        n += alike(&entry->kind, kind);
    pthread_mutex_unlock(&codecs->lock);
    return n;
}

enum hr__codec_code hr__codecs_prepare(struct hr__codecs *codecs, struct hr__codec_kind kind,
                                       struct hr__codec_error *error)
{
    for (unsigned n = count_kept(codecs, &kind); n < codecs->max_kept; n++) {
        struct hr__codec_entry *entry = make_entry(kind, error);
        if (!entry)
            return error->code;
        hr__codecs_return(codecs, entry);
    }
    return HR__CODEC_OK;
}

void hr__codecs_forget(struct hr__codecs *codecs, const void *dict)
{
    struct hr__codec_entry *gone = NULL;
    pthread_mutex_lock(&codecs->lock);
    for (struct hr__codec_entry **at = &codecs->kept; *at;) {
        struct hr__codec_entry *entry = *at;
        if (entry->kind.dict != dict) {
            at = &entry->next;
            continue;
        }
        *at = entry->next;
        entry->next = gone;
        gone = entry;
    }
    pthread_mutex_unlock(&codecs->lock);
    free_entries(gone);
}
