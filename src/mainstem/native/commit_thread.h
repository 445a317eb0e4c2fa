/* What the commit thread does without the interpreter: it waits for jobs, writes, syncs, and wakes the event loop.

   The event loop's thread makes and frees jobs, with the interpreter's lock held. The commit thread takes them out of the queue
   in order. A job belongs to the commit thread from `job_put` until `finished` is set. */
#pragma once

#include <Python.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAINSTEM_IOV_MAX 1024
#define MAINSTEM_FAILED_BEFORE -1

typedef struct native_job {
    struct native_job *next;
    PyObject *owner;        /* borrowed: the list of tasks holds it until its listener is called; NULL ends the thread */
    int fd;                 /* -1: a job in Python */
    int sync;
    int error;
    int finished;           /* set last: from then on the job belongs to the loop */
    int64_t position;
    Py_ssize_t count;
    struct iovec *vector;
    Py_buffer *views;
} native_job;

typedef struct native_queue {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    native_job *first, *last;
    int asleep;
    int broken;             /* after a failure; only the commit thread looks at it */
    int done_fd;
} native_queue;

static inline void job_free(native_job *job) {
    for (Py_ssize_t i = 0; i < job->count; i++) PyBuffer_Release(&job->views[i]);
    free(job->vector);
    free(job->views);
    free(job);
}

static inline native_job *job_new(PyObject *owner, int fd, int64_t position, int sync, PyObject *parts) {
    Py_ssize_t count = PyList_GET_SIZE(parts);
    native_job *job = calloc(1, sizeof(native_job));
    if (job != NULL && count) {
        job->vector = calloc(count, sizeof(struct iovec));
        job->views = calloc(count, sizeof(Py_buffer));
    }
    if (job == NULL || (count && (job->vector == NULL || job->views == NULL))) {
        if (job != NULL) job_free(job);
        PyErr_NoMemory();
        return NULL;
    }
    job->owner = owner == Py_None ? NULL : owner;
    job->fd = fd;
    job->sync = sync;
    job->position = position;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyObject_GetBuffer(PyList_GET_ITEM(parts, i), &job->views[i], PyBUF_SIMPLE) < 0) {
            job_free(job);
            return NULL;
        }
        job->vector[i].iov_base = job->views[i].buf;
        job->vector[i].iov_len = job->views[i].len;
        job->count = i + 1;
    }
    return job;
}

static inline PyObject *job_owner(native_job *job) { Py_INCREF(job->owner); return job->owner; }
static inline int job_is_end(native_job *job) { return job->owner == NULL; }
static inline int job_error(native_job *job) { return job->error; }
static inline int job_finished(native_job *job) { return __atomic_load_n(&job->finished, __ATOMIC_ACQUIRE); }

static inline native_queue *queue_new(int done_fd) {
    native_queue *queue = calloc(1, sizeof(native_queue));
    if (queue == NULL) { PyErr_NoMemory(); return NULL; }
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->filled, NULL);
    queue->done_fd = done_fd;
    return queue;
}

static inline void queue_free(native_queue *queue) {
    pthread_cond_destroy(&queue->filled);
    pthread_mutex_destroy(&queue->lock);
    free(queue);
}

static inline int queue_is_broken(native_queue *queue) { return queue->broken; }
static inline void queue_break(native_queue *queue) { queue->broken = 1; }

static inline void job_put(native_queue *queue, native_job *job) {
    pthread_mutex_lock(&queue->lock);
    if (queue->last == NULL) queue->first = job; else queue->last->next = job;
    queue->last = job;
    int asleep = queue->asleep;
    pthread_mutex_unlock(&queue->lock);
    if (asleep) pthread_cond_signal(&queue->filled);
}

static inline native_job *queue_take(native_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->first == NULL) {
        queue->asleep = 1;
        pthread_cond_wait(&queue->filled, &queue->lock);
        queue->asleep = 0;
    }
    native_job *job = queue->first;
    queue->first = job->next;
    if (queue->first == NULL) queue->last = NULL;
    pthread_mutex_unlock(&queue->lock);
    return job;
}

static inline void queue_finish(native_queue *queue, native_job *job) {
    uint64_t one = 1;
    int done_fd = queue->done_fd;
    __atomic_store_n(&job->finished, 1, __ATOMIC_RELEASE);
    while (write(done_fd, &one, sizeof one) < 0 && errno == EINTR) {}
}

/* Takes notice of all jobs that are finished. */
static inline void queue_hear(native_queue *queue) {
    uint64_t times;
    while (read(queue->done_fd, &times, sizeof times) < 0 && errno == EINTR) {}
}

/* Returns 0 or the number of the error. */
static inline int job_do(native_job *job) {
    struct iovec *part = job->vector, *end = part + job->count;
    int64_t position = job->position;
    for (;;) {
        while (part < end && part->iov_len == 0) part++;
        if (part == end) break;
        ssize_t written = pwritev(job->fd, part, end - part < MAINSTEM_IOV_MAX ? (int)(end - part) : MAINSTEM_IOV_MAX,
                                  position);
        if (written < 0) {
            if (errno == EINTR) continue;
            return errno;
        }
        if (written == 0) return EIO;
        position += written;
        for (; written > 0; part++) {
            if ((size_t)written < part->iov_len) {
                part->iov_base = (char *)part->iov_base + written;
                part->iov_len -= written;
                break;
            }
            written -= part->iov_len;
        }
    }
    if (job->sync)
        while (fdatasync(job->fd) < 0)
            if (errno != EINTR) return errno;
    return 0;
}

/* Does jobs until one needs the interpreter, and returns that one. */
static inline native_job *queue_serve(native_queue *queue) {
    for (;;) {
        native_job *job = queue_take(queue);
        if (job->owner == NULL || job->fd < 0) return job;
        job->error = queue->broken ? MAINSTEM_FAILED_BEFORE : job_do(job);
        if (job->error) queue->broken = 1;
        queue_finish(queue, job);
    }
}
