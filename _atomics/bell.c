/* Bell: bell.h as a native Python type. */

#include "bell.h"

typedef struct {
    PyObject_HEAD
    otv_bell bell;
} Bell;

static PyTypeObject *bell_type;

static const double LONGEST_WAIT = 2147483.0; /* seconds; whoever waits longer looks again */

static PyObject *Bell_new(PyTypeObject *type, PyObject *Py_UNUSED(args), PyObject *Py_UNUSED(kw))
{
    Bell *self = (Bell *)type->tp_alloc(type, 0);
    if (self != NULL && (errno = otv_bell_init(&self->bell)) != 0) {
        type->tp_free((PyObject *)self);
        Py_DECREF(type);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    return (PyObject *)self;
}

static void Bell_dealloc(Bell *self)
{
    PyTypeObject *type = Py_TYPE(self);
    otv_bell_destroy(&self->bell);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *Bell_ring(Bell *self, PyObject *Py_UNUSED(ignored))
{
    otv_bell_ring(&self->bell);
    Py_RETURN_NONE;
}

static PyObject *Bell_silence(Bell *self, PyObject *Py_UNUSED(ignored))
{
    otv_bell_silence(&self->bell);
    Py_RETURN_NONE;
}

static PyObject *Bell_wait(Bell *self, PyObject *const *args, Py_ssize_t n)
{
    int64_t nanoseconds = -1;
    if (n > 1)
        return PyErr_Format(PyExc_TypeError, "wait takes (timeout=None)");
    if (n == 1 && args[0] != Py_None) {
        double seconds = PyFloat_AsDouble(args[0]);
        if (PyErr_Occurred())
            return NULL;
        /* Written so that not-a-number does not wait at all. */
        nanoseconds = !(seconds > 0) ? 0 : (int64_t)(Py_MIN(seconds, LONGEST_WAIT) * 1e9);
    }
    bool rung;
    Py_BEGIN_ALLOW_THREADS
    rung = otv_bell_wait(&self->bell, nanoseconds);
    Py_END_ALLOW_THREADS
    return PyBool_FromLong(rung);
}

static PyObject *Bell_fileno(Bell *self, PyObject *Py_UNUSED(ignored))
{
    int descriptor = otv_bell_descriptor(&self->bell);
    return descriptor < 0 ? PyErr_SetFromErrno(PyExc_OSError) : PyLong_FromLong(descriptor);
}

static PyObject *Bell_close(Bell *self, PyObject *Py_UNUSED(ignored))
{
    otv_bell_close(&self->bell);
    Py_RETURN_NONE;
}

static PyMethodDef Bell_methods[] = {
    {"ring", (PyCFunction)Bell_ring, METH_NOARGS,
     "End the owner's sleep, or its next one. Any thread."},
    {"silence", (PyCFunction)Bell_silence, METH_NOARGS, "Forget all rings. The owner only."},
    {"wait", FASTCALL(Bell_wait), METH_FASTCALL,
     "wait(timeout=None): block until it rings (True) or so many seconds have passed (False)."},
    {"fileno", (PyCFunction)Bell_fileno, METH_NOARGS,
     "A descriptor for a selector: readable while it rings. Made when first wanted."},
    {"close", (PyCFunction)Bell_close, METH_NOARGS, "Give the descriptor back. Any thread, once."},
    {NULL},
};

static PyType_Slot Bell_slots[] = {
    {Py_tp_doc, "Bell()\n--\n\nEnds one thread's sleep: a condition variable, or a descriptor."},
    {Py_tp_new, Bell_new},
    {Py_tp_methods, Bell_methods},
    {Py_tp_dealloc, Bell_dealloc},
    {0, NULL},
};

static PyType_Spec Bell_spec = {
    "otavia_ft.bell.Bell", sizeof(Bell), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_IMMUTABLETYPE, Bell_slots,
};
