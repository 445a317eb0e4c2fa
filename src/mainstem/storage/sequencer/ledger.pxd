# C types for ledger.py.
cimport cython
from cpython.ref cimport PyObject
from mainstem.storage.sequencer.log_state cimport LogState
from mainstem.storage.sequencer.log_table cimport LogTable, home_of, number_of
from mainstem.storage.sequencer.commit_group cimport CommitGroup
from mainstem.wire.checksum cimport crc32c_at, has_crc32c
from mainstem.wire.native cimport i32_at, i64_at, put_i64, put_u32, u32_at

# The fields of a Commit as they lie in memory: eight of them are looked at for each one, and to look one up by its name takes as long as
# to check the batch. Whatever is not exactly what it is taken for is looked at by name.
cdef extern from *:
    """
    #include <structmember.h>

    static PyTypeObject *commit_type, *append_type;    /* NULL: their fields are not where they could be found */
    static Py_ssize_t at_appends, at_others[4], at_log, at_batch;

    #define ASKED_LOGS_MAX 64    /* more would drive out of its cache what was asked for first */
    #define FIELD(object, at) (*(PyObject **)((char *)(object) + (at)))

    static Py_ssize_t field_at(PyObject *type, const char *name) {
        Py_ssize_t at = -1;
        PyObject *member = PyObject_GetAttrString(type, name);
        if (member == NULL) {
            PyErr_Clear();
            return -1;
        }
        if (Py_TYPE(member) == &PyMemberDescr_Type && ((PyMemberDescrObject *)member)->d_member->type == T_OBJECT_EX)
            at = ((PyMemberDescrObject *)member)->d_member->offset;
        Py_DECREF(member);
        return at;
    }

    static void learn_fields(PyObject *commit, PyObject *append) {
        at_appends = field_at(commit, "appends");
        at_others[0] = field_at(commit, "refers");
        at_others[1] = field_at(commit, "state");
        at_others[2] = field_at(commit, "fences");
        at_others[3] = field_at(commit, "changes");
        at_log = field_at(append, "log");
        at_batch = field_at(append, "batch");
        if (at_appends < 0 || at_log < 0 || at_batch < 0) return;
        for (int i = 0; i < 4; i++) if (at_others[i] < 0) return;
        commit_type = (PyTypeObject *)commit;
        append_type = (PyTypeObject *)append;
    }

    static inline PyObject *only_item(PyObject *items) {
        if (PyTuple_CheckExact(items)) return PyTuple_GET_SIZE(items) == 1 ? PyTuple_GET_ITEM(items, 0) : NULL;
        if (PyList_CheckExact(items)) return PyList_GET_SIZE(items) == 1 ? PyList_GET_ITEM(items, 0) : NULL;
        return NULL;
    }

    static inline int is_empty(PyObject *items) {
        return items != NULL && (PyTuple_CheckExact(items) || PyList_CheckExact(items)) && Py_SIZE(items) == 0;
    }

    static inline int is_append(PyObject *append) {
        return Py_TYPE(append) == append_type && FIELD(append, at_log) != NULL && FIELD(append, at_batch) != NULL;
    }

    /* Borrowed: the Append of a Commit that has one and nothing else. NULL: it is not known to be that. */
    static inline PyObject *append_alone(PyObject *commit) {
        if (Py_TYPE(commit) != commit_type || FIELD(commit, at_appends) == NULL) return NULL;
        for (int i = 0; i < 4; i++) if (!is_empty(FIELD(commit, at_others[i]))) return NULL;
        PyObject *append = only_item(FIELD(commit, at_appends));
        return append != NULL && is_append(append) ? append : NULL;
    }

    static inline PyObject *log_at(PyObject *append) { return FIELD(append, at_log); }
    static inline PyObject *batch_at(PyObject *append) { return FIELD(append, at_batch); }

    /* Has the processor bring the logs of Commits that follow each other, while the first of them is looked at: first where they are
       found, then themselves. */
    static inline void ask_for_logs(PyObject *slots, int shift, PyObject *commits, Py_ssize_t first) {
        if (!PyList_CheckExact(commits)) return;
        PyObject **found[ASKED_LOGS_MAX];
        int count = 0;
        Py_ssize_t end = PyList_GET_SIZE(commits);
        if (end - first > ASKED_LOGS_MAX) end = first + ASKED_LOGS_MAX;
        for (Py_ssize_t i = first; i < end; i++) {
            PyObject *append = append_alone(PyList_GET_ITEM(commits, i));
            if (append == NULL) continue;
            long long log = number_of(log_at(append));
            if (log < 0) continue;
            found[count] = &PyList_GET_ITEM(slots, home_of(log, shift));
            __builtin_prefetch(found[count++]);
        }
        for (int i = 0; i < count; i++) {
            char *state = (char *)*found[i];
            if (state == (char *)Py_None) continue;
            __builtin_prefetch(state, 1);
            __builtin_prefetch(state + 64, 1);
        }
    }
    """
    void learn_fields(object commit, object append) noexcept
    PyObject *append_alone(object commit) noexcept
    bint is_append(object append) noexcept
    PyObject *log_at(object append) noexcept
    PyObject *batch_at(object append) noexcept
    void ask_for_logs(list slots, int shift, object commits, Py_ssize_t first) noexcept
    const int ASKED_LOGS_MAX

cdef inline object log_of(append):
    return <object>log_at(append) if is_append(append) else append.log

cdef inline object batch_of(append):
    return <object>batch_at(append) if is_append(append) else append.batch

cdef int BATCH_HEADER_BYTES, _CHECKED_FROM, _UNUSUAL_MASK

cdef class Ledger:
    cdef public LogTable logs
    cdef public dict visible, scopes, starts, classes
    cdef public set key_indexed
    cdef public object deleted, on_deleted, on_trimmed
    cdef public bint full
    cdef public long long state_room, deletion_room
    cdef public int default_rank
    cdef long long _commit_bytes_max, _copy_bytes_max
    cdef object _now_ms

    @cython.locals(index=Py_ssize_t, count=Py_ssize_t)
    cpdef Py_ssize_t sequence_until_full(self, commits, Py_ssize_t first, CommitGroup group, long long bytes_max, list results) except -1

    @cython.locals(state=LogState, size=Py_ssize_t, base="long long")
    cpdef sequence(self, commit, CommitGroup group)

cdef inline object one_append(commit):
    return <object>append_alone(commit) if append_alone(commit) != NULL else _one_append(commit)

cpdef _one_append(commit)

@cython.locals(
    buffer=bytearray, data="unsigned char *", length="int", crc="unsigned int", delta="int", time="long long", count="int", base="long long",
)
cdef long long _append_plain(LogState state, batch, Py_ssize_t size, CommitGroup group) except -2
