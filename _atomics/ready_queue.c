/* ReadyQueue and Desk as Python sees them: how they are made and furnished, and their methods. What
 * they do is in rings.c. */

static PyObject *new_desk(PyObject *queue, PyObject *ring)
{
    Desk *desk = (Desk *)desk_type->tp_alloc(desk_type, 0);
    if (desk != NULL) {
        desk->queue = Py_NewRef(queue);
        desk->ring = Py_NewRef(ring);
    }
    return (PyObject *)desk;
}

static PyObject *ReadyQueue_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"workers", "local_capacity", "global_capacity", "poll_interval", "call",
                            NULL};
    long long workers, local_capacity, global_capacity, poll_interval;
    PyObject *call;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LLLLO:ReadyQueue", names, &workers,
                                     &local_capacity, &global_capacity, &poll_interval, &call))
        return NULL;
    if (workers < 1 || workers > 1 << 20)
        return PyErr_Format(PyExc_ValueError, "a pool has 1 worker at least, not %lld", workers);
    ReadyQueue *self = (ReadyQueue *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->call = Py_NewRef(call);
    self->poll_interval = poll_interval;
    self->shared = ring_new(global_ring_type, -1, global_capacity);
    self->rings = PyTuple_New((Py_ssize_t)workers);
    self->desks = PyTuple_New((Py_ssize_t)workers);
    if (self->shared == NULL || self->rings == NULL || self->desks == NULL)
        goto failed;
    for (Py_ssize_t i = 0; i < workers; i++) {
        PyObject *ring = ring_new(local_ring_type, i, local_capacity);
        if (ring == NULL)
            goto failed;
        PyTuple_SET_ITEM(self->rings, i, ring);
        PyObject *desk = new_desk((PyObject *)self, ring);
        if (desk == NULL)
            goto failed;
        PyTuple_SET_ITEM(self->desks, i, desk);
    }
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

/* furnish(asleep, seats, house_type): who sleeps, and what is in the rings most of the time. */
static PyObject *ReadyQueue_furnish(ReadyQueue *self, PyObject *args)
{
    PyObject *asleep, *seats, *house_type;
    if (!PyArg_ParseTuple(args, "O!O!O!:furnish", atomic_int_type, &asleep, &PyTuple_Type, &seats,
                          &PyType_Type, &house_type))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(seats); i++)
        if (!PyObject_TypeCheck(PyTuple_GET_ITEM(seats, i), seat_base_type))
            return PyErr_Format(PyExc_TypeError, "furnish takes seats, not %.80R",
                                PyTuple_GET_ITEM(seats, i));
    if (!PyType_IsSubtype((PyTypeObject *)house_type, house_base_type))
        return PyErr_Format(PyExc_TypeError, "%.80R is no kind of house", house_type);
    if (self->asleep != NULL) /* pushers follow these without a reference */
        return PyErr_Format(PyExc_RuntimeError, "these rings are furnished already");
    put_field(&self->house_type, Py_NewRef(house_type));
    put_field(&self->seats, Py_NewRef(seats));
    put_field(&self->asleep, Py_NewRef(asleep));
    Py_RETURN_NONE;
}

