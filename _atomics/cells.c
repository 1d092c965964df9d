/* AtomicInt and SpinLock: the small face of atomics.h, as native Python types. */

/* ---- AtomicInt ---------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    otv_cell cell;
} AtomicInt;

static int as_int64(PyObject *value, int64_t *out)
{
    if (!PyLong_Check(value)) {
        PyErr_Format(PyExc_TypeError, "AtomicInt holds an int, not %.80R (%s)", value,
                     Py_TYPE(value)->tp_name);
        return -1;
    }
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow) {
        /* In hexadecimal: Python refuses to write very long integers in decimal. */
        PyObject *digits = PyNumber_ToBase(value, 16);
        if (digits != NULL) {
            PyErr_Format(PyExc_OverflowError,
                         "AtomicInt holds a signed 64-bit integer (-2**63 to 2**63-1), not %.40U",
                         digits);
            Py_DECREF(digits);
        }
        return -1;
    }
    return 0;
}

static int AtomicInt_init(AtomicInt *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"value", NULL};
    PyObject *value = NULL;
    int64_t v = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:AtomicInt", names, &value))
        return -1;
    if (value != NULL && as_int64(value, &v) < 0)
        return -1;
    otv_set(&self->cell, v);
    return 0;
}

static PyObject *AtomicInt_load(AtomicInt *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLongLong(otv_load_ordered(&self->cell));
}

static PyObject *AtomicInt_lazy_set(AtomicInt *self, PyObject *value)
{
    int64_t v;
    if (as_int64(value, &v) < 0)
        return NULL;
    otv_lazy_set(&self->cell, v);
    Py_RETURN_NONE;
}

static PyObject *AtomicInt_set(AtomicInt *self, PyObject *value)
{
    int64_t v;
    if (as_int64(value, &v) < 0)
        return NULL;
    otv_set(&self->cell, v);
    Py_RETURN_NONE;
}

static PyObject *AtomicInt_compare_and_set(AtomicInt *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t expected, desired;
    if (n != 2) {
        PyErr_Format(PyExc_TypeError,
                     "compare_and_set takes (expected, desired), got %zd arguments", n);
        return NULL;
    }
    if (as_int64(args[0], &expected) < 0 || as_int64(args[1], &desired) < 0)
        return NULL;
    return PyBool_FromLong(otv_compare_and_set(&self->cell, expected, desired));
}

static PyObject *AtomicInt_get_and_set(AtomicInt *self, PyObject *value)
{
    int64_t v;
    if (as_int64(value, &v) < 0)
        return NULL;
    return PyLong_FromLongLong(otv_get_and_set(&self->cell, v));
}

static PyObject *AtomicInt_get_and_add(AtomicInt *self, PyObject *value)
{
    int64_t n;
    bool wrapped;
    if (as_int64(value, &n) < 0)
        return NULL;
    int64_t before = otv_get_and_add(&self->cell, n, &wrapped);
    if (wrapped) {
        PyErr_Format(PyExc_OverflowError,
                     "adding %lld to an AtomicInt of %lld would pass 64 bits; nothing was added",
                     (long long)n, (long long)before);
        return NULL;
    }
    return PyLong_FromLongLong(before);
}

static PyObject *AtomicInt_repr(AtomicInt *self)
{
    return PyUnicode_FromFormat("AtomicInt(%lld)", (long long)otv_load(&self->cell));
}

static PyMethodDef AtomicInt_methods[] = {
    {"load", (PyCFunction)AtomicInt_load, METH_NOARGS,
     "The value now (seq-cst)."},
    {"lazy_set", (PyCFunction)AtomicInt_lazy_set, METH_O,
     "Release store: publishes earlier writes; a later load elsewhere may overtake it."},
    {"set", (PyCFunction)AtomicInt_set, METH_O,
     "Volatile set: a seq-cst store."},
    {"compare_and_set", (PyCFunction)(void (*)(void))AtomicInt_compare_and_set, METH_FASTCALL,
     "Takes (expected, desired); says whether it was `expected` and now is `desired`."},
    {"get_and_set", (PyCFunction)AtomicInt_get_and_set, METH_O,
     "Exchange; returns the value before."},
    {"get_and_add", (PyCFunction)AtomicInt_get_and_add, METH_O,
     "Add; returns the value before. Raises OverflowError instead of wrapping."},
    {NULL},
};

