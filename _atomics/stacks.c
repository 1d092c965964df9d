/* Stacks and coroutines in the native lane: what a handler leaves behind that goes on later. Touched
 * only by the thread that runs the actor, as everything in asks.c. */

/* ---- stacks -------------------------------------------------------------------------------- */

static PyTypeObject *stack_base_type;

OTV_OBJECT(StackBase, actor, asker)

static PyObject *StackBase_new(PyTypeObject *type, PyObject *Py_UNUSED(a), PyObject *Py_UNUSED(k))
{
    StackBase *self = (StackBase *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->state = Py_XNewRef(known.start);
    return (PyObject *)self;
}

static PyMemberDef StackBase_members[] = {
    OBJECT(StackBase, actor), OBJECT(StackBase, house), OBJECT(StackBase, state),
    OBJECT(StackBase, next_state), OBJECT(StackBase, uncompleted_head),
    OBJECT(StackBase, uncompleted_tail), OBJECT(StackBase, completed_head),
    OBJECT(StackBase, completed_tail), OBJECT(StackBase, attach), OBJECT(StackBase, pool),
    OBJECT(StackBase, content), OBJECT(StackBase, asker), NUMBER(StackBase, ask_id),
    TRUTH(StackBase, done),
    {NULL},
};

/* Stack.suspend */
static PyObject *StackBase_suspend(StackBase *self, PyObject *state)
{
    if (self->done || !PyObject_TypeCheck(state, (PyTypeObject *)known.stack_state))
        return PyObject_CallFunctionObjArgs(known.refuse_suspend, self, state, NULL);
    put_field(&self->next_state, Py_NewRef(state));
    return Py_NewRef(known.suspend);
}

/* NoticeStack.return_ */
static PyObject *StackBase_return_notice(StackBase *self, PyObject *Py_UNUSED(ignored))
{
    if (self->done)
        return PyObject_CallOneArg(known.refuse_finish, (PyObject *)self);
    self->done = 1;
    return Py_NewRef(known.finish);
}

/* AskStack.return_ */
static PyObject *StackBase_return_ask(StackBase *self, PyObject *reply)
{
    if (self->done)
        return PyObject_CallOneArg(known.refuse_finish, (PyObject *)self);
    if (!is_some(self->asker))
        return PyErr_Format(PyExc_RuntimeError, "nobody has asked: this stack was made by hand");
    self->done = 1;
    return answer(self->asker, self->ask_id, reply) < 0 ? NULL : Py_NewRef(known.finish);
}

static PyMethodDef StackBase_methods[] = {
    {"suspend", (PyCFunction)StackBase_suspend, METH_O,
     "Wait; `state` says where to go on. Returns what the handler has to return."},
    {"return_notice", (PyCFunction)StackBase_return_notice, METH_NOARGS, "The notice is handled."},
    {"return_ask", (PyCFunction)StackBase_return_ask, METH_O,
     "Reply. The reply is sent now, not when the handler ends."},
    {NULL},
};

static PyType_Slot StackBase_slots[] = {
    {Py_tp_new, StackBase_new}, {Py_tp_members, StackBase_members},
    {Py_tp_methods, StackBase_methods}, OTV_GC_SLOTS(StackBase), {0, NULL},
};

static PyType_Spec StackBase_spec = {
    "otavia_ft.lane.StackBase", sizeof(StackBase), 0, OTV_FLAGS, StackBase_slots,
};

/* Link to the end of a chain whose head and tail these are. */
static void chain_append(PyObject **head, PyObject **tail, PromiseBase *promise)
{
    PromiseBase *last = (PromiseBase *)(is_some(*tail) ? *tail : NULL);
    if (last == NULL) {
        put_field(head, Py_NewRef((PyObject *)promise));
    } else {
        put_field(&promise->prev, Py_NewRef((PyObject *)last));
        put_field(&last->next, Py_NewRef((PyObject *)promise));
    }
    put_field(tail, Py_NewRef((PyObject *)promise));
}

static void stack_add_uncompleted(StackBase *stack, PromiseBase *promise)
{
    put_field(&promise->stack, Py_NewRef((PyObject *)stack));
    chain_append(&stack->uncompleted_head, &stack->uncompleted_tail, promise);
}

/* From the uncompleted chain to the end of the completed one. The caller holds the promise. */
static void stack_move_completed(StackBase *stack, PromiseBase *promise)
{
    PyObject *before = promise->prev, *after = promise->next;
    promise->prev = promise->next = NULL;
    put_field(is_some(before) ? &((PromiseBase *)before)->next : &stack->uncompleted_head,
              Py_XNewRef(after));
    put_field(is_some(after) ? &((PromiseBase *)after)->prev : &stack->uncompleted_tail,
              Py_XNewRef(before));
    Py_XDECREF(before);
    Py_XDECREF(after);
    chain_append(&stack->completed_head, &stack->completed_tail, promise);
}

/* Let the promises that have come go: without this, stack and promise would hold each other until
 * the collector finds them. */
static void stack_drop_completed(StackBase *stack)
{
    PyObject *promise = stack->completed_head;
    stack->completed_head = NULL;
    Py_CLEAR(stack->completed_tail);
    while (is_some(promise)) {
        PromiseBase *gone = (PromiseBase *)promise;
        promise = gone->next;
        gone->next = NULL;
        Py_CLEAR(gone->prev);
        Py_CLEAR(gone->stack);
        Py_DECREF(gone);
    }
    Py_XDECREF(promise);
}

/* ---- coroutines ---------------------------------------------------------------------------- */

static PyTypeObject *coroutine_base_type;

OTV_OBJECT(CoroutineBase, coroutine, awaited)

static PyMemberDef CoroutineBase_members[] = {
    OBJECT(CoroutineBase, coroutine), OBJECT(CoroutineBase, awaited), {NULL},
};

static PyType_Slot CoroutineBase_slots[] = {
    {Py_tp_members, CoroutineBase_members}, OTV_GC_SLOTS(CoroutineBase), {0, NULL},
};

static PyType_Spec CoroutineBase_spec = {
    "otavia_ft.lane.CoroutineBase", sizeof(CoroutineBase), 0, OTV_FLAGS, CoroutineBase_slots,
};
