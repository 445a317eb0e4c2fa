# C types for commit_thread.py, and what its thread does without the interpreter.
cimport cython

cdef extern from *:
    """
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
        PyObject *owner;        /* borrowed: the task is in the lane's list until it is told; NULL ends the thread */
        int fd;                 /* -1: a job in Python */
        int sync;
        int error;
        int finished;           /* set last: from then on the job is the loop's */
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
        int broken;             /* of the thread alone */
        int done_fd;
    } native_queue;

    static void job_free(native_job *job) {
        for (Py_ssize_t i = 0; i < job->count; i++) PyBuffer_Release(&job->views[i]);
        free(job->vector);
        free(job->views);
        free(job);
    }

    static native_job *job_new(PyObject *owner, int fd, int64_t position, int sync, PyObject *parts) {
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

    static PyObject *job_owner(native_job *job) { Py_INCREF(job->owner); return job->owner; }
    static int job_is_end(native_job *job) { return job->owner == NULL; }
    static int job_error(native_job *job) { return job->error; }
    static int job_finished(native_job *job) { return __atomic_load_n(&job->finished, __ATOMIC_ACQUIRE); }

    static native_queue *queue_new(int done_fd) {
        native_queue *queue = calloc(1, sizeof(native_queue));
        if (queue == NULL) { PyErr_NoMemory(); return NULL; }
        pthread_mutex_init(&queue->lock, NULL);
        pthread_cond_init(&queue->filled, NULL);
        queue->done_fd = done_fd;
        return queue;
    }

    static void queue_free(native_queue *queue) {
        pthread_cond_destroy(&queue->filled);
        pthread_mutex_destroy(&queue->lock);
        free(queue);
    }

    static int queue_is_broken(native_queue *queue) { return queue->broken; }
    static void queue_break(native_queue *queue) { queue->broken = 1; }

    static void job_put(native_queue *queue, native_job *job) {
        pthread_mutex_lock(&queue->lock);
        if (queue->last == NULL) queue->first = job; else queue->last->next = job;
        queue->last = job;
        int asleep = queue->asleep;
        pthread_mutex_unlock(&queue->lock);
        if (asleep) pthread_cond_signal(&queue->filled);
    }

    static native_job *queue_take(native_queue *queue) {
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

    static void queue_finish(native_queue *queue, native_job *job) {
        uint64_t one = 1;
        int done_fd = queue->done_fd;
        __atomic_store_n(&job->finished, 1, __ATOMIC_RELEASE);
        while (write(done_fd, &one, sizeof one) < 0 && errno == EINTR) {}
    }

    static void queue_hear(native_queue *queue) {
        uint64_t times;
        while (read(queue->done_fd, &times, sizeof times) < 0 && errno == EINTR) {}
    }

    static int job_do(native_job *job) {
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

    /* Does what needs no interpreter until something does, and answers that. */
    static native_job *queue_serve(native_queue *queue) {
        for (;;) {
            native_job *job = queue_take(queue);
            if (job->owner == NULL || job->fd < 0) return job;
            job->error = queue->broken ? MAINSTEM_FAILED_BEFORE : job_do(job);
            if (job->error) queue->broken = 1;
            queue_finish(queue, job);
        }
    }
    """
    ctypedef struct native_job:
        pass
    ctypedef struct native_queue:
        pass
    native_job *job_new(owner, int fd, long long position, bint sync, list parts) except NULL
    object job_owner(native_job *job)
    bint job_is_end(native_job *job) noexcept
    int job_error(native_job *job) noexcept
    bint job_finished(native_job *job) noexcept
    void job_free(native_job *job) noexcept
    void job_put(native_queue *queue, native_job *job) noexcept
    native_queue *queue_new(int done_fd) except NULL
    void queue_free(native_queue *queue) noexcept
    bint queue_is_broken(native_queue *queue) noexcept
    void queue_break(native_queue *queue) noexcept
    void queue_finish(native_queue *queue, native_job *job) noexcept
    void queue_hear(native_queue *queue) noexcept
    native_job *queue_serve(native_queue *queue) noexcept nogil

cdef class NativeTask:
    cdef object job, done, value, error
    cdef native_job *native

cdef class CommitThread:
    cdef object _loop, _tasks, _thread
    cdef bint _closed
    cdef int _done_fd
    cdef native_queue *_queue

    @cython.locals(task=NativeTask)
    cpdef put(self, job, done)

    @cython.locals(native="native_job *", task=NativeTask)
    cpdef _run(self)

    @cython.locals(task=NativeTask, number=int)
    cpdef _completed(self)

    @cython.locals(task=NativeTask)
    cpdef close(self, double wait_seconds=*)