static void plain_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot AtomicInt_slots[] = {
    {Py_tp_doc, "AtomicInt(value=0)\n--\n\nA signed 64-bit integer shared between threads."},
    {Py_tp_init, AtomicInt_init},
    {Py_tp_methods, AtomicInt_methods},
    {Py_tp_repr, AtomicInt_repr},
    {Py_tp_dealloc, plain_dealloc},
    {0, NULL},
};

static PyType_Spec AtomicInt_spec = {
    "otavia_ft.atomic.AtomicInt", sizeof(AtomicInt), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, AtomicInt_slots,
};

/* ---- SpinLock ----------------------------------------------------------------------------- */

/* The owner is a number that no thread before or after has. Thread ids will not do: the system gives
 * that of a thread that has ended to the next one, which would then pass for the holder. */
typedef struct {
    PyObject_HEAD
    otv_cell owner; /* this_thread_number() of the holder, 0 when free: the lock itself */
    otv_cell ident; /* its thread id, for people; written by the holder only, 0 when free */
} SpinLock;

/* A SpinLock for the runtime's own locked sections from Python 3.14 on. In these stands no call and
 * no loop (tests/schedule/test_no_call_under_a_lock.py), so that no handler of a signal and no
 * __del__ runs in one and comes back for the lock that its own thread holds. From 3.14 on they do
 * run at one more place: `with` makes an ordinary call of __enter__, and after a call is where Python
 * runs them. By then the lock is held, and nothing that it protects has been touched: whoever comes
 * back there finds all in order, and leaves it so. So it may, and its exit leaves the lock alone. */
typedef struct {
    SpinLock lock;
    int64_t depth; /* how often the holder has come back; the holder's own */
} SectionLock;

static PyTypeObject *section_lock_type;

/* The section lock that a spin lock is, or NULL. */
static inline SectionLock *as_section(SpinLock *lock)
{
    return Py_IS_TYPE(lock, section_lock_type) ? (SectionLock *)lock : NULL;
}

static _Atomic int64_t threads_numbered;
static _Thread_local int64_t thread_number;

static inline int64_t this_thread_number(void)
{
    if (thread_number == 0)
        /* Relaxed: the numbers have to differ, and nothing follows from their order. */
        thread_number = 1 + atomic_fetch_add_explicit(&threads_numbered, 1, memory_order_relaxed);
    return thread_number;
}

/* Lazy: a reader is told who holds it about now, and decides nothing by it. */
static inline void sign_spin_lock(SpinLock *self)
{
    otv_lazy_set(&self->ident, current_thread_id());
}

static int refuse_reentry(SpinLock *self, int64_t me)
{
    if (otv_load(&self->owner) == me) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this thread already holds the SpinLock: it is not re-entrant; "
                        "release it first or pass the locked data down instead");
        return -1;
    }
    return 0;
}

static int wait_for_spin_lock(SpinLock *self, int64_t me)
{
    SectionLock *section = as_section(self);
    if (section != NULL && otv_load(&self->owner) == me) {
        section->depth++;
        return 0;
    }
    if (refuse_reentry(self, me) < 0)
        return -1;
    if (otv_spin_lock(&self->owner, me))
        return 0;
    for (int round = 0; !otv_try_lock(&self->owner, me); round++) {
        /* Detached, so that the collector can stop the world while we wait: see the rules above. */
        Py_BEGIN_ALLOW_THREADS
        otv_back_off(round);
        Py_END_ALLOW_THREADS
        if (round >= OTV_YIELDS && PyErr_CheckSignals() < 0)
            return -1;
    }
    return 0;
}

static PyObject *SpinLock_lock(SpinLock *self, PyObject *Py_UNUSED(ignored))
{
    int64_t me = this_thread_number();
    if (!otv_try_lock(&self->owner, me) && wait_for_spin_lock(self, me) < 0)
        return NULL;
    sign_spin_lock(self);
    Py_RETURN_NONE;
}

