/* The Python face of the atomics: three native types and a handful of functions.
 *
 * Why native types beside the cffi functions: a method without arguments costs 35-50 ns and no
 * thread-state switch, a cffi function with three arguments 140-270 ns and one. And a House can
 * *inherit* from HouseCell, so its state word and its mailboxes live inside the house object.
 *
 * Rules kept in this file:
 *  - between taking a reference out of a shared structure and handing it to Python there is no call
 *    that could run Python code, so the cycle collector never sees a half-done step;
 *  - a thread that waits for a lock detaches first: an attached spinner would block a
 *    stop-the-world pause that the lock's holder may be part of, and both would wait for ever;
 *  - what all threads touch on every message (types, method descriptors) is made immortal, because
 *    a shared reference count is a cache line that every core fights for.
 */
#include <Python.h>
#include <errno.h>
#include <pthread.h>
#include <structmember.h>
#include <unistd.h>

#include "atomics.h"

#define OTV_ALLOC PyMem_Malloc
#define OTV_FREE PyMem_Free
#include "mailbox.h"

/* ---- immortality -------------------------------------------------------------------------- */

static void otv_immortalize(PyObject *object)
{
#ifdef Py_GIL_DISABLED
    object->ob_tid = 0;
    object->ob_ref_local = UINT32_MAX;
    object->ob_ref_shared = 0;
#else
    (void)object;
#endif
}

static int immortalize_type(PyTypeObject *type)
{
    PyObject *members = PyObject_GetAttrString((PyObject *)type, "__dict__");
    if (members == NULL)
        return -1;
    PyObject *values = PyMapping_Values(members);
    Py_DECREF(members);
    if (values == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(values); i++)
        otv_immortalize(PyList_GET_ITEM(values, i));
    /* The list's references die with it; immortal objects do not mind. */
    Py_DECREF(values);
    otv_immortalize((PyObject *)type);
    return 0;
}

/* What threading.get_ident() returns, without the detour through CPython: it is asked for on every
 * turn of a house, and on every lock and unlock. */
static inline int64_t current_thread_id(void)
{
    return (int64_t)pthread_self();
}

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

typedef struct {
    PyObject_HEAD
    otv_cell holder;
} SpinLock;

static int refuse_reentry(SpinLock *self, int64_t me)
{
    if (otv_load(&self->holder) == me) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this thread already holds the SpinLock: it is not re-entrant; "
                        "release it first or pass the locked data down instead");
        return -1;
    }
    return 0;
}