static PyObject *ReadyQueue_push(ReadyQueue *self, PyObject *item)
{
    if (ready_push(self, item) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *ReadyQueue_pop_any(ReadyQueue *self, PyObject *Py_UNUSED(ignored))
{
    int64_t me = current_thread_id();
    void *item = otv_ring_pop(ring_of(self->shared), me);
    for (Py_ssize_t i = 0; item == NULL && i < PyTuple_GET_SIZE(self->rings); i++)
        item = otv_ring_pop(ring_of(PyTuple_GET_ITEM(self->rings, i)), me);
    return item_or_none((PyObject *)item);
}

static PyObject *ReadyQueue_get_waiting(ReadyQueue *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(ready_waiting(self));
}

static int ReadyQueue_traverse(ReadyQueue *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    for (PyObject **field = &self->call; field <= &self->house_type; field++)
        Py_VISIT(*field);
    return 0;
}

static int ReadyQueue_clear(ReadyQueue *self)
{
    Py_CLEAR(self->call);
    Py_CLEAR(self->desks); /* which have this queue for life: here the circle is cut */
    Py_CLEAR(self->seats);
    return 0;
}

static void ReadyQueue_dealloc(ReadyQueue *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    for (PyObject **field = &self->call; field <= &self->house_type; field++)
        Py_CLEAR(*field);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyObject *Desk_push(Desk *self, PyObject *item)
{
    if (desk_push(self, item) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *Desk_take(Desk *self, PyObject *Py_UNUSED(ignored))
{
    PyObject *item = NULL;
    if (desk_take(self, &item) < 0) {
        Py_XDECREF(item);
        return NULL;
    }
    return item_or_none(item);
}

static int Desk_traverse(Desk *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->queue);
    Py_VISIT(self->ring);
    return 0;
}

static void Desk_dealloc(Desk *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->ring);
    Py_CLEAR(self->queue);
    type->tp_free((PyObject *)self);
    Py_DECREF(type);
}

static PyMethodDef ReadyQueue_methods[] = {
    {"push", (PyCFunction)ReadyQueue_push, METH_O,
     "Queue something that has just become ready. Any thread."},
    {"pop_any", (PyCFunction)ReadyQueue_pop_any, METH_NOARGS,
     "Something from any ring, for the pool's end. Any thread."},
    {"furnish", (PyCFunction)ReadyQueue_furnish, METH_VARARGS,
     "furnish(asleep, seats, house_type): whom to call when somebody sleeps, instead of `call`."},
    {NULL},
};

static PyMemberDef ReadyQueue_members[] = {
    {"shared", T_OBJECT, offsetof(ReadyQueue, shared), READONLY, NULL},
    {"rings", T_OBJECT, offsetof(ReadyQueue, rings), READONLY, NULL},
    {"desks", T_OBJECT, offsetof(ReadyQueue, desks), READONLY, NULL},
    {"poll_interval", T_LONGLONG, offsetof(ReadyQueue, poll_interval), READONLY, NULL},
    {NULL},
};

static PyGetSetDef ReadyQueue_getset[] = {
    {"waiting", (getter)ReadyQueue_get_waiting, NULL,
     "Whether anything is in any ring (a hint, unless asked by the rules of rings.py).", NULL},
    {NULL},
};

static PyType_Slot ReadyQueue_slots[] = {
    {Py_tp_doc, "ReadyQueue(workers, local_capacity, global_capacity, poll_interval, call)\n--\n\n"
                "All rings of a pool."},
    {Py_tp_new, ReadyQueue_new}, {Py_tp_methods, ReadyQueue_methods},
    {Py_tp_members, ReadyQueue_members}, {Py_tp_getset, ReadyQueue_getset},
    {Py_tp_traverse, ReadyQueue_traverse}, {Py_tp_clear, ReadyQueue_clear},
    {Py_tp_dealloc, ReadyQueue_dealloc},
    {0, NULL},
};

static PyType_Spec ReadyQueue_spec = {
    "otavia_ft.lane.ReadyQueue", sizeof(ReadyQueue), 0, RINGS_FLAGS, ReadyQueue_slots,
};

static PyMethodDef Desk_methods[] = {
    {"push", (PyCFunction)Desk_push, METH_O,
     "Something that has yielded: to the tail of the own ring, or to the global one."},
    {"take", (PyCFunction)Desk_take, METH_NOARGS,
     "The next item: own, global, stolen; every so often the global ring first."},
    {"run_turns", FASTCALL(Desk_run_turns), METH_FASTCALL,
     "run_turns(context, deadline, stopping, stride, failed): take and run, until there is nothing "
     "or time is up; how many ran."},
    {NULL},
};

static PyMemberDef Desk_members[] = {
    {"ring", T_OBJECT, offsetof(Desk, ring), READONLY, NULL},
    {"steals", T_LONGLONG, offsetof(Desk, steals), READONLY, NULL},
    {NULL},
};

static PyType_Slot Desk_slots[] = {
    {Py_tp_doc, "One worker's place at the rings. Only that worker uses it."},
    {Py_tp_methods, Desk_methods}, {Py_tp_members, Desk_members},
    {Py_tp_traverse, Desk_traverse}, {Py_tp_dealloc, Desk_dealloc},
    {0, NULL},
};

static PyType_Spec Desk_spec = {
    "otavia_ft.lane.Desk", sizeof(Desk), 0,
    RINGS_FLAGS | Py_TPFLAGS_DISALLOW_INSTANTIATION, Desk_slots,
};
