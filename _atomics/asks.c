/* Asks in the native lane: envelopes, promises and their table; stacks are in stacks.c.
 *
 * All of it belongs to one actor and is touched only by the thread that runs it, so nothing here is
 * atomic. The twins in Python are the modules of otavia_ft/stack and house/engine.py; what is rare
 * there (timeouts, barriers, batches, pools, mistakes) is not here, but called there.
 */

/* What C has to know of Python: given once by lane_connect, kept for the process. */
static struct {
    PyObject *pending, *success, *failure; /* Outcome */
    PyObject *suspend, *finish;            /* StackYield */
    PyObject *start;                       /* StackState.START */
    PyObject *system_message;              /* classes from here */
    PyObject *envelope, *message_promise, *notice_stack, *ask_stack, *stack_state;
    PyObject *nobody;                                   /* the table of those who never asked */
    PyObject *ask;                                      /* functions from here */
    PyObject *make_stack, *fail, *go_async, *end;
    PyObject *receive_reply, *after_resume, *fail_stack, *finished, *advance, *check_reply;
    PyObject *no_answer, *refuse_finish, *refuse_suspend; /* these only raise */
} known;

static int answer(PyObject *asker, long long number, PyObject *reply); /* send.c */

static const struct { const char *name; PyObject **place; } known_names[] = {
#define KNOWN(name) {#name, &known.name}
    KNOWN(pending), KNOWN(success), KNOWN(failure), KNOWN(suspend), KNOWN(finish), KNOWN(start),
    KNOWN(system_message), KNOWN(envelope), KNOWN(message_promise),
    KNOWN(notice_stack), KNOWN(ask_stack), KNOWN(stack_state), KNOWN(nobody), KNOWN(ask), KNOWN(make_stack),
    KNOWN(fail), KNOWN(go_async), KNOWN(end),
    KNOWN(receive_reply), KNOWN(after_resume), KNOWN(fail_stack), KNOWN(finished), KNOWN(advance),
    KNOWN(check_reply), KNOWN(no_answer), KNOWN(refuse_finish), KNOWN(refuse_suspend),
#undef KNOWN
};

static PyObject *lane_connect(PyObject *Py_UNUSED(module), PyObject *names)
{
    for (size_t i = 0; i < sizeof(known_names) / sizeof(known_names[0]); i++) {
        PyObject *value = PyDict_GetItemString(names, known_names[i].name);
        if (value == NULL)
            return PyErr_Format(PyExc_KeyError, "connect() needs %s", known_names[i].name);
        otv_immortalize(value);
        put_field(known_names[i].place, Py_NewRef(value));
    }
    Py_RETURN_NONE;
}

/* ---- envelopes ----------------------------------------------------------------------------- */

OTV_OBJECT(EnvelopeBase, asker, message)

static int EnvelopeBase_init(EnvelopeBase *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"asker", "message_id", "message", NULL};
    PyObject *asker, *message;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OLO:Envelope", names, &asker,
                                     &self->message_id, &message))
        return -1;
    put_field(&self->asker, Py_NewRef(asker));
    put_field(&self->message, Py_NewRef(message));
    return 0;
}

static PyMemberDef EnvelopeBase_members[] = {
    OBJECT(EnvelopeBase, asker), OBJECT(EnvelopeBase, message), NUMBER(EnvelopeBase, message_id),
    {NULL},
};

static PyType_Slot EnvelopeBase_slots[] = {
    {Py_tp_init, EnvelopeBase_init}, {Py_tp_members, EnvelopeBase_members},
    OTV_GC_SLOTS(EnvelopeBase), {0, NULL},
};

static PyType_Spec EnvelopeBase_spec = {
    "otavia_ft.lane.EnvelopeBase", sizeof(EnvelopeBase), 0, OTV_FLAGS, EnvelopeBase_slots,
};