static PyObject *SpinLock_lock(SpinLock *self, PyObject *Py_UNUSED(ignored))
{
    int64_t me = current_thread_id();
    if (otv_try_lock(&self->holder, me))
        Py_RETURN_NONE;
    if (refuse_reentry(self, me) < 0)
        return NULL;
    if (otv_spin_lock(&self->holder, me))
        Py_RETURN_NONE;
    for (int round = 0; !otv_try_lock(&self->holder, me); round++) {
        /* Detached, so that the collector can stop the world while we wait: see the rules above. */
        Py_BEGIN_ALLOW_THREADS
        otv_back_off(round);
        Py_END_ALLOW_THREADS
        if (round >= OTV_YIELDS && PyErr_CheckSignals() < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *SpinLock_try_lock(SpinLock *self, PyObject *Py_UNUSED(ignored))
{
    int64_t me = current_thread_id();
    if (otv_try_lock(&self->holder, me))
        Py_RETURN_TRUE;
    if (refuse_reentry(self, me) < 0)
        return NULL;
    Py_RETURN_FALSE;
}

static PyObject *SpinLock_unlock(SpinLock *self, PyObject *Py_UNUSED(ignored))
{
    int64_t holder = otv_load(&self->holder);
    if (holder != current_thread_id()) {
        PyErr_Format(PyExc_RuntimeError,
                     holder == 0
                         ? "unlock of a SpinLock that nobody holds"
                         : "unlock of a SpinLock held by another thread (ident %lld): only the "
                           "thread that locked it may unlock it",
                     (long long)holder);
        return NULL;
    }
    otv_unlock(&self->holder);
    Py_RETURN_NONE;
}

static PyObject *SpinLock_enter(SpinLock *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *locked = SpinLock_lock(self, NULL);
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
    int64_t holder = otv_load(&self->holder);
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

/* ---- HouseCell ---------------------------------------------------------------------------- */

/* Mailboxes in dispatch order. A bit mask of them (1 << number) selects several. */
#define OTV_MAILBOXES(X) \
    X(system, 0) X(reply, 1) X(exception, 2) X(ask, 3) X(notice, 4) X(event, 5)

enum {
#define X(name, number) BOX_##name = number,
    OTV_MAILBOXES(X)
#undef X
    BOXES
};

typedef struct {
    PyObject_HEAD
    otv_cell state;
    otv_cell runner; /* thread id of the one runner, 0 when nobody runs: the owner mark */
    otv_mailbox box[BOXES];
} HouseCell;

static PyObject *InvariantError; /* our own bug, never the user's: asks for a report */
static PyTypeObject *drain_type;

static const char *state_name(int64_t state)
{
    switch (state) {
#define X(name, number) case number: return #name;
        OTV_STATES(X)
#undef X
    }
    return "?";
}

/* The owner mark makes a broken single-runner rule loud. Only the runner writes it, so a load and a
 * store do, on a line that the transition has fetched already; the transition's compare-and-set
 * orders them for the next runner. Should two threads enter at the very same moment, both may find
 * the mark free; then the first to leave finds the other's mark. A stranger that is refused leaves
 * the mark as it is, so that the rightful runner is not accused next. */
enum mark { KEEP, TAKE, GIVE };

/* Out of line, so that what happens every time stays short. */
static __attribute__((cold, noinline)) int wrong_mark(const char *does, int64_t seen)
{
    PyErr_Format(InvariantError,
                 "single-runner invariant broken: thread %lld %s a house whose runner mark "
                 "is %lld (please report this)",
                 (long long)current_thread_id(), does, (long long)seen);
    return -1;
}

static __attribute__((cold, noinline)) int wrong_state(HouseCell *self)
{
    PyErr_Format(InvariantError,
                 "a running house was found %s instead of RUNNING (please report this)",
                 state_name(otv_load(&self->state)));
    return -1;
}

/* The consumer's side of a mailbox is a plain list: two consumers would free a node twice. So
 * taking from a house that another thread runs is refused. A cell that nobody runs (a mailbox
 * without a house around it) is its owner's business. */
static int may_take(HouseCell *self)
{
    int64_t runner = otv_load(&self->runner);
    if (runner == 0 || runner == current_thread_id())
        return 0;
    PyErr_Format(InvariantError,
                 "single-runner invariant broken: thread %lld takes mail of a house that thread "
                 "%lld runs (please report this)",
                 (long long)current_thread_id(), (long long)runner);
    return -1;
}

/* 1: it happened, 0: it did not, -1: a rule is broken and the exception is set. */
static inline __attribute__((always_inline)) int
do_transition(HouseCell *self, enum otv_state from, enum otv_state to, enum mark mark)
{
    int64_t me = mark == KEEP ? 0 : current_thread_id();
    if (mark == GIVE) {
        int64_t seen = otv_load(&self->runner);
        if (seen != me)
            return wrong_mark("leaves", seen);
        /* Given back before the state is: after the transition somebody else may enter. */
        otv_lazy_set(&self->runner, 0);
    }
    if (!otv_transition(&self->state, from, to)) {
        return mark == GIVE ? wrong_state(self) : 0;
    }
    if (mark == TAKE) {
        int64_t seen = otv_load(&self->runner);
        if (seen != 0)
            return wrong_mark("enters", seen);
        otv_lazy_set(&self->runner, me);
    }
    return 1;
}

static inline PyObject *as_bool(int outcome)
{
    return outcome < 0 ? NULL : Py_NewRef(outcome ? Py_True : Py_False);
}

#define X(name, from, to, mark)                                                                  \
    static inline int house_##name(HouseCell *self)                                              \
    {                                                                                            \
        return do_transition(self, OTV_##from, OTV_##to, mark);                                  \
    }                                                                                            \
    static PyObject *HouseCell_##name(HouseCell *self, PyObject *Py_UNUSED(ignored))             \
    {                                                                                            \
        return as_bool(house_##name(self));                                                      \
    }
OTV_TRANSITIONS(X)
#undef X

/* put, then try_ready: the order of the dispatcher's enqueue path. The message is visible before
 * the state is read, and the runner that goes to sleep stores WAITING before it looks at the
 * mailboxes again, so at least one of the two sees the other. */
static inline int house_post(HouseCell *self, int box, PyObject *message)
{
    if (!otv_push(&self->box[box], Py_NewRef(message))) {
        Py_DECREF(message);
        PyErr_NoMemory();
        return -1;
    }
    return otv_transition(&self->state, OTV_WAITING, OTV_READY);
}

#define X(name, number)                                                                          \
    static PyObject *HouseCell_post_##name(HouseCell *self, PyObject *message)                   \
    {                                                                                            \
        return as_bool(house_post(self, number, message));                                                    \
    }
OTV_MAILBOXES(X)
#undef X

static int box_number(PyObject *value)
{
    long number = PyLong_AsLong(value);
    if (number < 0 || number >= BOXES) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "no mailbox has number %ld (0 to %d)", number,
                         BOXES - 1);
        return -1;
    }
    return (int)number;
}

static int box_and_object(PyObject *const *args, Py_ssize_t n, const char *usage)
{
    if (n != 2) {
        PyErr_Format(PyExc_TypeError, "%s, got %zd arguments", usage, n);
        return -1;
    }
    return box_number(args[0]);
}

static PyObject *HouseCell_put(HouseCell *self, PyObject *const *args, Py_ssize_t n)
{
    int box = box_and_object(args, n, "put takes (mailbox, message)");
    if (box < 0)
        return NULL;
    if (!otv_push(&self->box[box], Py_NewRef(args[1]))) {
        Py_DECREF(args[1]);
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

static PyObject *HouseCell_put_front(HouseCell *self, PyObject *const *args, Py_ssize_t n)
{
    int box = box_and_object(args, n, "put_front takes (mailbox, message)");
    if (box < 0 || may_take(self) < 0)
        return NULL;
    if (!otv_push_front(&self->box[box], Py_NewRef(args[1]))) {
        Py_DECREF(args[1]);
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

static PyObject *HouseCell_take(HouseCell *self, PyObject *const *args, Py_ssize_t n)
{
    int box = box_and_object(args, n, "take takes (mailbox, value when empty)");
    if (box < 0 || may_take(self) < 0)
        return NULL;
    PyObject *message = (PyObject *)otv_pop(&self->box[box]);
    return message != NULL ? message : Py_NewRef(args[1]);
}

static PyObject *HouseCell_size(HouseCell *self, PyObject *value)
{
    int box = box_number(value);
    if (box < 0)
        return NULL;
    return PyLong_FromLongLong(
        atomic_load_explicit(&self->box[box].count, memory_order_relaxed));
}

static PyObject *HouseCell_has_mail(HouseCell *self, PyObject *value)
{
    long mask = PyLong_AsLong(value);
    if (mask == -1 && PyErr_Occurred())
        return NULL;
    for (int box = 0; box < BOXES; box++)
        if ((mask & (1L << box)) && otv_has_mail(&self->box[box]))
            Py_RETURN_TRUE;
    Py_RETURN_FALSE;
}

/* All of them at once: bit `number` is set when that mailbox holds a message. One call a pass tells
 * the dispatcher which of the six it has to visit. */
static inline long house_mail(HouseCell *self)
{
    long mask = 0;
    for (int box = 0; box < BOXES; box++)
        if (otv_has_mail(&self->box[box]))
            mask |= 1L << box;
    return mask;
}

static PyObject *HouseCell_mail(HouseCell *self, PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromLong(house_mail(self));
}

static PyObject *HouseCell_get_state(HouseCell *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(otv_load_ordered(&self->state));
}

static PyObject *HouseCell_get_runner(HouseCell *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(otv_load(&self->runner));
}

/* The mailboxes hold references, so the collector must see them. It runs with the world stopped,
 * and no step above can be stopped half-way. */
static int visit_chain(otv_node *node, visitproc visit, void *arg)
{
    for (; node != NULL; node = node->next)
        Py_VISIT((PyObject *)node->message);
    return 0;
}

static int HouseCell_traverse(HouseCell *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (int box = 0; box < BOXES; box++) {
        int stop = visit_chain(atomic_load(&self->box[box].in), visit, arg);
        if (stop == 0)
            stop = visit_chain(atomic_load(&self->box[box].out), visit, arg);
        if (stop != 0)
            return stop;
    }
    return 0;
}

static int HouseCell_clear(HouseCell *self)
{
    for (int box = 0; box < BOXES; box++) {
        PyObject *message;
        while ((message = (PyObject *)otv_pop(&self->box[box])) != NULL)
            Py_DECREF(message);
    }
    return 0;
}

static void HouseCell_dealloc(HouseCell *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    /* A message may hold the next cell, whose message holds the next: the trashcan turns the
     * recursion into a loop before it reaches the end of the C stack. */
    Py_TRASHCAN_BEGIN(self, HouseCell_dealloc)
    HouseCell_clear(self);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
    Py_TRASHCAN_END
}

/* ---- Drain: the loop over one mailbox ------------------------------------------------------- */

/* `for message in house.drain(NOTICE, budget)` takes one message a step, and ends when the mailbox
 * is empty, the budget is used up, or a system message waits: so a pill overtakes a backlog after
 * the message in hand. What was not taken stays where it is, whatever ends the loop: `break`,
 * `return` or an exception. */
typedef struct {
    PyObject_HEAD
    HouseCell *cell;
    int box;
    int64_t left;
} Drain;

static PyObject *HouseCell_drain(HouseCell *self, PyObject *const *args, Py_ssize_t n)
{
    int box = box_and_object(args, n, "drain takes (mailbox, budget)");
    if (box < 0)
        return NULL;
    int64_t budget = PyLong_AsLongLong(args[1]);
    if (budget == -1 && PyErr_Occurred())
        return NULL;
    Drain *drain = PyObject_GC_New(Drain, drain_type);
    if (drain == NULL)
        return NULL;
    drain->cell = (HouseCell *)Py_NewRef((PyObject *)self);
    drain->box = box;
    drain->left = budget;
    PyObject_GC_Track(drain);
    return (PyObject *)drain;
}

static PyObject *Drain_next(Drain *self)
{
    HouseCell *cell = self->cell;
    if (self->left <= 0 || may_take(cell) < 0)
        return NULL;
    if (self->box != BOX_system && otv_has_mail(&cell->box[BOX_system]))
        return NULL;
    PyObject *message = (PyObject *)otv_pop(&cell->box[self->box]);
    if (message != NULL)
        self->left--;
    return message;
}

/* Seen by the collector, because a frame that an exception keeps alive may hold the loop, and the
 * house the exception. No tp_clear: the other objects of such a cycle have one. */
static int Drain_traverse(Drain *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT((PyObject *)self->cell);
    return 0;
}

static void Drain_dealloc(Drain *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_DECREF(self->cell);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *Drain_get_left(Drain *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->left);
}

static PyGetSetDef Drain_getset[] = {
    {"left", (getter)Drain_get_left, NULL, "What remains of the budget.", NULL},
    {NULL},
};

static PyType_Slot Drain_slots[] = {
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, Drain_next},
    {Py_tp_getset, Drain_getset},
    {Py_tp_traverse, Drain_traverse},
    {Py_tp_dealloc, Drain_dealloc},
    {0, NULL},
};

static PyType_Spec Drain_spec = {
    "otavia_ft.atomic.Drain", sizeof(Drain), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION
        | Py_TPFLAGS_IMMUTABLETYPE,
    Drain_slots,
};

#define FASTCALL(function) (PyCFunction)(void (*)(void))function

static PyMethodDef HouseCell_methods[] = {
#define X(name, from, to, mark) \
    {#name, (PyCFunction)HouseCell_##name, METH_NOARGS, #from " -> " #to ". True if it happened."},
    OTV_TRANSITIONS(X)
#undef X
#define X(name, number)                                       \
    {"post_" #name, (PyCFunction)HouseCell_post_##name, METH_O, \
     "Put into the " #name " mailbox, then try_ready; True: the caller must enqueue the house."},
    OTV_MAILBOXES(X)
#undef X
    {"put", FASTCALL(HouseCell_put), METH_FASTCALL,
     "put(mailbox, message): append only, no scheduling. Any thread."},
    {"put_front", FASTCALL(HouseCell_put_front), METH_FASTCALL,
     "put_front(mailbox, message): before everything that waits. The runner only."},
    {"take", FASTCALL(HouseCell_take), METH_FASTCALL,
     "take(mailbox, empty): the oldest message, or `empty`. The runner only."},
    {"drain", FASTCALL(HouseCell_drain), METH_FASTCALL,
     "drain(mailbox, budget): iterate over messages; see above. The runner only."},
    {"size", (PyCFunction)HouseCell_size, METH_O, "Messages in a mailbox, about now."},
    {"mail", (PyCFunction)HouseCell_mail, METH_NOARGS,
     "The mask of the mailboxes that hold a message."},
    {"has_mail", (PyCFunction)HouseCell_has_mail, METH_O,
     "Whether any mailbox of the mask (1 << number, or-ed) holds a message."},
    {NULL},
};

static PyGetSetDef HouseCell_getset[] = {
    {"state", (getter)HouseCell_get_state, NULL, "The state's number.", NULL},
    {"runner", (getter)HouseCell_get_runner, NULL, "Thread id of the runner, 0 for none.", NULL},
    {NULL},
};

static PyType_Slot HouseCell_slots[] = {
    {Py_tp_doc, "HouseCell()\n--\n\nState word, owner mark and six mailboxes of one house."},
    {Py_tp_methods, HouseCell_methods},
    {Py_tp_getset, HouseCell_getset},
    {Py_tp_traverse, HouseCell_traverse},
    {Py_tp_clear, HouseCell_clear},
    {Py_tp_dealloc, HouseCell_dealloc},
    {0, NULL},
};

static PyType_Spec HouseCell_spec = {
    "otavia_ft.atomic.HouseCell", sizeof(HouseCell), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
    HouseCell_slots,
};

/* ---- the yardstick ------------------------------------------------------------------------- */

/* What the cheapest possible method costs. bench/atomics.py measures the others against it. */
static PyObject *Yardstick_nothing(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    Py_RETURN_NONE;
}

static PyMethodDef Yardstick_methods[] = {
    {"nothing", Yardstick_nothing, METH_NOARGS, "Does nothing."},
    {NULL},
};

static PyType_Slot Yardstick_slots[] = {
    {Py_tp_methods, Yardstick_methods},
    {Py_tp_dealloc, plain_dealloc},
    {0, NULL},
};

static PyType_Spec Yardstick_spec = {
    "otavia_ft.atomic.Yardstick", sizeof(PyObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, Yardstick_slots,
};

/* ---- who am I ------------------------------------------------------------------------------ */

/* The object that stands for the running thread (an ActorThread's context), or nothing. A C thread
 * local costs a tenth of threading.local. The reference is owned: set_me(None) gives it back. */
static _Thread_local PyObject *this_thread;

/* Whose thread this is, for the native lane: `seat` of that object. Borrowed from it. */
static _Thread_local PyObject *this_seat;
static PyObject *seat_of(PyObject *thread);

static PyObject *native_me(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_NewRef(this_thread != NULL ? this_thread : Py_None);
}

static PyObject *native_set_me(PyObject *Py_UNUSED(module), PyObject *me)
{
    PyObject *before = this_thread;
    this_thread = me == Py_None ? NULL : Py_NewRef(me);
    this_seat = seat_of(me);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *native_make_immortal(PyObject *Py_UNUSED(module), PyObject *object)
{
    otv_immortalize(object);
    Py_RETURN_NONE;
}

/* ---- the native lane ----------------------------------------------------------------------- */

static PyTypeObject *atomic_int_type, *house_cell_type;

#include "lane.h"
#include "queue.c"
#include "asks.c"
#include "lane.c"

/* ---- handing everything over --------------------------------------------------------------- */

static PyMethodDef native_functions[] = {
    {"me", native_me, METH_NOARGS, "The object set by set_me on this thread, or None."},
    {"set_me", native_set_me, METH_O, "Say what me() answers on this thread; None to forget."},
    {"make_immortal", native_make_immortal, METH_O,
     "Exempt an object from reference counting for the rest of the process (free-threaded builds; "
     "nothing elsewhere). Only for objects that live as long as the process."},
    {"connect", lane_connect, METH_O,
     "connect(dict): give the native lane the classes and functions of Python that it needs."},
    {NULL},
};

static int add_type(PyObject *dict, PyType_Spec *spec, PyTypeObject **keep, PyTypeObject *base)
{
    PyObject *type = PyType_FromSpecWithBases(spec, (PyObject *)base);
    if (type == NULL)
        return -1;
    const char *name = strrchr(spec->name, '.') + 1;
    if (keep != NULL)
        *keep = (PyTypeObject *)type;
    if (immortalize_type((PyTypeObject *)type) < 0)
        return -1;
    return PyDict_SetItemString(dict, name, type);
}

static int add_tables(PyObject *dict)
{
    PyObject *states = Py_BuildValue("["
#define X(name, number) "(si)"
        OTV_STATES(X)
#undef X
        "]"
#define X(name, number) , #name, number
        OTV_STATES(X)
#undef X
    );
    PyObject *transitions = Py_BuildValue("["
#define X(name, from, to, mark) "(sss)"
        OTV_TRANSITIONS(X)
#undef X
        "]"
#define X(name, from, to, mark) , #name, #from, #to
        OTV_TRANSITIONS(X)
#undef X
    );
    PyObject *boxes = Py_BuildValue("["
#define X(name, number) "(si)"
        OTV_MAILBOXES(X)
#undef X
        "]"
#define X(name, number) , #name, number
        OTV_MAILBOXES(X)
#undef X
    );
    int failed = states == NULL || transitions == NULL || boxes == NULL
        || PyDict_SetItemString(dict, "STATES", states) < 0
        || PyDict_SetItemString(dict, "TRANSITIONS", transitions) < 0
        || PyDict_SetItemString(dict, "MAILBOXES", boxes) < 0;
    Py_XDECREF(states);
    Py_XDECREF(transitions);
    Py_XDECREF(boxes);
    return failed ? -1 : 0;
}

static PyObject *build_face(void)
{
    PyObject *dict = PyDict_New();
    if (dict == NULL)
        return NULL;
    InvariantError = PyErr_NewExceptionWithDoc(
        "otavia_ft.atomic.InvariantError",
        "The runtime broke one of its own rules. Never the fault of an actor; please report it.",
        PyExc_SystemError, NULL);
    if (InvariantError == NULL
        || PyDict_SetItemString(dict, "InvariantError", InvariantError) < 0
        || add_type(dict, &AtomicInt_spec, &atomic_int_type, NULL) < 0
        || add_type(dict, &SpinLock_spec, NULL, NULL) < 0
        || add_type(dict, &Drain_spec, &drain_type, NULL) < 0
        || add_type(dict, &HouseCell_spec, &house_cell_type, NULL) < 0
        || add_type(dict, &Yardstick_spec, NULL, NULL) < 0
        || add_type(dict, &HouseBase_spec, &house_base_type, house_cell_type) < 0
        || add_type(dict, &HouseQueue_spec, &house_queue_type, NULL) < 0
        || add_type(dict, &PlanBase_spec, &plan_base_type, NULL) < 0
        || add_type(dict, &ContextBase_spec, &context_base_type, NULL) < 0
        || add_type(dict, &SeatBase_spec, &seat_base_type, NULL) < 0
        || add_type(dict, &AddressBase_spec, NULL, NULL) < 0
        || add_type(dict, &EnvelopeBase_spec, NULL, NULL) < 0
        || add_type(dict, &PromiseBase_spec, &promise_base_type, NULL) < 0
        || add_type(dict, &Dispatcher_spec, &dispatcher_type, NULL) < 0
        || add_type(dict, &StackBase_spec, &stack_base_type, NULL) < 0
        || add_type(dict, &CoroutineBase_spec, &coroutine_base_type, NULL) < 0
        || (resume_ask_name = PyUnicode_InternFromString("resume_ask")) == NULL
        || (resume_notice_name = PyUnicode_InternFromString("resume_notice")) == NULL
        || add_tables(dict) < 0)
        goto failed;
    for (PyMethodDef *def = native_functions; def->ml_name != NULL; def++) {
        PyObject *function = PyCFunction_New(def, NULL);
        if (function == NULL || PyDict_SetItemString(dict, def->ml_name, function) < 0)
            goto failed;
        otv_immortalize(function);
    }
    return dict;
failed:
    Py_DECREF(dict);
    return NULL;
}

/* cffi detaches the thread around a call, so attach again before touching Python. Returns the
 * address of a new dict (the caller owns the reference) or 0 with the exception printed. */
uintptr_t otv_native_face(void)
{
    PyGILState_STATE attached = PyGILState_Ensure();
    PyObject *face = build_face();
    if (face == NULL)
        PyErr_Print();
    PyGILState_Release(attached);
    return (uintptr_t)face;
}

/* ---- the small teachable face: cells as cffi sees them ------------------------------------- */

int64_t cell_load(otv_cell *cell) { return otv_load(cell); }
void cell_lazy_set(otv_cell *cell, int64_t value) { otv_lazy_set(cell, value); }
void cell_set(otv_cell *cell, int64_t value) { otv_set(cell, value); }
bool cell_compare_and_set(otv_cell *cell, int64_t expected, int64_t desired)
{
    return otv_compare_and_set(cell, expected, desired);
}
int64_t cell_get_and_set(otv_cell *cell, int64_t value) { return otv_get_and_set(cell, value); }
int64_t cell_get_and_add(otv_cell *cell, int64_t n)
{
    return atomic_fetch_add_explicit(&cell->value, n, memory_order_seq_cst);
}
