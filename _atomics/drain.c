/* Drain: the loop over one mailbox.
 *
 * `for message in house.drain(NOTICE, budget)` takes one message a step, and ends when the mailbox
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
    int taking = self->left <= 0 ? -1 : may_take(cell);
    if (taking < 0)
        return NULL;
    PyObject *message = NULL;
    if (self->box == BOX_system || !otv_has_mail(mailbox_of(cell, BOX_system)))
        message = (PyObject *)otv_pop(mailbox_of(cell, self->box));
    if (message != NULL)
        self->left--;
    done_taking(cell, taking);
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