/* An object of a Python class whose base's fields C fills in itself. */
static inline void *new_object(PyObject *type)
{
    return ((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
}

/* ---- promises ------------------------------------------------------------------------------ */

static PyTypeObject *promise_base_type;

OTV_OBJECT(PromiseBase, stack, timer)

static inline bool is_pending(PromiseBase *promise)
{
    return promise->outcome == known.pending;
}

static PyObject *PromiseBase_new(PyTypeObject *type, PyObject *Py_UNUSED(a), PyObject *Py_UNUSED(k))
{
    PromiseBase *self = (PromiseBase *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->outcome = Py_XNewRef(known.pending);
    return (PyObject *)self;
}

/* A promise is its own awaiter: `await` gets it, asks it for the next item, and hands that, the
 * promise itself while it is pending, up to the driver. */
static PyObject *PromiseBase_next(PromiseBase *self)
{
    if (is_pending(self))
        return Py_NewRef((PyObject *)self);
    PyObject *value = self->value != NULL ? self->value : Py_None;
    if (self->outcome == known.failure) {
        PyErr_SetObject((PyObject *)Py_TYPE(value), value);
    } else if (value != Py_None) { /* the end without an exception is the value None */
        PyObject *end = PyObject_CallOneArg(PyExc_StopIteration, value);
        if (end != NULL)
            PyErr_SetRaisedException(end);
    }
    return NULL;
}

static PyMemberDef PromiseBase_members[] = {
    OBJECT(PromiseBase, stack), OBJECT(PromiseBase, prev), OBJECT(PromiseBase, next),
    OBJECT(PromiseBase, outcome), OBJECT(PromiseBase, value), OBJECT(PromiseBase, hash_next),
    OBJECT(PromiseBase, timer), NUMBER(PromiseBase, aid),
    {NULL},
};

/* Promise.get_now */
static PyObject *PromiseBase_get_now(PromiseBase *self, PyObject *Py_UNUSED(ignored))
{
    if (self->outcome != NULL && self->outcome == known.success)
        return Py_NewRef(self->value != NULL ? self->value : Py_None);
    return PyObject_CallOneArg(known.no_answer, (PyObject *)self);
}

static PyMethodDef PromiseBase_methods[] = {
    {"get_now", (PyCFunction)PromiseBase_get_now, METH_NOARGS,
     "The answer. Raises the error if it failed, and StackError if there is none yet."},
    {NULL},
};

static PyType_Slot PromiseBase_slots[] = {
    {Py_tp_new, PromiseBase_new}, {Py_tp_members, PromiseBase_members},
    {Py_tp_methods, PromiseBase_methods},
    {Py_am_await, PyObject_SelfIter}, {Py_tp_iternext, PromiseBase_next},
    OTV_GC_SLOTS(PromiseBase), {0, NULL},
};

static PyType_Spec PromiseBase_spec = {
    "otavia_ft.lane.PromiseBase", sizeof(PromiseBase), 0, OTV_FLAGS, PromiseBase_slots,
};

/* ---- the table of promises ----------------------------------------------------------------- */

/* The twin of FutureDispatcher in stack/table.py, with the same rules of growth.
 *
 * It is no object of the cyclic collector's, on purpose: what it holds looks as if held from outside,
 * so a handler that waits, its stack and its actor are never garbage, whoever else has forgotten
 * them. The Python lane enters its tables in the register (`waiting`) to the same effect. */
enum { TABLE_FIRST = 8, TABLE_LOAD = 2, TABLE_SHRINK_AT = 4 * TABLE_FIRST };

typedef struct {
    PyObject_HEAD
    PromiseBase **chains; /* each link is owned by the one before it */
    long long mask;
    long long count;
} Dispatcher;

static PyTypeObject *dispatcher_type;

static void Dispatcher_dealloc(Dispatcher *self)
{
    PyTypeObject *type = Py_TYPE(self);
    for (long long i = 0; self->chains != NULL && i <= self->mask; i++)
        Py_CLEAR(self->chains[i]);
    PyMem_Free(self->chains);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *Dispatcher_new(PyTypeObject *type, PyObject *Py_UNUSED(a), PyObject *Py_UNUSED(k))
{
    Dispatcher *self = (Dispatcher *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->chains = PyMem_Calloc(TABLE_FIRST, sizeof(PromiseBase *));
    self->mask = TABLE_FIRST - 1;
    if (self->chains == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static int table_resize(Dispatcher *self, long long capacity)
{
    PromiseBase **chains = PyMem_Calloc((size_t)capacity, sizeof(PromiseBase *));
    if (chains == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (long long i = 0; i <= self->mask; i++) {
        PromiseBase *promise = self->chains[i];
        while (promise != NULL) {
            PromiseBase *following = (PromiseBase *)promise->hash_next;
            PromiseBase **chain = &chains[promise->aid & (capacity - 1)];
            promise->hash_next = (PyObject *)*chain;
            *chain = promise;
            promise = following;
        }
    }
    PyMem_Free(self->chains);
    self->chains = chains;
    self->mask = capacity - 1;
    return 0;
}

static int table_push(Dispatcher *self, PromiseBase *promise)
{
    if (self->count + 1 >= TABLE_LOAD * (self->mask + 1)
        && table_resize(self, 2 * (self->mask + 1)) < 0)
        return -1;
    PromiseBase **chain = &self->chains[promise->aid & self->mask];
    put_field(&promise->hash_next, (PyObject *)*chain);
    *chain = (PromiseBase *)Py_NewRef((PyObject *)promise);
    self->count++;
    return 0;
}

/* The promise with its reference, or NULL: nobody waits under this number. */
static PromiseBase *table_pop(Dispatcher *self, long long aid)
{
    PromiseBase **link = &self->chains[aid & self->mask];
    while (*link != NULL && (*link)->aid != aid)
        link = (PromiseBase **)&(*link)->hash_next;
    PromiseBase *found = *link;
    if (found == NULL)
        return NULL;
    *link = (PromiseBase *)found->hash_next;
    found->hash_next = NULL;
    self->count--;
    if (self->mask + 1 >= TABLE_SHRINK_AT && 2 * self->count < self->mask + 1
        && table_resize(self, (self->mask + 1) / 2) < 0)
        PyErr_Clear(); /* it may as well stay large */
    return found;
}

static int promise_argument(PyObject *promise)
{
    if (PyObject_TypeCheck(promise, promise_base_type))
        return 0;
    PyErr_Format(PyExc_TypeError, "the table holds promises, not %.80R", promise);
    return -1;
}

static PyObject *Dispatcher_push(Dispatcher *self, PyObject *promise)
{
    if (promise_argument(promise) < 0 || table_push(self, (PromiseBase *)promise) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* The number of an ask. No ask has one that is too long for C: then it is 0, which none has. */
static int number_of(PyObject *number, long long *aid)
{
    int overflow;
    *aid = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow)
        *aid = 0;
    return *aid == -1 && PyErr_Occurred() ? -1 : 0;
}

static PyObject *Dispatcher_pop(Dispatcher *self, PyObject *number)
{
    long long aid;
    if (number_of(number, &aid) < 0)
        return NULL;
    PromiseBase *found = table_pop(self, aid);
    return found != NULL ? (PyObject *)found : Py_NewRef(Py_None);
}

static PyObject *Dispatcher_list(Dispatcher *self)
{
    PyObject *all = PyList_New(0);
    for (long long i = 0; all != NULL && i <= self->mask; i++)
        for (PromiseBase *p = self->chains[i]; p != NULL; p = (PromiseBase *)p->hash_next)
            if (PyList_Append(all, (PyObject *)p) < 0) {
                Py_DECREF(all);
                return NULL;
            }
    return all;
}

static PyObject *Dispatcher_iter(Dispatcher *self)
{
    PyObject *all = Dispatcher_list(self); /* a copy: the caller may take some out */
    PyObject *iterator = all != NULL ? PyObject_GetIter(all) : NULL;
    Py_XDECREF(all);
    return iterator;
}

static int Dispatcher_contains(Dispatcher *self, PyObject *number)
{
    long long aid;
    if (number_of(number, &aid) < 0)
        return -1;
    for (PromiseBase *p = self->chains[aid & self->mask]; p != NULL; p = (PromiseBase *)p->hash_next)
        if (p->aid == aid)
            return 1;
    return 0;
}

static PyObject *Dispatcher_capacity(Dispatcher *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(self->mask + 1);
}

static PyMethodDef Dispatcher_methods[] = {
    {"push", (PyCFunction)Dispatcher_push, METH_O,
     "Add a promise. Its `aid` must not be in the table."},
    {"pop", (PyCFunction)Dispatcher_pop, METH_O,
     "Take the promise with this number out; None if nobody waits under it."},
    {NULL},
};

static PyMemberDef Dispatcher_members[] = {
    {"count", T_LONGLONG, offsetof(Dispatcher, count), READONLY, NULL}, {NULL},
};

static PyGetSetDef Dispatcher_getset[] = {
    {"capacity", (getter)Dispatcher_capacity, NULL, NULL, NULL}, {NULL},
};

static PyType_Slot Dispatcher_slots[] = {
    {Py_tp_doc, "FutureDispatcher(waiting=None)\n--\n\nThe promises an actor waits for, by their `aid`."},
    {Py_tp_new, Dispatcher_new}, {Py_tp_methods, Dispatcher_methods},
    {Py_tp_members, Dispatcher_members}, {Py_tp_getset, Dispatcher_getset},
    {Py_tp_iter, Dispatcher_iter}, {Py_sq_contains, Dispatcher_contains},
    {Py_tp_dealloc, Dispatcher_dealloc}, {0, NULL},
};

static PyType_Spec Dispatcher_spec = {
    "otavia_ft.lane.FutureDispatcher", sizeof(Dispatcher), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE, Dispatcher_slots,
};
