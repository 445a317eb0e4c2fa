# C types for commit_thread.py.
cimport cython

cdef extern from "mainstem/native/commit_thread.h":
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

    @cython.locals(native="native_job *")
    cpdef _run(self)

    @cython.locals(task=NativeTask)
    cdef _do(self, native_job *native)

    @cython.locals(task=NativeTask, number=int)
    cpdef _completed(self)

    @cython.locals(task=NativeTask)
    cpdef close(self, double wait_seconds=*)
