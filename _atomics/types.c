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

#define OTV_WAIT_FOR_LOCK(round)                                                                 \
    do {                                                                                         \
        Py_BEGIN_ALLOW_THREADS                                                                   \
        otv_back_off(round);                                                                     \
        Py_END_ALLOW_THREADS                                                                     \
    } while (0)
#include "atomics.h"

#define OTV_ALLOC PyMem_Malloc
#define OTV_FREE PyMem_Free
#include "mailbox.h"

#include "rings.h"

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

/* ---- references that cross threads ---------------------------------------------------------- */

/* A reference that one thread takes and another gives back, as a mailbox has it. The thread that made
 * an object counts its own references apart from all others'. Were this one of its own, then at the
 * end the other thread would find one reference too few among those of all threads, and would have to
 * queue the object for its maker to sort that out: a lock, a wake-up of the evaluation loop, and an
 * object that lives until its maker comes round. So it is counted with all threads' from the start. */
static inline PyObject *otv_shared_ref(PyObject *object)
{
#ifdef Py_GIL_DISABLED
    if (__atomic_load_n(&object->ob_ref_local, __ATOMIC_RELAXED) != _Py_IMMORTAL_REFCNT_LOCAL)
        __atomic_fetch_add(&object->ob_ref_shared, 1 << _Py_REF_SHARED_SHIFT, __ATOMIC_RELAXED);
    return object;
#else
    return Py_NewRef(object);
#endif
}

/* The only reference to an object that this thread has just made, on its way to another thread: the
 * object has no maker any more, as if that one had given back all of its own. */
static inline PyObject *otv_handed_over(PyObject *object)
{
#ifdef Py_GIL_DISABLED
    if (object->ob_ref_local == 1
        && __atomic_load_n(&object->ob_ref_shared, __ATOMIC_RELAXED) == 0) {
        object->ob_tid = 0; /* no maker first, and merged last, as CPython does it */
        object->ob_ref_local = 0;
        __atomic_store_n(&object->ob_ref_shared, _Py_REF_SHARED(1, _Py_REF_MERGED),
                         __ATOMIC_RELEASE);
    }
#endif
    return object;
}

/* What threading.get_ident() returns, without the detour through CPython: it is asked for on every
 * turn of a house, and on every lock and unlock. */
static inline int64_t current_thread_id(void)
{
    return (int64_t)pthread_self();
}

/* ---- the types, one file each ---------------------------------------------------------------- */

#include "cells.c"
#include "house.c"
#include "drain.c"
#include "bell.c"

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
enum { SPARE_NODES = 256 }; /* 4 KiB: more than most turns send, and it stays in the first cache */

static PyObject *native_me(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_NewRef(this_thread != NULL ? this_thread : Py_None);
}

static PyObject *native_set_me(PyObject *Py_UNUSED(module), PyObject *me)
{
    PyObject *before = this_thread;
    this_thread = me == Py_None ? NULL : Py_NewRef(me);
    this_seat = seat_of(me);
    otv_keep_spares(this_seat != NULL ? SPARE_NODES : 0);
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
#include "stacks.c"
#include "send.c"
#include "rings.c"
#include "ready_queue.c"
#include "resume.c"
#include "turn.c"
#include "pool.c"
#include "plots.c"
#include "lane.c"

/* ---- handing everything over --------------------------------------------------------------- */

static PyMethodDef native_functions[] = {
    {"me", native_me, METH_NOARGS, "The object set by set_me on this thread, or None."},
    {"set_me", native_set_me, METH_O, "Say what me() answers on this thread; None to forget."},
    {"make_immortal", native_make_immortal, METH_O,
     "Exempt an object from reference counting for the rest of the process (free-threaded builds; "
     "nothing elsewhere). Only for objects that live as long as the process."},
    {"lay_in_plots", native_lay_in_plots, METH_O,
     "lay_in_plots(class): from now on its instances are laid where a seat's `make` wants them."},
    {"connect", lane_connect, METH_O,
     "connect(dict): give the native lane the classes and functions of Python that it needs."},
    {"steal_half", FASTCALL(native_steal_half), METH_FASTCALL,
     "steal_half(victim, thief): half of the victim's items, oldest first: one to run now, the rest "
     "to keep. None if there is nothing to steal."},
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

static PyObject *build_dict(void)
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
        || add_type(dict, &SectionLock_spec, &section_lock_type, NULL) < 0
        || add_type(dict, &Drain_spec, &drain_type, NULL) < 0
        || add_type(dict, &HouseCell_spec, &house_cell_type, NULL) < 0
        || add_type(dict, &Bell_spec, &bell_type, NULL) < 0
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
        || (plan_name = PyUnicode_InternFromString("plan")) == NULL
        || add_type(dict, &LocalRing_spec, &local_ring_type, NULL) < 0
        || add_type(dict, &GlobalRing_spec, &global_ring_type, NULL) < 0
        || add_type(dict, &ReadyQueue_spec, &ready_queue_type, NULL) < 0
        || add_type(dict, &Desk_spec, &desk_type, NULL) < 0
        || (run_turn_name = PyUnicode_InternFromString("run_turn")) == NULL
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

/* The types are in variables of this file: made a second time, they would be strangers to those that
 * live. So a process makes them once, for the interpreter that asks first, and a module that is
 * loaded again there gets the same ones. Another interpreter of the process gets none: the types
 * are immortal objects of the first. */
static _Atomic int64_t home = -1; /* the first interpreter's id; ids are not used twice */

enum { ELSEWHERE = 1 };

static uintptr_t build_face(void)
{
    static PyObject *face; /* the import system lets one thread of an interpreter in */
    int64_t nobody = -1, here = PyInterpreterState_GetID(PyInterpreterState_Get());
    if (!atomic_compare_exchange_strong(&home, &nobody, here) && nobody != here)
        return ELSEWHERE;
    if (face == NULL && (face = build_dict()) == NULL)
        PyErr_Print();
    return (uintptr_t)face;
}

/* cffi detaches the thread around a call, so attach again before touching Python. Returns the
 * address of a dict that lives as long as the process; 0 with the exception printed; or 1, which is
 * no address: another interpreter has it. */
uintptr_t otv_native_face(void)
{
    PyGILState_STATE attached = PyGILState_Ensure();
    uintptr_t face = build_face();
    PyGILState_Release(attached);
    return face;
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
/* Seq-cst, as otv_get_and_add, but it wraps, so that one instruction will do. */
int64_t cell_get_and_add(otv_cell *cell, int64_t n)
{
    return atomic_fetch_add_explicit(&cell->value, n, memory_order_seq_cst);
}
