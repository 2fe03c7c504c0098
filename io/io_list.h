// SPDX-License-Identifier: Apache-2.0
/* A queue of requests, linked through the requests themselves: what both engines keep. */
#ifndef HR_IO_LIST_H
#define HR_IO_LIST_H

#include <assert.h>
#include <stddef.h>

#include "io.h"

struct hr__list {
    struct hr__io_request *head;
    struct hr__io_request **tail;
};

static inline void hr__list_init(struct hr__list *list)
{
    list->head = NULL;
    list->tail = &list->head;
}

static inline void hr__list_push(struct hr__list *list, struct hr__io_request *request)
{
    request->next = NULL;
    *list->tail = request;
    list->tail = &request->next;
}

/* NULL if it is empty. */
static inline struct hr__io_request *hr__list_pop(struct hr__list *list)
{
    struct hr__io_request *request = list->head;
    if (request != NULL) {
        list->head = request->next;
        if (list->head == NULL) {
            list->tail = &list->head;
        }
    }
    return request;
}

static inline void hr__list_remove(struct hr__list *list, const struct hr__io_request *request)
{
    struct hr__io_request **at = &list->head;
    while (*at != request) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = request->next;
    if (*at == NULL) {
        list->tail = at;
    }
}

/* Empties it; returns the chain. */
static inline struct hr__io_request *hr__list_take(struct hr__list *list)
{
    struct hr__io_request *head = list->head;
    hr__list_init(list);
    return head;
}

#endif