static PyObject *SpinLock_try_lock(SpinLock *self, PyObject *Py_UNUSED(ignored))
{
    int64_t me = this_thread_number();
    if (!otv_try_lock(&self->owner, me)) {
        if (refuse_reentry(self, me) < 0)
            return NULL;
        Py_RETURN_FALSE;
    }
    sign_spin_lock(self);
    Py_RETURN_TRUE;
}

static PyObject *SpinLock_unlock(SpinLock *self, PyObject *Py_UNUSED(ignored))
{
    int64_t owner = otv_load(&self->owner);
    if (owner != this_thread_number()) {
        PyErr_Format(PyExc_RuntimeError,
                     owner == 0
                         ? "unlock of a SpinLock that nobody holds"
                         : "unlock of a SpinLock held by another thread (ident %lld): only the "
                           "thread that locked it may unlock it",
                     (long long)otv_load(&self->ident));
        return NULL;
    }
    SectionLock *section = as_section(self);
    if (section != NULL && section->depth > 0) {
        section->depth--;
        Py_RETURN_NONE;
    }
    /* First the name: once the lock is free, it is the next holder's to write. */
    otv_lazy_set(&self->ident, 0);
    otv_unlock(&self->owner);
    Py_RETURN_NONE;
}

/* A handler that raises, as Python's own for Ctrl-C does, ends the section before it has begun. After
 * this call it would be too late: there, outside of what `with` protects, the exception passes by the
 * exit (an open issue of CPython's, gh-148874), and the lock is held for ever. So a signal that has
 * come by now is heard here. What is left is the way from here to the interpreter's own look. */
static PyObject *SpinLock_enter(SpinLock *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *locked = SpinLock_lock(self, NULL);
    if (locked != NULL && as_section(self) != NULL && PyErr_CheckSignals() < 0) {
        Py_XDECREF(SpinLock_unlock(self, NULL));
        Py_CLEAR(locked);
    }
    if (locked == NULL)
        return NULL;
    Py_DECREF(locked);
    return Py_NewRef((PyObject *)self);
}

static PyObject *SpinLock_exit(SpinLock *self, PyObject *const *Py_UNUSED(args),
                               Py_ssize_t Py_UNUSED(n))
{
    return SpinLock_unlock(self, NULL);
}

static PyObject *SpinLock_get_holder(SpinLock *self, void *Py_UNUSED(closure))
{
    int64_t holder = otv_load(&self->ident);
    if (holder == 0)
        Py_RETURN_NONE;
    return PyLong_FromUnsignedLongLong((unsigned long long)holder);
}

static PyMethodDef SpinLock_methods[] = {
    {"lock", (PyCFunction)SpinLock_lock, METH_NOARGS,
     "Wait for the lock: spin with the pause hint, then yield the core, then nap."},
    {"try_lock", (PyCFunction)SpinLock_try_lock, METH_NOARGS,
     "Take the lock if it is free; never waits. Returns whether it was taken."},
    {"unlock", (PyCFunction)SpinLock_unlock, METH_NOARGS,
     "Give the lock up with a lazy set, which publishes the writes made under it."},
    {"__enter__", (PyCFunction)SpinLock_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))SpinLock_exit, METH_FASTCALL, NULL},
    {NULL},
};

static PyGetSetDef SpinLock_getset[] = {
    {"holder", (getter)SpinLock_get_holder, NULL,
     "threading.get_ident() of the holder, or None when free.", NULL},
    {NULL},
};

static PyType_Slot SpinLock_slots[] = {
    {Py_tp_doc, "SpinLock()\n--\n\nMutual exclusion for a few instructions at a time."},
    {Py_tp_methods, SpinLock_methods},
    {Py_tp_getset, SpinLock_getset},
    {Py_tp_dealloc, plain_dealloc},
    {0, NULL},
};

static PyType_Spec SpinLock_spec = {
    "otavia_ft.atomic.SpinLock", sizeof(SpinLock), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, SpinLock_slots,
};

static PyType_Spec SectionLock_spec = {
    "otavia_ft.atomic.SectionLock", sizeof(SectionLock), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, SpinLock_slots,
};
